"""Evidence from old logs through the service: replays, tasks that a process didn't know, ages and retries."""

from datetime import UTC, datetime, timedelta

import pytest

from bots_service.core.belief.kinds import KINDS
from bots_service.core.codec import encode_state
from bots_service.core.past_evidence import LARGEST_AGE
from bots_service.errors import InvalidOutcomesError
from bots_service.ports.records import IdempotencyKey
from bots_service.usecases.import_evidence import EvidenceRequest, PastOutcome, read_ages
from bots_service.usecases.report_outcomes import ReportRequest
from tests.usecases.world import POOL, World, block, never, outcome, stream


def aged(task: str, age: float) -> PastOutcome:
    return PastOutcome(task, successes=12.0, trials=16.0, age=age)


async def test_what_old_logs_told_is_replayed_bit_for_bit(world: World):
    for run in KINDS:
        await world.put_run(run, belief=run)
        await world.report(outcome("t1"), outcome("t2"), run=run)
        request = EvidenceRequest([aged("t3", 2.0), aged("t4", 700.5), aged("t3", 0.0)])
        result = await world.use.import_evidence(POOL, run, request, None)
        assert (result.seq, result.step, result.outcomes) == (2, 1, 3)
        await world.report(outcome("t3"), run=run)
        await world.assert_is_a_replay(run)


@pytest.mark.parametrize("belief", sorted(KINDS))
async def test_another_process_learns_of_evidence_about_tasks_that_it_did_not_know(
    world: World, watched: World, belief: str
):
    await world.put_run("default", belief=belief)
    await watched.state()
    grown = block(40, 2)
    grown.references[:] = [[0.01, 0.99], [0.02, 0.5]]
    await world.use.append_tasks(POOL, stream(grown), never)
    request, key = EvidenceRequest([aged("t41", 1.0)]), IdempotencyKey("once", "same")
    await watched.use.import_evidence(POOL, "default", request, key)
    assert (await world.use.import_evidence(POOL, "default", request, key)).duplicate
    await world.assert_is_a_replay()
    assert encode_state(await world.state()) == encode_state(await watched.state())


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def timed(task: str, minutes_ago: float) -> PastOutcome:
    return PastOutcome(task, successes=1.0, trials=2.0, at=NOON - timedelta(minutes=minutes_ago))


def test_times_become_ages_counted_from_the_newest_or_from_a_time_that_is_given():
    outcomes = [timed("t1", 10), aged("t2", 7.0), timed("t3", 4)]
    assert read_ages(EvidenceRequest(outcomes, seconds_per_step=120.0)).tolist() == [3.0, 7.0, 0.0]
    assert read_ages(EvidenceRequest(outcomes, seconds_per_step=120.0, now=NOON)).tolist() == [5.0, 7.0, 2.0]


WRONG_AGES = {
    "no age": (PastOutcome("t2", successes=1.0, trials=2.0), 'give "age" in steps, or "at" as a time'),
    "two ages": (PastOutcome("t2", successes=1.0, trials=2.0, age=1.0, at=NOON), 'give "age"'),
    "the future": (timed("t2", -1), "an age of -1 steps"),
    "too old": (aged("t2", LARGEST_AGE + 1), f"it can be 0 to {LARGEST_AGE:g}"),
}


@pytest.mark.parametrize("name", WRONG_AGES)
def test_an_age_that_can_t_be_true_is_named_with_its_outcome(name: str):
    wrong, text = WRONG_AGES[name]
    with pytest.raises(InvalidOutcomesError) as refused:
        read_ages(EvidenceRequest([aged("t1", 1.0), wrong], seconds_per_step=60.0, now=NOON))
    (flaw,) = refused.value.flaws
    assert flaw.where == ("body", "outcomes", 1)
    assert flaw.what.startswith("task 't2': ")
    assert text in flaw.what


def test_times_say_nothing_without_the_length_of_a_step():
    with pytest.raises(InvalidOutcomesError) as refused:
        read_ages(EvidenceRequest([timed("t1", 1)]))
    assert [flaw.where for flaw in refused.value.flaws] == [("body", "seconds_per_step")]


async def test_what_was_accepted_is_answered_to_its_key_though_it_could_not_be_true_any_more(world: World):
    await world.put_run("default", reward_range=[0.0, 2.0])
    rewarded = EvidenceRequest([PastOutcome("t1", rewards=[2.0, 1.0], age=3.0)])
    key, of_report = IdempotencyKey("once", "same"), IdempotencyKey("report", "same")
    first = await world.use.import_evidence(POOL, "default", rewarded, key)
    await world.use.report_outcomes(ReportRequest(POOL, [outcome("t1")]), of_report)
    await world.use.change_settings(POOL, "default", {"reward_range": [0.0, 1.0]}, None)
    again = await world.use.import_evidence(POOL, "default", rewarded, key)
    assert (again.seq, again.rollouts, again.duplicate) == (first.seq, 2.0, True)
    for other in (None, IdempotencyKey("new", "same"), of_report):
        with pytest.raises(InvalidOutcomesError):
            await world.use.import_evidence(POOL, "default", rewarded, other)


async def test_a_task_that_nobody_knows_is_refused(world: World):
    with pytest.raises(InvalidOutcomesError):
        await world.use.import_evidence(POOL, "default", EvidenceRequest([aged("nobody", 1.0)]), None)
