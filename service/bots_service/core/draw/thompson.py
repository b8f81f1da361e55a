"""Exact Thompson sampling over a whole pool, at a cost of one evaluation per profile.

All members of a profile share one distribution. So of a large profile only those are drawn that fall near the target:
how many lie within a window around it is binomial, and their values follow the distribution within the window.
"""

import math
from dataclasses import dataclass

import numpy as np

from bots_service.core.arrays import Counts, Floats
from bots_service.core.belief.distributions import Distributions

# A profile gets a window from WINDOW_MEMBERS on, the pool from WINDOW_TASKS on, and only for a small share of it. These
# thresholds are derived, not tuned, from what single calls took (numpy 2.4, scipy 1.17): 43 ns a draw, 1.2 us a
# profile's part of a window (two betainc, one betaln, one binomial), 1.2 us each value found there (betaincinv).
WINDOW_MEMBERS = 24
WINDOW_TASKS = 6_000
WINDOW_SHARE = 1 / 30
PLAIN_SHARE = 1 / 30  # of a profile's members: with more of them inside, it is cheaper drawn out
# How many more than wanted a window should hold, in standard deviations: by the normal approximation one in 30,000 then
# holds too few; the fewer are wanted, the more often it happens (of one wanted task, one in 150). It costs only time.
MARGIN = 4.0
SLACK = 4.0  # a window may hold this many times the tasks needed: another look for a better one costs more
TRIES = 64  # halvings of log(distance): enough to separate any two doubles
REDRAWS = 64  # each fails for at most 1 / 30 of the values
TINY = 1e-300  # distances below this count as 0: smaller ones may underflow


@dataclass(frozen=True, slots=True)
class Draws:
    """Sampled success probabilities and their owners.

    values: [n] in [0, 1].
    owners: [n] the profile; for a task drawn individually, the number of profiles plus the task's index.
    """

    values: Floats
    owners: Counts


def draw_nearest(
    own: Distributions,
    profile_beliefs: Distributions,
    sizes: Counts,
    *,
    count: int,
    target: float,
    rng: np.random.Generator,
) -> Draws:
    """Draw for every task and return the `count` draws nearest to the target, nearest first.

    Args:
        own: [T] distributions of the tasks that are drawn individually.
        profile_beliefs: [G] distributions of the members of each profile.
        sizes: [G] number of tasks of each profile.
        count: at most T plus the sum of sizes.
        target: wanted success probability, in [0, 1].
    """
    if target > 0.5:
        # Doubles are more precise near 0 than near 1, so a target near 1 is mirrored.
        shared = profile_beliefs.mirrored()
        mirrored = draw_nearest(own.mirrored(), shared, sizes, count=count, target=1 - target, rng=rng)
        return Draws(1 - mirrored.values, mirrored.owners)
    is_windowed = sizes >= WINDOW_MEMBERS
    tasks = int(sizes[is_windowed].sum())
    if tasks < WINDOW_TASKS or count > WINDOW_SHARE * tasks:
        is_windowed[:] = False
    each = _members(np.where(is_windowed, 0, sizes))
    values = np.concatenate([own.sample(rng), profile_beliefs.at(each).sample(rng)])
    owners = np.concatenate([np.arange(len(sizes), len(sizes) + len(own)), each])
    if is_windowed.any():
        profiles = np.flatnonzero(is_windowed)
        more = _near(profile_beliefs.at(profiles), sizes[profiles], _distances(values, target), count, target, rng)
        values = np.concatenate([values, more.values])
        owners = np.concatenate([owners, profiles[more.owners]])
    chosen = nearest(_distances(values, target), count, rng)
    return Draws(values[chosen], owners[chosen])


def _members(sizes: Counts) -> Counts:
    """Return each profile as often as it has members."""
    return np.flatnonzero(sizes) if sizes.max(initial=0) <= 1 else np.repeat(np.arange(len(sizes)), sizes)


def _distances(values: Floats, target: float) -> Floats:
    return np.maximum(np.abs(values - target), TINY)


def _near(
    beliefs: Distributions, sizes: Counts, known: Floats, count: int, target: float, rng: np.random.Generator
) -> Draws:
    """Draw those members of profiles that can be among the `count` nearest of all tasks; owners are places in `sizes`.

    beliefs, sizes: [g] of these profiles; known: distances of all other tasks; target: at most 1/2.
    """
    # Nothing matters beyond the count-th nearest of the others, or the far end of [0, 1].
    limit = float(np.partition(known, count - 1)[count - 1]) if len(known) >= count else 1 - target
    reach, low, share = _window(beliefs, sizes, count, target, limit)
    plain = share > PLAIN_SHARE
    inside = np.where(plain, 0, rng.binomial(sizes, share))
    drawn_out, rare = _members(np.where(plain, sizes, 0)), np.repeat(np.arange(len(sizes)), inside)
    levels = low[rare] + share[rare] * rng.random(len(rare))
    found = beliefs.at(rare).quantile(np.minimum(levels, 1.0)).clip(max(target - reach, 0.0), min(target + reach, 1.0))
    values, owners = np.concatenate([beliefs.at(drawn_out).sample(rng), found]), np.concatenate([drawn_out, rare])
    within = sum(np.count_nonzero(distances <= reach) for distances in (known, _distances(values, target)))
    if within < count:
        rest = _members(np.where(plain, 0, sizes - inside))
        values = np.concatenate([values, _outside(beliefs.at(rest), target, reach, rng)])
        owners = np.concatenate([owners, rest])
    return Draws(values, owners)


def _window(
    beliefs: Distributions, sizes: Counts, count: int, target: float, limit: float
) -> tuple[float, Floats, Floats]:
    """Find a window around the target that should contain enough members and not many more, reaching at most `limit`.

    It uses expectations, never the values of these members, so the draw stays exact.

    Returns:
        How far the window reaches; [g] P(X below it); and [g] P(X within it).
    """
    fewest = count + MARGIN * math.sqrt(count)
    aim = (1 + SLACK) / 4 * fewest
    # At first as if densities were constant around the target.
    per_distance = 2 * float(sizes @ np.exp(np.minimum(beliefs.log_density(target), 600.0)))
    tight, wide, reach = 0.0, limit, min(limit, aim / max(per_distance, TINY))
    low, share = _within(beliefs, target, reach)
    for _ in range(TRIES):
        expected = float(sizes @ share)
        if fewest <= expected <= SLACK * fewest or not tight < wide:
            break
        tight, wide = (reach, wide) if expected < fewest else (tight, reach)
        reach *= min(max(aim / max(expected, TINY), 1 / 16), 16)
        if not tight < reach < wide:
            reach = math.sqrt(max(tight, TINY)) * math.sqrt(wide)
        if not tight < reach < wide:
            tight = reach = wide
        low, share = _within(beliefs, target, reach)
    return reach, low, share


def _within(beliefs: Distributions, target: float, reach: float) -> tuple[Floats, Floats]:
    """[g] P(X below a window), and [g] P(X within it)."""
    low = beliefs.below(max(target - reach, 0.0))
    return low, np.clip(beliefs.below(min(target + reach, 1.0)) - low, 0.0, 1.0)


def _outside(beliefs: Distributions, target: float, reach: float, rng: np.random.Generator) -> Floats:
    """[n] draws, conditional on a distance from the target of at least `reach`."""
    values = beliefs.sample(rng)
    for _ in range(REDRAWS):
        again = np.flatnonzero(np.abs(values - target) < reach)
        if not len(again):
            break
        values[again] = beliefs.at(again).sample(rng)
    return values


def nearest(distances: Floats, count: int, rng: np.random.Generator) -> Counts:
    """Return the indices of the `count` >= 1 smallest distances, ascending; ties are broken and ordered at random."""
    places = np.arange(len(distances))
    if count < len(distances):
        last = np.partition(distances, count - 1)[count - 1]
        nearer, tied = np.flatnonzero(distances < last), rng.permutation(np.flatnonzero(distances == last))
        places = np.concatenate([nearer, tied[: count - len(nearer)]])
    mixed = rng.permutation(places)
    return mixed[np.argsort(distances[mixed], kind="stable")]
