"""Checks of values that come from outside: names, and decoded headers and arrays."""

import math
from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta
from numpy.typing import NDArray

NAME = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"

# Fields of requests. "\Z", for Python's "$" lets a last line feed pass.
Name = Annotated[str, Meta(pattern=NAME.removesuffix("$") + r"\Z")]
TaskId = Annotated[str, Meta(min_length=1, max_length=256)]
Tag = Annotated[str, Meta(min_length=1, max_length=64)]
MAX_IDS = 100_000  # in a list of them


Arrays = dict[str, NDArray[Any]]


def as_count(value: Any) -> int:
    """Return the value; raise ValueError unless it is an int >= 0."""
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value


def as_number(value: Any) -> float:
    """Return the value; raise ValueError unless it is a finite float."""
    if type(value) is not float or not math.isfinite(value):
        raise ValueError(f"{value!r} is not a finite number")
    return value


def as_positive(value: Any) -> float:
    """Return the value; raise ValueError unless it is a finite float above 0."""
    if as_number(value) <= 0.0:
        raise ValueError(f"{value!r} is not above 0")
    return float(value)


def require_arrays(arrays: Arrays, wanted: Mapping[str, tuple[Any, ...]]) -> None:
    """Raise ValueError unless exactly the wanted arrays are there.

    Args:
        arrays: what was decoded.
        wanted: for each name, the type as numpy writes it ("<f8"), and the shape.
    """
    found = {name: (array.dtype.str, *array.shape) for name, array in arrays.items()}
    if found != wanted:
        raise ValueError(f"arrays {found}")
