"""Groups of rollouts that wait outside the belief."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bots_service.core.arrays import Flags, Tasks, frozen
from bots_service.core.checks import Arrays
from bots_service.core.evidence import NO_EVIDENCE, Evidence, joined
from bots_service.core.past_evidence import AgedEvidence

MOST_HELD = 65_536  # groups; the oldest are dropped beyond: about 1.5 MB of state, and an hour of the largest runs


@dataclass(frozen=True, slots=True)
class HeldGroups:
    """Groups of rollouts that wait outside the belief.

    evidence: [R] in the order of their steps.
    steps: [R] the number of the step that each closed with.
    """

    evidence: Evidence
    steps: Tasks

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def nbytes(self) -> int:
        """How much memory the arrays take."""
        return self.evidence.nbytes + int(self.steps.nbytes)

    def where(self, wanted: Flags) -> "HeldGroups":
        """Return the groups in the wanted places ([R])."""
        return HeldGroups(self.evidence.where(wanted).frozen(), frozen(self.steps[wanted]))

    def plus(self, evidence: Evidence, step: int) -> "HeldGroups":
        """Return the newest of these groups and those of one more step."""
        if not len(evidence):
            return self
        steps = np.concatenate([self.steps, np.full(len(evidence), step, np.int32)])
        grown = HeldGroups(joined([self.evidence, evidence]).frozen(), frozen(steps))
        return grown if len(grown) <= MOST_HELD else grown.where(np.arange(len(grown)) >= len(grown) - MOST_HELD)

    def aged(self, step: int) -> AgedEvidence:
        """Return the groups as late evidence, for a belief after so many closed steps."""
        return AgedEvidence(self.evidence, frozen((step - self.steps).astype(np.float64)))


NOTHING_HELD = HeldGroups(NO_EVIDENCE, frozen(np.empty(0, np.int32)))
_EVIDENCE = {"tasks": "<i4", "successes": "<f8", "failures": "<f8", "effective": "|b1"}


def encoded(held: HeldGroups) -> Arrays:
    """Return the groups as arrays, which `decoded` reads; an empty dictionary if no group waits."""
    if not len(held):
        return {}
    return {f"guard_{name}": getattr(held.evidence, name) for name in _EVIDENCE} | {"guard_steps": held.steps}


def shapes(arrays: Arrays) -> dict[str, tuple[Any, ...]]:
    """Return the types and shapes that the arrays must have."""
    if "guard_steps" not in arrays:
        return {}
    size = len(arrays["guard_steps"])
    return {f"guard_{name}": (kind, size) for name, kind in _EVIDENCE.items()} | {"guard_steps": ("<i4", size)}


def decoded(arrays: Arrays) -> HeldGroups:
    """Return the groups that were encoded; `shapes` has checked the arrays."""
    if "guard_steps" not in arrays:
        return NOTHING_HELD
    return HeldGroups(Evidence(*(arrays[f"guard_{name}"] for name in _EVIDENCE)), arrays["guard_steps"])


def union(sets: Sequence[Flags], size: int) -> Flags:
    """[n] whether any of some sets, each [n], holds a place; n: `size`."""
    return np.logical_or.reduce(sets) if len(sets) else np.zeros(size, np.bool_)
