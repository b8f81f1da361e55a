"""Beliefs: how likely the model in training is to solve each task of a pool.

A kind owns how evidence changes it, and the distribution of each task's success probability; nobody else looks inside.
Tasks without evidence of their own share the distribution of their profile. A kind is a frozen dataclass of numbers,
arrays and such dataclasses, so the codec knows its bytes; processes that fold the same steps get the same ones.
"""

from bots_service.core.belief.bots import BotsBelief
from bots_service.core.belief.tracker import TrackerBelief

Belief = BotsBelief | TrackerBelief
KINDS: dict[str, type[BotsBelief] | type[TrackerBelief]] = {"bots": BotsBelief, "tracker": TrackerBelief}
