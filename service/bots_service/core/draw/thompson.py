"""Exact Thompson sampling over a whole pool, at a cost of one evaluation per profile."""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Counts, Floats
from bots_service.core.belief.protocol import Distributions
from bots_service.core.draw.draws import TINY, Draws, SingleTasks, nearest, nearest_or_tied

# A profile with more than this share of its members inside a window is cheaper drawn out. Derived, not tuned: a draw
# took 43 ns and an inverse distribution function 1.2 us when each was timed alone (numpy 2.4, scipy 1.17).
PLAIN_SHARE = 1 / 30
# How many more than wanted a window should hold, in standard deviations: by the normal approximation one in 30,000 then
# holds too few; the fewer are wanted, the more often it happens (of one wanted task, one in 150). It costs only time.
MARGIN = 4.0
# A window may hold this many times the tasks needed: another look for a better one costs more.
SLACK = 4.0
TRIES = 64  # halvings of log(distance): enough to separate any two doubles


@dataclass(frozen=True, slots=True)
class Window:
    """[target - reach, target + reach], with P(X below it) and P(X not above it) for each profile, [g]."""

    reach: float
    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True)
class UndrawnMembers:
    """Members of profiles that are not drawn yet; their values are known to be outside a window.

    profiles: [g] the numbers of the profiles.
    beliefs: [g] distributions of their members.
    left: [g] members not drawn yet, > 0.
    window: contains none of them; at first of reach 0, with probabilities 0.
    """

    profiles: Counts
    beliefs: Distributions
    left: Counts
    window: Window

    def around(self, target: float, reach: float) -> Window:
        """Return a window with its probabilities for these members."""
        ends = (max(target - reach, 0.0), min(target + reach, 1.0))
        low, high = (self.beliefs.below(end) for end in ends)
        return Window(reach, low, high)

    def gained(self, wider: Window) -> Floats:
        """[g] P(inside the wider window and outside the current one)."""
        return (self.window.low - wider.low) + (wider.high - self.window.high)

    def shares(self, wider: Window) -> Floats:
        """[g] P(inside the wider window | outside the current one).

        Well conditioned, because a profile with more than PLAIN_SHARE inside is drawn completely: the divisor stays
        near 1, and an error of 1e-16 in the dividend is less than one member in any pool.
        """
        return np.clip(self.gained(wider) / (self.window.low + 1 - self.window.high), 0.0, 1.0)

    def only(self, places: Counts) -> "UndrawnMembers":
        """Return the members of the profiles at the given indices."""
        window = Window(self.window.reach, self.window.low[places], self.window.high[places])
        return UndrawnMembers(self.profiles[places], self.beliefs.at(places), self.left[places], window)


def gather(profile_beliefs: Distributions, sizes: Counts, profiles: Counts) -> UndrawnMembers:
    """Return all members of the given profiles, none of them drawn.

    Args:
        profile_beliefs: [G] distributions of the members of each profile.
        sizes: [G] number of members.
        profiles: [g] the given profiles.
    """
    nothing = np.zeros(len(profiles))
    return UndrawnMembers(profiles, profile_beliefs.at(profiles), sizes[profiles], Window(0.0, nothing, nothing))


def widen(
    undrawn: UndrawnMembers, near: Floats, count: int, target: float, *, limit: float, tries: int = TRIES
) -> Window:
    """Find a wider window that should contain enough tasks and not many more.

    It uses expectations, never the values of these members, so the draw stays exact.

    Args:
        near: sorted distances of the existing draws.
        count: number of tasks to select.
        limit: largest reach that can matter, > undrawn.window.reach.
        tries: number of windows to evaluate; 0: use the widest.
    """
    fewest = count + MARGIN * math.sqrt(count)
    aim = (1 + SLACK) / 4 * fewest
    tight, wide = undrawn.window.reach, limit
    reach = min(wide, first_reach(undrawn, near, aim, target)) if tries else wide
    window = undrawn.around(target, reach if reach > tight else wide)
    for _ in range(tries):
        reach = window.reach
        expected = np.searchsorted(near, reach, "right") + float(undrawn.left @ undrawn.shares(window))
        if fewest <= expected <= SLACK * fewest or not tight < wide:
            break
        tight, wide = (reach, wide) if expected < fewest else (tight, reach)
        reach *= min(max(aim / max(expected, TINY), 1 / 16), 16)
        if not tight < reach < wide:
            reach = math.sqrt(max(tight, TINY)) * math.sqrt(wide)
        if not tight < reach < wide:
            tight = reach = wide
        window = undrawn.around(target, reach)
    return window


def first_reach(undrawn: UndrawnMembers, near: Floats, aim: float, target: float) -> float:
    """Return the reach that would contain `aim` tasks if densities were constant around the target."""
    per_distance = 2 * float(undrawn.left @ np.exp(np.minimum(undrawn.beliefs.log_density(target), 600.0)))
    if len(near):
        per_distance += len(near) / float(near[-1])
    return undrawn.window.reach + aim / max(per_distance, TINY)


def draw_ring(
    undrawn: UndrawnMembers, wider: Window, target: float, rng: np.random.Generator
) -> tuple[Draws, UndrawnMembers]:
    """Draw the members between the current window and a wider one.

    Profiles with a large share inside are drawn completely: a plain draw is much cheaper than an inverse.

    Returns:
        The draws, and the members outside the wider window.
    """
    shares = undrawn.shares(wider)
    plain = shares > PLAIN_SHARE
    inside = np.where(plain, 0, rng.binomial(undrawn.left, shares))
    found = draw_inside(undrawn, inside, wider, target, rng)
    if plain.any():
        found = found.joined(draw_out(undrawn.only(np.flatnonzero(plain)), target, rng))
    left = undrawn.left - inside
    return found, replace(undrawn, left=left, window=wider).only(np.flatnonzero(~plain & (left > 0)))


def draw_inside(
    undrawn: UndrawnMembers, inside: Counts, wider: Window, target: float, rng: np.random.Generator
) -> Draws:
    """Draw the given number of members of each profile from its distribution truncated to the ring, by inverse CDF."""
    places = np.repeat(np.arange(len(inside)), inside)
    level = wider.low[places] + undrawn.gained(wider)[places] * rng.random(len(places))
    # Skip the probability inside the current window.
    held = undrawn.window.high - undrawn.window.low
    level += np.where(level >= undrawn.window.low[places], held[places], 0.0)
    values = undrawn.beliefs.at(places).quantile(np.minimum(level, 1.0))
    values = np.clip(values, max(target - wider.reach, 0.0), min(target + wider.reach, 1.0))
    return Draws(values, undrawn.profiles[places])


def draw_out(undrawn: UndrawnMembers, target: float, rng: np.random.Generator) -> Draws:
    """Draw all remaining members, conditional on being outside the current window."""
    places = np.repeat(np.arange(len(undrawn.left)), undrawn.left)
    members = SingleTasks(undrawn.profiles[places], undrawn.beliefs.at(places))
    return members.drawn_outside(target, undrawn.window.reach, rng)


# A profile gets a window from WINDOW_MEMBERS on, the pool from WINDOW_TASKS on, and only for a small share of it. These
# thresholds are derived, not tuned, from what single calls took (numpy 2.4, scipy 1.17): 43 ns a draw, 1.2 us a
# profile's part of a window (two betainc, one betaln, one binomial), 1.2 us each value found there (betaincinv).
WINDOW_MEMBERS = 24
WINDOW_TASKS = 6_000
WINDOW_SHARE = 1 / 30
RINGS = 16  # the last ring includes everything that can matter, so the loop ends


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
        mirrored = draw_nearest(
            own.mirrored(), profile_beliefs.mirrored(), sizes, count=count, target=1 - target, rng=rng
        )
        return Draws(1 - mirrored.values, mirrored.owners)
    windowed = deserve_window(sizes, count)
    drawn = one_by_one(own, profile_beliefs, np.where(windowed, 0, sizes)).drawn(rng)
    undrawn = gather(profile_beliefs, sizes, np.flatnonzero(windowed))
    for rings_left in reversed(range(RINGS)):
        if not len(undrawn.left):
            break
        drawn = nearest_or_tied(drawn, target, count)
        near = np.sort(drawn.distances(target))
        # Nothing matters beyond the count-th nearest draw, or the far end of [0, 1].
        limit = float(near[count - 1]) if len(near) >= count else 1 - target
        if limit <= undrawn.window.reach:
            break
        window = widen(undrawn, near, count, target, limit=limit, tries=TRIES if rings_left else 0)
        found, undrawn = draw_ring(undrawn, window, target, rng)
        drawn = drawn.joined(found)
    return drawn.taken(nearest(drawn.distances(target), count, rng))


def deserve_window(sizes: Counts, count: int) -> NDArray[np.bool_]:
    """[G] whether a window costs less than drawing each member of the profile."""
    large = sizes >= WINDOW_MEMBERS
    tasks = int(sizes[large].sum())
    if tasks < WINDOW_TASKS or count > WINDOW_SHARE * tasks:
        large[:] = False
    return large


def one_by_one(own: Distributions, profile_beliefs: Distributions, sizes: Counts) -> SingleTasks:
    """Return the individual tasks and all members of each profile, as tasks to draw individually."""
    # If no profile has two members, as with real-valued pass rates, there is a faster way to list their owners.
    single = sizes.max(initial=0) <= 1
    owners = np.flatnonzero(sizes) if single else np.repeat(np.arange(len(sizes)), sizes)
    places = np.arange(len(sizes), len(sizes) + len(own))
    return SingleTasks(np.concatenate([places, owners]), own.joined(profile_beliefs.at(owners)))
