"""What uniform choice could expect, as the service computes it, beside what it would have got on the recorded run."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import betabinom

from bots_client import Client, Outcome
from bots_service.core.run_settings import settings_from
from bots_service.core.state import fresh_state
from bots_service.core.summary import outlook
from bots_service.demo.replay import REFERENCE_MODELS, ROLLOUTS, Recording, recorded_run
from studies.public_pools import with_both_references
from tests.core.pools import belief, pool
from tests.serving import running_service

STEPS, LOOKED_EVERY = 90, 30
PRIOR = (1.0, 1.0)


@pytest.mark.parametrize("recording", [recorded_run(), with_both_references(recorded_run())], ids=["all", "referenced"])
def test_it_is_kind_to_uniform_choice_and_nearer_to_the_truth_than_the_beliefs_own(
    tmp_path: Path, recording: Recording
):
    with running_service(tmp_path) as service, Client(service.url) as client:
        client.create_dataset("run", recording.tasks(), reference_models=REFERENCE_MODELS)
        client.create_run("run", "default", belief="bots")
        for step in range(STEPS):
            solved = recording.roll_out(step, rollouts=ROLLOUTS, seed=0)
            shown = dict(zip(recording.ids, solved.tolist(), strict=True))
            selection = client.select("run", 32)
            outcomes = [Outcome.counts(task, shown[task], ROLLOUTS) for task in selection.ids]
            client.report("run", outcomes, selection=selection)
            if step % LOOKED_EVERY == LOOKED_EVERY - 1:
                alpha, beta = np.array([(task.alpha, task.beta) for task in client.tasks("run")], float).T
                truth = np.mean((solved > 0) & (solved < ROLLOUTS))
                likely = betabinom(ROLLOUTS, alpha, beta)
                own = np.mean(1.0 - likely.pmf(0) - likely.pmf(ROLLOUTS))
                about = pool(np.arange(len(alpha)))
                state = fresh_state(settings_from({"rollouts_per_task": ROLLOUTS}), about)
                found = outlook(replace(state, belief=belief(alpha, beta, prior=PRIOR)), about).ratio
                assert found is not None
                assert truth < found < own - (own - truth) / 3
