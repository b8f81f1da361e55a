"""What a run's description advises."""

import math
from dataclasses import replace

import numpy as np
import pytest

from bots_service.core.run_settings import settings_from
from bots_service.core.state import fresh_state
from bots_service.core.summary import advice
from tests.core.journals import pool_of, replay, report_of

UNKNOWN = pool_of(*[()] * 100)
BOTS = settings_from({"belief": "bots"})


def after_steps_of(tasks: int, pool=UNKNOWN, **settings):
    body = report_of(*((task, 1.0, 1.0) for task in range(tasks)))
    return advice(replay(pool, [body] * 2, settings_from({"belief": "bots", **settings})), pool)


def test_without_references_a_run_is_told_how_long_evidence_lasts_and_how_many_tasks_a_step_it_takes():
    (text,) = advice(fresh_state(BOTS, UNKNOWN), UNKNOWN)
    assert f"about {1 / 0.1:.0f} steps" in text
    assert f"fewer than {100 * 0.1:.0f} tasks a step" in text
    (text,) = after_steps_of(4, forgetting=0.05)
    assert f"about {1 / 0.05:.0f} steps" in text
    assert f"fewer than {100 * 0.05:.0f} tasks a step" in text


def test_a_run_that_comes_round_its_pool_before_it_forgets_needs_no_advice():
    assert len(after_steps_of(9)) == 1
    assert after_steps_of(10) == ()
    retired = replace(UNKNOWN, retired=np.arange(10, 20, dtype=np.int32))
    assert after_steps_of(9, retired) == ()
    small = pool_of(*[()] * 10)
    assert advice(fresh_state(BOTS, small), small) == ()  # any step brings one of ten


def test_references_of_one_task_are_enough_to_tell_others_apart():
    nobody, one = pool_of(*[(math.nan, 0.5)] * 100), pool_of((0.25, 0.5), *[(math.nan, 0.5)] * 99)
    assert len(advice(fresh_state(BOTS, nobody), nobody)) == 1
    assert advice(fresh_state(BOTS, one), one) == ()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"belief": "bots", "strategy": "uniform"},
        {"belief": "bots", "strategy": "shuffle"},
    ],
)
def test_a_run_that_does_not_look_at_its_belief_or_never_forgets_gets_no_advice(settings):
    assert advice(fresh_state(settings_from(settings), UNKNOWN), UNKNOWN) == ()


REFERENCES = pool_of(*[(0.25, 0.5)] * 100)


@pytest.mark.parametrize("belief", [{"belief": "tracker"}, {"belief": "bots", "forgetting": 0.0}])
def test_a_belief_that_forgets_nothing_is_told_to_leave_what_is_nearest(belief):
    for pool in (UNKNOWN, REFERENCES):
        (text,) = advice(fresh_state(settings_from({**belief, "strategy": "thompson"}), pool), pool)
        assert "'thompson'" in text
        assert "'pass'" in text


def test_a_belief_that_forgets_is_not_told_so():
    assert advice(fresh_state(BOTS, REFERENCES), REFERENCES) == ()
