"""What the tracker gains from tags, on public data: reasoning gym, whose tasks are of eleven domains."""

import numpy as np
import pytest

from bots_service.core.arrays import Tasks
from bots_service.core.entries import Entry, Report
from bots_service.core.evidence import Evidence
from bots_service.core.offset_tags import choose_offset_tags
from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings
from bots_service.core.state import advance, fresh_state
from studies.public_pools import DATA, reasoning_gym

BATCH, ROLLOUTS = 32, 16
# By an independent implementation, on pass rates that were rounded to four decimals: hence the tolerance.
LOG_LOSS, LOG_LOSS_WITH_TAGS, TOLERANCE = 0.39337677, 0.38210668, 1e-5


def domains() -> dict[str, Tasks]:
    """Return the tasks of each domain."""
    with np.load(DATA / "reasoning_gym_easy.npz") as arrays:
        names, domain_of = arrays["domains"].tolist(), arrays["domain_of"]
    return {name: np.flatnonzero(domain_of == number).astype(np.int32) for number, name in enumerate(names)}


def log_loss(pool: Pool) -> float:
    """Return the mean log loss of what the tracker predicts before each step of uniform choice."""
    state, rng, losses = fresh_state(RunSettings(belief="tracker"), pool), np.random.default_rng(1), []
    for rates in reasoning_gym().success:
        tasks = np.sort(rng.choice(len(pool), BATCH, replace=False)).astype(np.int32)
        solved = rng.binomial(ROLLOUTS, rates[tasks]).astype(float)
        predicted = np.clip(state.belief.distributions(pool, tasks).mean, 0.001, 0.999)
        share = solved / ROLLOUTS
        losses.append(-np.mean(share * np.log(predicted) + (1 - share) * np.log1p(-predicted)))
        evidence = Evidence(tasks, solved, ROLLOUTS - solved, (solved > 0) & (solved < ROLLOUTS))
        state, _ = advance(state, Entry(state.seq + 1, 0, pool.profiles, Report(evidence, None, None)), pool)
    return float(np.mean(losses))


def test_the_domains_are_chosen_as_offset_tags():
    tags = domains()
    pool = Pool.of_tasks(reasoning_gym().references, tags)
    assert set(choose_offset_tags(tags, pool.profile_of)) == set(tags)


@pytest.mark.parametrize(("has_tags", "wanted"), [(False, LOG_LOSS), (True, LOG_LOSS_WITH_TAGS)])
def test_domains_as_tags_make_the_trackers_predictions_better(has_tags, wanted):
    tags = domains()
    pool = Pool.of_tasks(reasoning_gym().references, tags, tuple(sorted(tags)) if has_tags else ())
    assert log_loss(pool) == pytest.approx(wanted, abs=TOLERANCE)
