"""The draw of every task, and whether the service's draw has its distribution."""

import numpy as np

from bots_service.core import draw as drawing
from bots_service.core.draw import draw_nearest
from tests.core.pools import assert_same_shares, assert_same_values, joined
from tests.sizes import size

REPEATS = size(300, 600)


def always_windows(monkeypatch):
    for name, value in {"WINDOW_MEMBERS": 1, "WINDOW_TASKS": 0, "WINDOW_SHARE": 1.0, "PLAIN_SHARE": 1.0}.items():
        monkeypatch.setattr(drawing, name, value)


def dense(alone, shared, sizes, count, target, rng):
    if target > 0.5:  # doubles are too coarse near 1 to tell a heap's members apart
        values, owners = dense(alone.mirrored(), shared.mirrored(), sizes, count, 1 - target, rng)
        return 1 - values, owners
    owners = rng.permutation(np.repeat(np.arange(len(sizes) + len(alone)), [*sizes, *[1] * len(alone)]))
    values = joined(shared, alone).at(owners).sample(rng)
    first = np.argsort(np.maximum(np.abs(values - target), 1e-300), kind="stable")[:count]
    return values[first], owners[first]


def samples(draw, target, seed):
    """Independent numbers, REPEATS of each: a random chosen owner, the nearest's, the first and last distance."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(REPEATS):
        values, owners = draw(rng)
        distances = np.abs(values - target)
        rows.append((rng.choice(owners), owners[0], distances[0], distances[-1], rng.choice(values)))
    return [np.array(column) for column in zip(*rows, strict=True)]


def assert_draws_like_dense(scenario, seed):
    """Compare many draws.

    Args:
        scenario: distributions of tasks alone, of profiles, these profiles' sizes, how many are wanted, the target.
        seed: of all draws.
    """
    alone, shared, sizes, count, target = scenario
    sizes = np.array(sizes)
    # Owners of one belief are exchangeable: where there are many, only their sums are often enough for a test.
    believed = joined(shared, alone)
    kind = np.unique(np.stack([believed.mean, *believed.interval()]), axis=1, return_inverse=True)[1]

    def by_profiles(rng):
        drawn = draw_nearest(alone, shared, sizes, count=count, target=target, rng=rng)
        assert len(drawn.values) == count
        assert (np.bincount(drawn.owners, minlength=len(sizes))[: len(sizes)] <= sizes).all()
        return drawn.values, drawn.owners

    ours = samples(by_profiles, target, seed)
    theirs = samples(lambda rng: dense(alone, shared, sizes, count, target, rng), target, seed + 1)
    for mine, other in zip(ours[:2], theirs[:2], strict=True):
        assert_same_shares(mine, other)
        assert_same_shares(kind[mine], kind[other])
    for mine, other in zip(ours[2:], theirs[2:], strict=True):
        assert_same_values(mine, other)
