"""Trials on the public pools: the service in this process, 32 tasks a step, 16 rollouts of each."""

from typing import Any

import numpy as np

from studies.method import Served
from studies.public_pools import PublicPool, Replayed
from studies.trial import Measures, run_trial

COUNT, ROLLOUTS = 32, 16  # tasks a step, and rollouts of each
QUICK_STEPS = 6


def replayed(pool: PublicPool, seed: int, quick: bool, *, with_tags: bool = False, **settings: Any) -> Measures:
    """Make one trial of a run with these settings.

    Args:
        pool: what is replayed.
        seed: of the draws and, independently, of the rollouts.
        quick: make few steps.
        with_tags: give the belief the pool's tags.
        settings: of the run, its kind of belief among them.
    """
    environment = Replayed(pool)
    method = Served(pool.references, tags=pool.tags if with_tags else None, seed=seed, **settings)
    steps = QUICK_STEPS if quick else environment.steps
    rng = np.random.default_rng(1000 + seed)
    return run_trial(environment, method, steps=steps, count=COUNT, rollouts=ROLLOUTS, rng=rng)
