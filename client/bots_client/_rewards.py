"""What trainers give as rewards: numbers of any library, lists and arrays of them, or nothing for a broken rollout."""

import math
from collections.abc import Mapping
from typing import Any

from bots_client._arguments import wrong_type

FAILURES = (
    TypeError,
    ValueError,
    OverflowError,
    RuntimeError,
)  # RuntimeError: torch's, of a tensor with several numbers


def reward_of(value: Any) -> float | None:
    """Return a rollout's reward as a number; None if it has none, so that the rollout is left out.

    Args:
        value: any number, such as a tensor with one element on any device. None, NaN and infinite ones are no reward.

    Raises:
        ValueError: it is not a number.
    """
    if value is None:
        return None
    try:
        number = float(value.item() if hasattr(value, "item") else value)
    except FAILURES as error:
        raise ValueError(f"{value!r:.80} is not a number") from error
    return number if math.isfinite(number) else None


def rewards_of(rewards: Any, name: str = "rewards") -> list[float | None]:
    """Return the reward of each rollout, as `reward_of` does.

    Args:
        rewards: a list, an array or a tensor; a single number is that of one rollout.
        name: what to call them in an error.

    Raises:
        TypeError: it is a str or a mapping.
        ValueError: one is not a number.
    """
    values = rewards.tolist() if hasattr(rewards, "tolist") else rewards  # from an accelerator's memory at once
    if isinstance(values, str | bytes | Mapping):
        raise wrong_type(name, "a list of numbers", values)
    try:
        listed = list(values)
    except TypeError:
        listed = [values]
    return [reward_of(value) for value in listed]
