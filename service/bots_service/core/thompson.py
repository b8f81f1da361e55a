"""The Thompson draw over a whole pool, made by looking at each profile once.

Thompson sampling (Thompson 1933) as BOTS uses it (Shen et al., arXiv:2510.26374): draw p_k ~ Beta(alpha_k, beta_k) for
every task and keep the tasks with the smallest |p_k - target|. Members of a profile have the same Beta and are
exchangeable, so how many of them lie within a distance of the target is a Binomial, and only those need a value:

    inside ~ Binomial(members, P(|X - target| <= outer)),    value = F^-1(uniform over what F gives the window)

If fewer than wanted are inside, the next ring is drawn the same way, given that its members were not inside before.
Tasks that share their Beta with few or none are thinned instead (see thinning.py). The joint distribution is that of
one draw per task; which member got which value is left to the caller.
"""

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Counts
from bots_service.core.crowd import TRIES, draw_ring, gather, widen
from bots_service.core.draws import Betas, Draws, Singles, nearest, nearest_or_tied
from bots_service.core.thinning import draw_singles

# A profile gets a window from WINDOW_MEMBERS on, the pool from WINDOW_TASKS on, and only for a small share of it. These
# thresholds are derived, not tuned, from what single calls took (numpy 2.4, scipy 1.17): 43 ns a draw, 1.2 us a
# profile's part of a window (two betainc, one betaln, one binomial), 1.2 us each value found there (betaincinv).
WINDOW_MEMBERS = 24
WINDOW_TASKS = 6_000
WINDOW_SHARE = 1 / 30
RINGS = 16  # the last ring takes in all that can matter, so nothing loops for ever


def draw_nearest(
    alone: Betas, shared: Betas, sizes: Counts, *, count: int, target: float, rng: np.random.Generator
) -> Draws:
    """Draw for every task and return the `count` draws nearest to the target, nearest first.

    Args:
        alone: [T] beliefs of tasks that are drawn one by one.
        shared: [G] beliefs of profiles.
        sizes: [G] how many tasks follow each profile.
        count: how many are wanted, at most T plus the sum of sizes.
        target: wanted success probability, in [0, 1].
    """
    if target > 0.5:
        # Doubles are fine-grained near 0 and coarse near 1, so a target near 1 is looked at from the other end.
        mirrored = draw_nearest(alone[::-1], shared[::-1], sizes, count=count, target=1 - target, rng=rng)
        return Draws(1 - mirrored.values, mirrored.owners)
    windowed = deserve_window(sizes, count)
    drawn = draw_singles(one_by_one(alone, shared, np.where(windowed, 0, sizes)), count, target, rng)
    crowd = gather(shared, sizes, np.flatnonzero(windowed))
    for rings_left in reversed(range(RINGS)):
        if not len(crowd.left):
            break
        drawn = nearest_or_tied(drawn, target, count)
        near = np.sort(drawn.distances(target))
        # At the count-th nearest of what is drawn, or at the far end of [0, 1], nothing beyond can matter.
        limit = float(near[count - 1]) if len(near) >= count else 1 - target
        if limit <= crowd.window.reach:
            break
        window = widen(crowd, near, count, target, limit=limit, tries=TRIES if rings_left else 0)
        found, crowd = draw_ring(crowd, window, target, rng)
        drawn = drawn.joined(found)
    return drawn.taken(nearest(drawn.distances(target), count, rng))


def deserve_window(sizes: Counts, count: int) -> NDArray[np.bool_]:
    """[G] for which profiles a window costs less than drawing each member."""
    large = sizes >= WINDOW_MEMBERS
    tasks = int(sizes[large].sum())
    if tasks < WINDOW_TASKS or count > WINDOW_SHARE * tasks:
        large[:] = False
    return large


def one_by_one(alone: Betas, shared: Betas, sizes: Counts) -> Singles:
    """Return the tasks alone, and so many members of each profile."""
    # Where no profile has two members, as with real-valued pass rates, there is a quicker way to name their owners.
    single = sizes.max(initial=0) <= 1
    owners = np.flatnonzero(sizes) if single else np.repeat(np.arange(len(sizes)), sizes)
    alpha, beta = (np.concatenate([own, common.take(owners)]) for own, common in zip(alone, shared, strict=True))
    places = np.arange(len(sizes), len(sizes) + len(alone[0]))
    return Singles(np.concatenate([places, owners]), alpha, beta)
