"""The settings of a run, with the paper's symbols (BOTS, arXiv:2510.26374).

New runs get the tracker and `pass` (docs/decisions/0039); belief "bots" has the paper's values, except `capability`.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, structs

from bots_service.core.checks import Tag
from bots_service.errors import Flaw, InvalidSettingsError, not_a_choice
from bots_service.retention import LEASE_S, LONGEST_LEASE_S

CapabilityRule = Literal["least_squares", "paper"]  # how c is found; "paper" divides means of a batch
StrategyName = Literal["thompson", "pass", "uniform", "shuffle", "easy_to_hard"]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
PriorCount = Annotated[float, Meta(ge=1e-3, le=1e6)]
Reward = Annotated[float, Meta(ge=-1e9, le=1e9)]

Mix = dict[Tag, float]  # the weight of each tag, in alphabetical order

TYPICAL_ROLLOUTS = 16.0  # of a task, before any report says how many; as in the paper
MOST_TAGS_MIXED = 32  # each is a part of the pool that selections keep ready
LARGEST_WEIGHT = 1e6


class BeliefSettings(NamedTuple):
    """What a kind of belief means for settings: how its runs choose tasks, unless told, and what only it reads."""

    default_strategy: StrategyName
    own: tuple[str, ...] = ()


BELIEFS = {
    "bots": BeliefSettings("thompson", ("forgetting", "implicit_weight", "prior", "capability", "capability_momentum")),
    "tracker": BeliefSettings("pass"),
}


class RunSettings(Struct, frozen=True):
    """How one run believes, forgets and selects.

    belief: kind of belief, "tracker" or "bots". The tracker learns what BOTS needs settings for.
    forgetting: lambda, the share of the past that each step drops, in [0, 1]; belief "bots" only.
    implicit_weight: rho, the trust in evidence implied by other tasks, in [0, 1]; belief "bots" only.
    rollouts_per_task: m, how many rollouts one implied observation stands for; None: the mean of the tasks reported.
        The tracker learns nothing from it; both use it for the probability that a task is effective.
    target: p*, the success probability to look for, in [0, 1].
    prior: alpha_0 and beta_0 of every task, each in [0.001, 1e6]; belief "bots" only.
    capability: how the model's place along the references is found; "paper" divides means of a batch. Belief "bots"
        only.
    capability_momentum: gamma, how much each step keeps of what earlier batches say of it, in [0, 1]; belief "bots"
        only.
    strategy: how tasks are chosen; where it is not given, the kind of belief says: "thompson" for "bots", "pass" for
        "tracker".
    seed: of every draw; the same seed, journal and calls give the same selections.
    tasks_per_step: close a step after this many reported tasks; None: after each report.
    reward_range: rewards are mapped linearly from here to [0, 1].
    lease_seconds: how long a selected task is kept from other selections.
    mix: the weight of each tag: selections keep to their ratios, exactly over time; empty: no tag is owed anything. A
        task that carries several of the tags counts for the first in alphabetical order.
    """

    belief: str = "tracker"
    forgetting: Share = 0.1
    implicit_weight: Share = 0.1
    rollouts_per_task: Annotated[float, Meta(ge=1.0, le=1e5)] | None = None
    target: Share = 0.5
    prior: tuple[PriorCount, PriorCount] = (1.0, 1.0)
    capability: CapabilityRule = "least_squares"
    capability_momentum: Share = 0.9
    strategy: StrategyName = "pass"
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    tasks_per_step: Annotated[int, Meta(ge=1, le=10**6)] | None = None
    reward_range: tuple[Reward, Reward] = (0.0, 1.0)
    lease_seconds: Annotated[float, Meta(ge=1.0, le=LONGEST_LEASE_S)] = LEASE_S
    mix: Mix = msgspec.field(default_factory=dict)

    def in_use(self) -> "SomeSettings":
        """Return the settings that mean something to the run: without those of other kinds of belief alone."""
        unread = _unread_by(self.belief)
        return SomeSettings(**{name: value for name, value in structs.asdict(self).items() if name not in unread})


_BLANK = [(name, kind | UnsetType, UNSET) for name, kind in {**get_type_hints(RunSettings), "mix": Mix}.items()]


class SomeSettings(msgspec.defstruct("SomeSettings", _BLANK, frozen=True, forbid_unknown_fields=True)):  # type: ignore[misc]  # made of the fields above
    """Settings of a run; some may be left out."""

    def given(self) -> dict[str, Any]:
        """Return the settings that are not left out."""
        return {name: value for name, *_ in _BLANK if (value := getattr(self, name)) is not UNSET}


FIXED = ("belief", "prior")  # a state is built on them


def changed_settings(values: dict[str, Any], base: RunSettings) -> RunSettings:
    """Return a run's settings after a change; InvalidSettingsError where the run's state is built on what differs."""
    settings = settings_from(values, base)
    flaws = (
        Flaw((name,), f"the {name} is fixed once a run exists; create another run with it")
        for name in FIXED
        if getattr(settings, name) != getattr(base, name)
    )
    InvalidSettingsError.refuse("these settings can't be changed", flaws)
    return settings


def settings_from(values: dict[str, Any], base: RunSettings | None = None) -> RunSettings:
    """Return the base settings, or the defaults, with values from JSON; InvalidSettingsError carries every flaw."""
    settings, flaws = structs.asdict(base or RunSettings()), list[Flaw]()
    for name, value in values.items():
        try:
            settings[name] = _read(name, value)
        except ValueError as error:
            flaws.append(Flaw((name,), str(error)))
    InvalidSettingsError.refuse("invalid settings", flaws)
    if base is None and "strategy" not in values:
        settings["strategy"] = BELIEFS[settings["belief"]].default_strategy
    return RunSettings(**settings)


_TYPES = get_type_hints(RunSettings, include_extras=True)


def _read(name: str, value: Any) -> Any:
    """Return the value of a setting; raise ValueError, with what is wrong, where it can't have this one."""
    if name not in _TYPES:
        raise ValueError(f"unknown setting; known: {', '.join(sorted(_TYPES))}")
    if name == "mix":
        return _read_mix(value)
    kind = _TYPES[name]
    names = tuple(BELIEFS) if name == "belief" else get_args(kind) if get_origin(kind) is Literal else ()
    if names and value not in names:
        raise ValueError(not_a_choice(value, names))
    try:
        read = msgspec.convert(value, kind)
    except msgspec.ValidationError:
        raise ValueError(f"{value!r} is not {_described(kind)}") from None
    if name == "reward_range" and not (read[0] < read[1] and math.isfinite(1 / (read[1] - read[0]))):
        raise ValueError(f"{value!r} is not a lowest and a greater highest reward")
    return read


def _read_mix(value: Any) -> Mix:
    if not isinstance(value, Mapping):
        raise ValueError(f'{value!r} is not an object of weights by tag, such as {{"math": 3, "code": 1}}')
    if len(value) > MOST_TAGS_MIXED:
        raise ValueError(f"{len(value)} tags; a mix has at most {MOST_TAGS_MIXED}")
    mix = {str(tag): _read_weight(str(tag), weight) for tag, weight in sorted(value.items())}
    if mix and not any(mix.values()):
        raise ValueError("every weight is 0; give at least one tag a weight above 0")
    return mix


def _read_weight(tag: str, value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0.0 <= value <= LARGEST_WEIGHT:
        raise ValueError(f"{tag!r}: {value!r} is not a weight, a number in [0, {LARGEST_WEIGHT:g}]")
    return float(value)


def _described(kind: Any) -> str:
    """Return in words which numbers a setting can be: a number, perhaps None instead, or a pair."""
    is_pair, number = get_origin(kind) is tuple, kind if get_origin(kind) is Annotated else get_args(kind)[0]
    what, limits = get_args(number)
    noun = "a pair of numbers" if is_pair else "a whole number" if what is int else "a number"
    low, high = (f"{limit:g}" if what is float else str(limit) for limit in (limits.ge, limits.le))
    return f"{noun} in [{low}, {high}]"


def settings_asked(values: dict[str, Any], base: RunSettings | None = None) -> RunSettings:
    """Return what somebody asks for now: the settings of a new run, or those after a change of the base.

    InvalidSettingsError also where the run's kind of belief would ignore a value that differs from the base's.
    """
    settings, before = settings_from(values, base), base or RunSettings()
    belief, unread = settings.belief, _unread_by(settings.belief)
    flaws = (
        Flaw(
            (name,),
            f"the belief {belief!r} has no {name}; leave it out, or create a run with the belief {unread[name]!r}",
        )
        for name in values
        if name in unread and getattr(settings, name) != getattr(before, name)
    )
    InvalidSettingsError.refuse("invalid settings", flaws)
    return settings if base is None else changed_settings(values, base)


def _unread_by(belief: str) -> dict[str, str]:
    """Return the settings that this kind of belief doesn't read, each with another kind that does."""
    read = BELIEFS[belief].own
    return {name: other for other, kind in BELIEFS.items() for name in kind.own if name not in read}
