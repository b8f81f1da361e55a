"""Rounding of numbers that people read. On its own, so that the command line loads no numpy."""

from math import floor


def half_up(value: float, digits: int) -> str:
    """Return a number with so many decimals. A half goes up, as in the page's JavaScript, so that all show the same."""
    return f"{floor(value * 10**digits + 0.5) / 10**digits:.{digits}f}"
