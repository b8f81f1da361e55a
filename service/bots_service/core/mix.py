"""The mix of a run: which share of its tasks each tag is owed, by weights.

{"math": 3, "code": 1} gives three tasks of math for each of code.
"""

import math
from collections.abc import Mapping
from typing import Any

from bots_service.core.checks import Tag

Mix = dict[Tag, float]  # the weight of each tag, tags in alphabetical order

MOST_TAGS_MIXED = 32  # each is a part of the pool that selections keep ready
LARGEST_WEIGHT = 1e6


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
    if mix and not any(mix.values()):
        raise ValueError("every weight is 0; give at least one tag a weight above 0")
    return mix


def _read_weight(tag: str, value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0.0 <= value <= LARGEST_WEIGHT:
        raise ValueError(f"{tag!r}: {value!r} is not a weight, a number in [0, {LARGEST_WEIGHT:g}]")
    return float(value)


def shares_of(mix: Mix) -> dict[str, float]:
    """Return the share of the tasks that each tag is owed; they add up to 1."""
    total = math.fsum(mix.values())
    return {tag: weight / total for tag, weight in mix.items()}
