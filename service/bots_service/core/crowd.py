"""Profiles whose members are drawn ring by ring around a target.

Members of a profile share one Beta and are exchangeable: how many of them lie within a distance of the target is a
Binomial, and only those need a value, from the Beta truncated to that window.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import betainc, betaincinv, betaln, xlog1py, xlogy

from bots_service.core.arrays import Counts, Floats
from bots_service.core.draws import TINY, Betas, Draws, Singles

# A profile with more than this share of its members inside a window is cheaper drawn out. Derived, not tuned: a draw
# took 43 ns and an inverse distribution function 1.2 us when each was timed alone (numpy 2.4, scipy 1.17).
PLAIN_SHARE = 1 / 30
# How many more than wanted a window should hold, in standard deviations: by the normal approximation one in 30,000 then
# holds too few; the fewer are wanted, the more often it happens (of one wanted task, one in 150). It costs only time.
MARGIN = 4.0
# A window may hold this many times the tasks needed: another look for a better one costs more.
SLACK = 4.0
TRIES = 64  # halvings of log(distance): enough to tell any two doubles apart


@dataclass(frozen=True, slots=True)
class Window:
    """[target - reach, target + reach], and for each profile of a crowd P(X below it) and P(X not above it), [g]."""

    reach: float
    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True)
class Crowd:
    """Members of profiles that are not drawn yet; all are known to lie outside a window.

    profiles: [g] the numbers of the profiles.
    alpha, beta: [g] what their members share.
    left: [g] members not drawn yet, > 0.
    window: where none of them lies; at first of no reach, with probabilities 0.
    """

    profiles: Counts
    alpha: Floats
    beta: Floats
    left: Counts
    window: Window

    def around(self, target: float, reach: float) -> Window:
        """Return a window and what it means for this crowd."""
        ends = (max(target - reach, 0.0), min(target + reach, 1.0))
        low, high = (np.asarray(betainc(self.alpha, self.beta, end), np.float64) for end in ends)
        return Window(reach, low, high)

    def gained(self, wider: Window) -> Floats:
        """[g] P(within the wider window, not within the present one)."""
        return (self.window.low - wider.low) + (wider.high - self.window.high)

    def shares(self, wider: Window) -> Floats:
        """[g] P(within the wider window | not within the present one).

        Well conditioned, because a profile with more than PLAIN_SHARE inside is drawn out at once: the divisor stays
        near 1, and an error of 1e-16 in the dividend is less than one member in any pool.
        """
        return np.clip(self.gained(wider) / (self.window.low + 1 - self.window.high), 0.0, 1.0)

    def only(self, places: Counts) -> "Crowd":
        """Return the crowd of the profiles at the given places."""
        window = Window(self.window.reach, self.window.low[places], self.window.high[places])
        return Crowd(self.profiles[places], self.alpha[places], self.beta[places], self.left[places], window)


def gather(shared: Betas, sizes: Counts, profiles: Counts) -> Crowd:
    """Return all members of the given profiles, none of them drawn.

    Args:
        shared: [G] beliefs of profiles.
        sizes: [G] members.
        profiles: [g] which to take.
    """
    nothing = np.zeros(len(profiles))
    return Crowd(profiles, shared[0][profiles], shared[1][profiles], sizes[profiles], Window(0.0, nothing, nothing))


def widen(crowd: Crowd, near: Floats, count: int, target: float, *, limit: float, tries: int = TRIES) -> Window:
    """Find a wider window that should hold enough tasks and not many more.

    Only expectations are looked at, never values of the crowd, so this takes nothing from the draw's exactness.

    Args:
        near: sorted distances of what is drawn already.
        count: how many tasks are wanted.
        limit: the reach beyond which nothing can matter, > crowd.window.reach.
        tries: how many windows to look at; 0 takes the widest.
    """
    fewest = count + MARGIN * math.sqrt(count)
    aim = (1 + SLACK) / 4 * fewest
    tight, wide = crowd.window.reach, limit
    reach = min(wide, first_reach(crowd, near, aim, target)) if tries else wide
    window = crowd.around(target, reach if reach > tight else wide)
    for _ in range(tries):
        reach = window.reach
        expected = np.searchsorted(near, reach, "right") + float(crowd.left @ crowd.shares(window))
        if fewest <= expected <= SLACK * fewest or not tight < wide:
            break
        tight, wide = (reach, wide) if expected < fewest else (tight, reach)
        reach *= min(max(aim / max(expected, TINY), 1 / 16), 16)
        if not tight < reach < wide:
            reach = math.sqrt(max(tight, TINY)) * math.sqrt(wide)
        if not tight < reach < wide:
            tight = reach = wide
        window = crowd.around(target, reach)
    return window


def first_reach(crowd: Crowd, near: Floats, aim: float, target: float) -> float:
    """Return the reach that would hold `aim` tasks if densities were level around the target."""
    alpha, beta = crowd.alpha, crowd.beta
    log_density = xlogy(alpha - 1, target) + xlog1py(beta - 1, -target) - betaln(alpha, beta)
    per_distance = 2 * float(crowd.left @ np.exp(np.minimum(log_density, 600.0)))
    if len(near):
        per_distance += len(near) / float(near[-1])
    return crowd.window.reach + aim / max(per_distance, TINY)


def draw_ring(crowd: Crowd, wider: Window, target: float, rng: np.random.Generator) -> tuple[Draws, Crowd]:
    """Draw what lies between the crowd's window and a wider one.

    Profiles with much inside are drawn out, all members: a plain draw is much cheaper than an inverse.

    Returns:
        The draws, and the crowd that lies outside the wider window.
    """
    shares = crowd.shares(wider)
    plain = shares > PLAIN_SHARE
    inside = np.where(plain, 0, rng.binomial(crowd.left, shares))
    found = draw_inside(crowd, inside, wider, target, rng)
    if plain.any():
        found = found.joined(draw_out(crowd.only(np.flatnonzero(plain)), target, rng))
    left = crowd.left - inside
    return found, replace(crowd, left=left, window=wider).only(np.flatnonzero(~plain & (left > 0)))


def draw_inside(crowd: Crowd, inside: Counts, wider: Window, target: float, rng: np.random.Generator) -> Draws:
    """Draw so many members of each profile from its Beta truncated to the ring, by inverse distribution function."""
    places = np.repeat(np.arange(len(inside)), inside)
    level = wider.low[places] + crowd.gained(wider)[places] * rng.random(len(places))
    # Skip what the present window holds.
    held = crowd.window.high - crowd.window.low
    level += np.where(level >= crowd.window.low[places], held[places], 0.0)
    alpha, beta = crowd.alpha[places], crowd.beta[places]
    values = np.asarray(betaincinv(alpha, beta, np.minimum(level, 1.0)), np.float64)
    values = np.clip(values, max(target - wider.reach, 0.0), min(target + wider.reach, 1.0))
    return Draws(values, crowd.profiles[places])


def draw_out(crowd: Crowd, target: float, rng: np.random.Generator) -> Draws:
    """Draw all members that are left, given that they lie outside the crowd's window."""
    places = np.repeat(np.arange(len(crowd.left)), crowd.left)
    members = Singles(crowd.profiles[places], crowd.alpha[places], crowd.beta[places])
    return members.drawn_outside(target, crowd.window.reach, rng)
