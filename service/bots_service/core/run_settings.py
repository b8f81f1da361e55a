"""The settings of a run, with the paper's symbols (BOTS, arXiv:2510.26374).

New runs get the tracker and `pass` (docs/decisions/0046); belief "bots" has the paper's values, except `capability`.
"""

import math
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

from bots_service.core.mix import Mix, read_mix
from bots_service.errors import Flaw, InvalidSettingsError, not_a_choice
from bots_service.retention import LEASE_S, LONGEST_LEASE_S

if TYPE_CHECKING:  # they read these settings
    from bots_service.core.belief.protocol import Belief

CapabilityRule = Literal["least_squares", "paper"]  # how c is found; "paper" divides means of a batch
StrategyName = Literal["thompson", "pass", "uniform", "shuffle", "easy_to_hard"]

TYPICAL_ROLLOUTS = 16.0  # of a task, before any report says how many; as in the paper


@dataclass(frozen=True, slots=True)
class RunSettings:
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
    forgetting: float = 0.1
    implicit_weight: float = 0.1
    rollouts_per_task: float | None = None
    target: float = 0.5
    prior: tuple[float, float] = (1.0, 1.0)
    capability: CapabilityRule = "least_squares"
    capability_momentum: float = 0.9
    strategy: StrategyName = "pass"
    seed: int = 0
    tasks_per_step: int | None = None
    reward_range: tuple[float, float] = (0.0, 1.0)
    lease_seconds: float = LEASE_S
    mix: Mix = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain values, ready for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}  # asdict copies each value, which takes long

    def in_use(self) -> dict[str, Any]:
        """Return the settings that mean something to the run: without those of other kinds of belief alone."""
        unread = _unread_by(self.belief)
        return {name: value for name, value in self.as_dict().items() if name not in unread}


FIXED = ("belief", "prior")  # a state is built on them


def changed_settings(values: dict[str, Any], base: RunSettings) -> RunSettings:
    """Return a run's settings after a change.

    Args:
        values: what changes: setting names and values, as `settings_from` reads them.
        base: the settings before.

    Raises:
        InvalidSettingsError: as `settings_from`, or a value differs on which the run's state is built.
    """
    settings = settings_from(values, base)
    _require_fixed(settings, base)
    return settings


def _require_fixed(settings: RunSettings, base: RunSettings) -> None:
    flaws = fixed_flaws(settings, base)
    if flaws:
        raise InvalidSettingsError("these settings can't be changed", flaws)


def fixed_flaws(settings: RunSettings, base: RunSettings) -> tuple[Flaw, ...]:
    """Return a flaw for each setting that differs and can't change once a run exists."""
    changed = [name for name in FIXED if getattr(settings, name) != getattr(base, name)]
    return tuple(
        Flaw((name,), f"the {name} is fixed once a run exists; create another run with it") for name in changed
    )


def settings_from(values: dict[str, Any], base: RunSettings | None = None) -> RunSettings:
    """Return the base settings with some values replaced, once all are within their range.

    Args:
        values: setting names and values, numbers and pairs as JSON gives them.
        base: what the other settings are; the defaults if None.

    Raises:
        InvalidSettingsError: a name is unknown or a value is out of range; carries every flaw.
    """
    known = {field.name for field in fields(RunSettings)}
    flaws = [
        Flaw((name,), f"unknown setting; known: {', '.join(sorted(known))}") for name in values if name not in known
    ]
    given = {name: value for name, value in values.items() if name in known}
    merged = {**(base or RunSettings()).as_dict(), **given}
    for name, value in merged.items():
        flaw = _flaw_of(name, value)
        if flaw:
            flaws.append(Flaw((name,), flaw))
    if flaws:
        raise InvalidSettingsError("invalid settings", tuple(flaws))
    if base is None and "strategy" not in given:
        merged["strategy"] = _default_strategy(merged["belief"])
    for pair in ("prior", "reward_range"):
        merged[pair] = (float(merged[pair][0]), float(merged[pair][1]))
    merged["mix"] = read_mix(merged["mix"])
    for number in _RANGES:
        merged[number] = None if merged[number] is None else float(merged[number])
    return RunSettings(**merged)


def settings_asked(values: dict[str, Any], base: RunSettings | None = None) -> RunSettings:
    """Return what somebody asks for now: the settings of a new run, or those after a change of the base.

    Raises:
        InvalidSettingsError: as `settings_from` or `changed_settings`; or the run's kind of belief would ignore a value
            that differs from the base's.
    """
    settings, before = settings_from(values, base), base or RunSettings()
    changed = [name for name in values if getattr(settings, name) != getattr(before, name)]
    unread = _unread_by(settings.belief)
    if flaws := tuple(_ignored(settings.belief, name, unread[name]) for name in changed if name in unread):
        raise InvalidSettingsError("invalid settings", flaws)
    if base is not None:
        _require_fixed(settings, base)
    return settings


def _ignored(belief: str, name: str, other: str) -> Flaw:
    todo = f"leave it out, or create a run with the belief {other!r}"
    return Flaw((name,), f"the belief {belief!r} has no {name}; {todo}")


_RANGES: dict[str, tuple[float, float]] = {
    "forgetting": (0.0, 1.0),
    "implicit_weight": (0.0, 1.0),
    "rollouts_per_task": (1.0, 1e5),
    "target": (0.0, 1.0),
    "capability_momentum": (0.0, 1.0),
    "lease_seconds": (1.0, LONGEST_LEASE_S),
}
_PRIOR_RANGE = (1e-3, 1e6)
_REWARD_LIMIT = 1e9
_INTEGERS = {"seed": (0, 2**63 - 1), "tasks_per_step": (1, 10**6)}
_CHOICES = {
    "strategy": get_args(StrategyName),
    "capability": get_args(CapabilityRule),
}
_OPTIONAL = ("rollouts_per_task", "tasks_per_step")


def _flaw_of(name: str, value: Any) -> str | None:
    """Return what is wrong with one setting, or None."""
    if value is None and name in _OPTIONAL:
        return None
    if name in _RANGES:
        return _outside(value, *_RANGES[name])
    if name == "belief":
        return _not_one_of(tuple(_kinds()), value)
    if name in _CHOICES:
        return _not_one_of(_CHOICES[name], value)
    if name in _INTEGERS:
        return _not_a_count(name, value)
    if name == "mix":
        return _not_a_mix(value)
    return _not_a_pair(name, value)


def _kinds() -> dict[str, "type[Belief]"]:
    from bots_service.core.belief.kinds import KINDS  # not above: the command line needs no numpy for its help

    return KINDS


def _default_strategy(belief: str) -> StrategyName:
    return _kinds()[belief].default_strategy


def _unread_by(belief: str) -> dict[str, str]:
    """Return the settings that this kind of belief doesn't read, each with another kind that does."""
    kinds = _kinds()
    read = kinds[belief].own_settings
    return {name: other for other, kind in kinds.items() for name in kind.own_settings if name not in read}


def _not_one_of(names: tuple[str, ...], value: Any) -> str | None:
    return None if value in names else not_a_choice(value, names)


def _outside(value: Any, low: float, high: float) -> str | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return None if is_number and low <= value <= high else f"{value!r} is not a number in [{low:g}, {high:g}]"


def _not_a_count(name: str, value: Any) -> str | None:
    low, high = _INTEGERS[name]
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return None if is_integer and low <= value <= high else f"{value!r} is not a whole number in [{low}, {high}]"


def _not_a_mix(value: Any) -> str | None:
    try:
        read_mix(value)
    except ValueError as error:
        return str(error)
    return None


def _not_a_pair(name: str, value: Any) -> str | None:
    if not isinstance(value, list | tuple) or len(value) != 2:
        return f"{value!r} is not a pair of numbers"
    low, high = _PRIOR_RANGE if name == "prior" else (-_REWARD_LIMIT, _REWARD_LIMIT)
    for number in value:
        flaw = _outside(number, low, high)
        if flaw:
            return flaw
    if name == "reward_range" and not (value[0] < value[1] and math.isfinite(1 / (value[1] - value[0]))):
        return f"{value!r} is not a lowest and a greater highest reward"
    return None
