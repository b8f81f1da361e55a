"""Cells of a pool: profiles with nearly the same reference pass rates, of which one stands for all.

Where pass rates are real numbers nearly every task is a profile of its own, and a look at each takes long. Profiles of
a cell differ little, so what holds for its middle profile bounds what holds for the others.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Counts, Flags, Floats, Tasks, frozen, is_first

FEWEST_PROFILES = 20_000  # a draw from fewer takes no longer without cells
FEWEST_MEMBERS = 8  # profiles of a cell, on average; with fewer a look at each is as quick
MOST_CELLS = 2048  # of the grid, as long as it divides at all: looking at more takes longer than they save
FEWEST_INTERVALS = 2  # of the pass rates of each model


@dataclass(frozen=True, eq=False)
class Cells:
    """C cells of a pool's profiles.

    of_task: [N] the cell of each task.
    middles: [C] the profile in the middle of each cell.
    reach: [M, C] by how much pass rates of a cell's profiles differ from the middle's at most.
    logit_reach: [M, C] the same of their logits.
    """

    of_task: NDArray[np.uint16]
    middles: Tasks
    reach: Floats
    logit_reach: Floats

    def __len__(self) -> int:
        return len(self.middles)


def cells_of(
    references: Floats,
    is_unknown: Flags,
    kinds: Counts | None,
    profile_of: Tasks,
    *,
    logits: Callable[[Floats], Floats],
) -> Cells | None:
    """Return the cells of a regular grid over the pass rates; None where they would hold too few profiles each.

    Args:
        references: [G, M] pass rates of the profiles.
        is_unknown: [G] where pass rates are unknown: these profiles get cells of their own.
        kinds: [G] numbers from 0 on; only profiles with the same share a cell. None if all may.
        profile_of: [N] the profile of each task.
        logits: gives the tracker's logits of pass rates, which rise with them.
    """
    profiles, models = references.shape
    if profiles < FEWEST_PROFILES or models == 0:
        return None
    codes = _grid_codes(references, is_unknown, np.zeros(profiles, np.int64) if kinds is None else kinds)
    by_cell = np.argsort(codes, kind="stable")
    first = is_first(codes[by_cell])
    starts = np.flatnonzero(first)
    if len(starts) > min(profiles // FEWEST_MEMBERS, np.iinfo(np.uint16).max):
        return None
    numbers = np.cumsum(first) - 1
    rates = references.take(by_cell, axis=0).T.copy()
    rates[:, is_unknown[by_cell]] = 0.0
    least, largest = (bound.reduceat(rates, starts, axis=1) for bound in (np.minimum, np.maximum))
    places = _nearest(rates, (least + largest) / 2, starts, numbers)
    of_profile = np.empty(profiles, np.uint16)
    of_profile[by_cell] = numbers
    return Cells(
        of_task=frozen(of_profile[profile_of]),
        middles=frozen(by_cell[places].astype(np.int32)),
        reach=frozen(_reach(least, rates[:, places], largest)),
        logit_reach=frozen(_reach(*map(logits, (least, rates[:, places], largest)))),
    )


def intervals_of(models: int, kinds: int) -> int:
    """Return into how many intervals the grid divides the pass rates of each of so many models."""
    intervals = FEWEST_INTERVALS
    while (intervals + 1) ** models * kinds <= MOST_CELLS:
        intervals += 1
    return intervals


def _grid_codes(references: Floats, is_unknown: Flags, kinds: Counts) -> NDArray[np.unsignedinteger]:
    """[G] a number for each cell of each kind's grid, and one for each kind's profiles of which nothing is known."""
    models = references.shape[1]
    intervals = intervals_of(models, int(kinds.max()) + 1)
    codes = kinds * np.int64(intervals**models + 1)
    for model, rates in enumerate(references.T):
        places = np.fmin(rates * intervals, intervals - 1).astype(np.int64)
        places *= intervals**model
        codes += places
    codes[is_unknown] = (kinds[is_unknown] + 1) * (intervals**models + 1) - 1
    return codes.astype(np.min_scalar_type(int(codes.max())))  # numpy sorts small numbers faster


def _nearest(rates: Floats, aims: Floats, starts: Counts, numbers: Counts) -> Counts:
    """[C] where the profile stands that is nearest to its cell's aim, the first of several.

    Args:
        rates: [M, G] pass rates, cell by cell.
        aims: [M, C] of each cell.
        starts: [C] where the cells begin.
        numbers: [G] the cell of each place.
    """
    distances = np.zeros(len(numbers))
    for values, aim in zip(rates, aims, strict=True):
        np.maximum(distances, np.abs(values - aim[numbers]), out=distances)
    places = np.flatnonzero(distances == np.minimum.reduceat(distances, starts)[numbers])
    found: Counts = places[is_first(numbers[places])]
    return found


def _reach(least: Floats, middle: Floats, largest: Floats) -> Floats:
    """Return by how much values between the least and the largest differ from the middle at most."""
    return np.maximum(largest - middle, middle - least)
