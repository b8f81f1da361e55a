"""Rounding of numbers that people read."""

from math import floor


def half_up(value: float, digits: int) -> str:
    """Return a number with so many decimals. A half goes up, as in the page's JavaScript, so that all show the same."""
    scale = 10**digits
    return f"{floor(value * scale + 0.5) / scale:.{digits}f}"
