"""How the course of a trial's accuracy compares with a baseline's of the same seed."""

from collections.abc import Callable, Sequence
from math import inf, isinf
from statistics import median

import numpy as np

from studies.results import Measured

Pairs = Sequence[tuple[Measured, Measured]]  # a method's trial and the baseline's, for each seed


def first_reached(course: Sequence[float], wanted: float, at: Sequence[float]) -> float:
    """Return where a course first reaches a value, linear between its points; infinite if it never does.

    Args:
        course: values, the first at the start.
        wanted: the value.
        at: [len(course)] where each stands, rising.
    """
    reached = np.flatnonzero(np.asarray(course) >= wanted)
    if not len(reached):
        return inf
    place = int(reached[0])
    if place == 0:
        return at[0]
    before, after = course[place - 1], course[place]
    return at[place - 1] + (at[place] - at[place - 1]) * (wanted - before) / (after - before)


def rollouts_to_end(ours: Measured, theirs: Measured) -> float:
    """Return how many rollouts a trial takes to the baseline's final accuracy; 1: as many as the baseline in all."""
    reached = first_reached(ours["accuracy"], theirs["accuracy"][-1], ours["rollouts_spent"])
    return reached / float(theirs["rollouts"])


def until(value: Callable[[Measured, Measured], float], pairs: Pairs) -> str:
    """Return the median over seeds of what it takes to get somewhere, and how many never get there."""
    found = [value(ours, theirs) for ours, theirs in pairs]
    never, middle = sum(map(isinf, found)), median(found)
    if isinf(middle):
        return f"never, {never} of {len(found)}"
    return f"{middle:.2f}" + (f", {never} of {len(found)} never" if never else "")
