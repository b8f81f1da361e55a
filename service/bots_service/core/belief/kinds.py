"""The kinds of belief, by the name that a run's setting `belief` gives."""

from bots_service.core.belief.bots import BotsBelief
from bots_service.core.belief.protocol import Belief
from bots_service.core.belief.tracker import TrackerBelief

KINDS: dict[str, type[Belief]] = {"bots": BotsBelief, "tracker": TrackerBelief}
