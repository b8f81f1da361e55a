"""The mix of a run: which share of its tasks each tag is owed, by weights, a floor, and what the groups taught.

{"math": 3, "code": 1}                          three tasks of math for each of code
{"math": [[0, 3], [1000, 1]], "code": 1}        a schedule: from 3 at step 0 to 1 at step 1,000, linear in between
"""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Literal, get_args

Schedule = tuple[tuple[int, float], ...]  # (step, weight), steps ascending; constant before the first, after the last
Mix = dict[str, float | Schedule]  # the weight of each tag, tags in alphabetical order
MixBalance = Literal["tasks", "effective", "learning"]

BALANCES: tuple[MixBalance, ...] = get_args(MixBalance)
MOST_TAGS_MIXED = 32  # each is a part of the pool that selections keep ready
MOST_POINTS = 64  # of a schedule
LARGEST_WEIGHT = 1e6
LARGEST_STEP = 10**9
# With "effective", a tag that hardly teaches takes at most this many times the tasks that its weight alone gives it.
MOST_TIMES = 8.0


def read_mix(value: Any) -> Mix:
    """Return the mix that plain values describe, tags in alphabetical order.

    Raises:
        ValueError: they describe none; the message says why.
    """
    if not isinstance(value, Mapping):
        raise ValueError(f'{value!r} is not an object of weights by tag, such as {{"math": 3, "code": 1}}')
    if len(value) > MOST_TAGS_MIXED:
        raise ValueError(f"{len(value)} tags; a mix has at most {MOST_TAGS_MIXED}")
    mix = {str(tag): _read_weight(str(tag), weight) for tag, weight in sorted(value.items())}
    if mix and not any(_largest(weight) for weight in mix.values()):
        raise ValueError("every weight is 0; give at least one tag a weight above 0")
    return mix


def _read_weight(tag: str, value: Any) -> float | Schedule:
    if not isinstance(value, list | tuple):
        return _read_number(tag, value)
    if not 1 <= len(value) <= MOST_POINTS:
        raise ValueError(f"{tag!r} has {len(value)} points; a schedule has 1 to {MOST_POINTS}")
    points: list[tuple[int, float]] = []
    for point in value:
        if not isinstance(point, list | tuple) or len(point) != 2 or not _is_step(point[0]):
            raise ValueError(f"{tag!r}: {point!r} is not a pair of a step and a weight, such as [1000, 0.5]")
        points.append((point[0], _read_number(tag, point[1])))
    if any(step >= later for (step, _), (later, _) in pairwise(points)):
        raise ValueError(f"{tag!r}: the steps of the schedule must ascend")
    return tuple(points)


def _read_number(tag: str, value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0.0 <= value <= LARGEST_WEIGHT:
        raise ValueError(f"{tag!r}: {value!r} is not a weight, a number in [0, {LARGEST_WEIGHT:g}]")
    return float(value)


def _is_step(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_STEP


def _largest(weight: float | Schedule) -> float:
    return weight if isinstance(weight, float) else max(at_step for _, at_step in weight)


def weight_at(weight: float | Schedule, step: int) -> float:
    """Return a tag's weight at a step."""
    if isinstance(weight, float):
        return weight
    if step <= weight[0][0]:
        return weight[0][1]
    for (start, before), (end, after) in pairwise(weight):
        if step < end:
            return before + (after - before) * ((step - start) / (end - start))
    return weight[-1][1]


def shares_at(
    mix: Mix, step: int, *, floor: float, balance: MixBalance, teaching: Mapping[str, float]
) -> dict[str, float]:
    """Return the share of the tasks that each tag is owed at a step; they add up to 1.

    Args:
        mix: the weights; at least one tag.
        step: how many steps closed.
        floor: the least share of a tag, at most 1 / tags.
        balance: "tasks": shares of the tasks follow the weights. "effective": shares of the effective tasks do.
            "learning": shares follow weight times how often a task of the tag is effective.
        teaching: for each tag, the probability that a selected task is effective, above 0.
    """
    weights = {tag: weight_at(weight, step) for tag, weight in mix.items()}
    if balance == "learning":
        weights = {tag: weight * teaching[tag] for tag, weight in weights.items()}
    elif balance == "effective":
        least = max(teaching.values()) / MOST_TIMES
        weights = {tag: weight / max(teaching[tag], least) for tag, weight in weights.items()}
    total = math.fsum(weights.values())
    if total == 0.0:  # of schedules that all stand at 0 now
        return dict.fromkeys(mix, 1.0 / len(mix))
    return _with_floor({tag: weight / total for tag, weight in weights.items()}, floor)


def _with_floor(shares: dict[str, float], floor: float) -> dict[str, float]:
    """Raise shares to the floor; the others keep their ratios."""
    raised: set[str] = set()
    while True:
        rest = math.fsum(share for tag, share in shares.items() if tag not in raised)
        scale = (1.0 - floor * len(raised)) / rest if rest else 0.0
        more = {tag for tag, share in shares.items() if tag not in raised and share * scale < floor}
        if not more:
            return {tag: floor if tag in raised else share * scale for tag, share in shares.items()}
        raised |= more
