"""Tasks drawn one by one, but only those that come near the target.

Let f be the density of a task's belief and M >= f throughout the window [target - reach, target + reach]. Propose the
task with probability 2 reach M, and with it a value level over the window; keep it with probability f(value) / M:

    density of being kept at x = 2 reach M * 1 / (2 reach) * f(x) / M = f(x)

So the tasks that are kept, and their values, are those that a draw from each f would have put into the window
(rejection sampling, von Neumann 1951). A task that is not kept lies outside; where it does, f given that, matters only
if too few are kept. This needs 2 reach M <= 1: a task that is likelier than MOST_LIKELY is drawn plainly.

M needs no special function. For alpha, beta >= 1 log f is concave, thus below its tangent at the target:

    log f(x) <= log f(target) + reach |slope|,    slope = (alpha - 1) / target - (beta - 1) / (1 - target)

For B(alpha, beta) in f, Gamma(z) = sqrt(2 pi) z^(z - 1/2) e^(mu(z) - z), where Binet's mu is positive and falls, hence

    1 / B(alpha, beta) < s^(s - 1/2) / (sqrt(2 pi) alpha^(alpha - 1/2) beta^(beta - 1/2)),    s = alpha + beta

by the factor e^(mu(alpha) + mu(beta) - mu(s)): at most 1.13, and more than 1 + 2e-7 for s <= MOST_EVIDENCE, where
rounding errors stay below 1e-8.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, xlog1py, xlogy

from bots_service.core.arrays import Counts, Floats
from bots_service.core.crowd import MARGIN
from bots_service.core.draws import TINY, Draws, Singles

# Fewer tasks, or fewer for each that is wanted, are drawn plainly as fast (timed in place, numpy 2.4 and scipy 1.17).
FEWEST_TASKS = 2_000
FEWEST_PER_WANTED = 10
MOST_EVIDENCE = 1e6  # of a belief with a bound: alpha + beta
MOST_LIKELY = 0.5
BLOCK = 16_384  # tasks at a time: their numbers stay in the processor's cache
# The tangent at the target must hold for the whole window, and rises steeply near 0.
LEAST_TARGET = 1e-3
MOST_REACH = 0.25  # times the target
# Heights exceed densities by up to 1.13, and densities may be a little lower away from the target.
SPARE = 1.25


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of densities around a target.

    log_height: [n] log of the bound at the target; infinite for a belief that has none.
    slope: [n] how fast it rises with the distance.
    """

    log_height: Floats
    slope: Floats

    def likely(self, reach: float) -> Floats:
        """[n] 2 reach M, the probability of being proposed; no more than 1."""
        log_likely = self.slope * reach
        log_likely += self.log_height
        log_likely += math.log(2 * reach)
        return np.exp(np.minimum(log_likely, 0.0, out=log_likely), out=log_likely)


def draw_singles(singles: Singles, count: int, target: float, rng: np.random.Generator) -> Draws:
    """Draw for every task; return some of the draws, among them the `count` nearest to the target.

    Args:
        singles: [n] tasks.
        count: how many are wanted, >= 1.
        target: in [0, 1/2].
    """
    bounded = have_bounds(singles)
    if target < LEAST_TARGET or np.count_nonzero(bounded) < max(FEWEST_TASKS, FEWEST_PER_WANTED * count):
        return singles.drawn(rng)
    bounds = bound(singles, bounded, target)
    per_distance = 2 * float(np.sum(np.exp(bounds.log_height), where=bounded))
    reach = SPARE * (count + MARGIN * math.sqrt(count)) / max(per_distance, TINY)
    if reach > MOST_REACH * target:
        return singles.drawn(rng)
    drawn, places = draw_near(singles, bounds.likely(reach), target, reach, rng)
    if np.count_nonzero(drawn.distances(target) <= reach) >= count:
        return drawn
    far = singles.at(np.delete(np.arange(len(singles)), places))
    return drawn.joined(far.drawn_outside(target, reach, rng))


def have_bounds(singles: Singles) -> NDArray[np.bool_]:
    """[n] whether a belief's log density is concave, and rounding too small to lift it over the bound."""
    alpha, beta = singles.alpha, singles.beta
    return (alpha >= 1) & (beta >= 1) & (alpha + beta <= MOST_EVIDENCE)


def bound(singles: Singles, bounded: NDArray[np.bool_], target: float) -> Bounds:
    """Bound the densities around a target.

    Args:
        singles: [n] tasks.
        bounded: [n] what `have_bounds` gave.
        target: in (0, 1).
    """
    log_height, slope = np.empty(len(singles)), np.empty(len(singles))
    for start in range(0, len(singles), BLOCK):
        block = slice(start, start + BLOCK)
        log_height[block], slope[block] = height_and_slope(singles.alpha[block], singles.beta[block], target)
    log_height[~bounded] = np.inf
    return Bounds(log_height, slope)


def height_and_slope(alpha: Floats, beta: Floats, target: float) -> tuple[Floats, Floats]:
    """Return log of the bound at the target, and how steep the density's log is there; each [n]."""
    total = alpha + beta
    log_height = (total - 0.5) * np.log(total)
    log_height -= (alpha - 0.5) * np.log(alpha)
    log_height -= (beta - 0.5) * np.log(beta)
    log_height += (alpha - 1) * math.log(target)
    log_height += (beta - 1) * math.log1p(-target)
    log_height -= 0.5 * math.log(2 * math.pi)
    return log_height, np.abs((alpha - 1) / target - (beta - 1) / (1 - target))


def draw_near(
    singles: Singles, likely: Floats, target: float, reach: float, rng: np.random.Generator
) -> tuple[Draws, Counts]:
    """Draw for every task, but return only draws of some: all that lie in the window are there.

    Args:
        singles: [n] tasks.
        likely: [n] 2 reach M.
        target: the middle of the window.
        reach: half the width of the window.

    Returns:
        The draws, and the places of their tasks; all other tasks lie outside the window.
    """
    plain = np.flatnonzero(likely > MOST_LIKELY)
    proposed = np.flatnonzero((rng.random(len(likely)) < likely) & (likely <= MOST_LIKELY))
    values = target + reach * (2 * rng.random(len(proposed)) - 1)
    alpha, beta = singles.alpha[proposed], singles.beta[proposed]
    log_density = xlogy(alpha - 1, values) + xlog1py(beta - 1, -values) - betaln(alpha, beta)
    kept = rng.random(len(proposed)) * likely[proposed] < 2 * reach * np.exp(log_density)
    near = Draws(values[kept], singles.owners[proposed[kept]])
    return near.joined(singles.at(plain).drawn(rng)), np.concatenate([proposed[kept], plain])
