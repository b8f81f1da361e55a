"""Reports: what is refused changes nothing; what counts, counts once; late evidence finds its step."""

import asyncio
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.attempts import NO_ABORTS
from bots_service.core.codec import encode_state
from bots_service.core.evidence import NO_COSTS, Costs
from bots_service.core.walks import Walks
from bots_service.errors import (
    InvalidOutcomesError,
    KeyReusedError,
    StorageUnavailableError,
    UnknownDatasetError,
    UnknownRunError,
)
from bots_service.outcomes import Outcome, ReportRequest, read_evidence
from bots_service.records import IdempotencyKey
from tests.usecases.world import POOL, TASKS, World, evidence_bytes, flaws_of, outage, outcome, outcomes_of

REFUSED = [
    Outcome("t1"),
    Outcome("t1", successes=1, trials=2, rewards=[1.0]),
    Outcome("t1", successes=1, trials=2, rewards=[1.0, math.nan]),
    Outcome("t1", successes=1, rewards=[1.0]),
    Outcome("t1", successes=1, trials=2, status="aborted"),
    Outcome("t1", rewards=[0.5, -0.1]),
    outcome("t1", 17, 16),
    outcome("t1", 0, 4097),
    outcome("t40"),
    outcome(""),
    outcome("\ud800"),
    outcome("t" * 10_000),
]


async def test_a_refused_outcome_says_where_it_stands_and_changes_nothing(world: World):
    await world.report(outcome("t1"), outcome("t2"))
    await world.report(outcome("t3"), close_step=False)
    before = encode_state(await world.state())
    for wrong in REFUSED:
        (where,) = await flaws_of(world.report(outcome("t5"), wrong, outcome("t6"), key="key"))
        assert where[:3] == ("body", "outcomes", 1)
    for wrong in (outcome("none"), outcome("t1", 17, 16)):
        assert [where[2] for where in await flaws_of(world.report(*[wrong] * 30))] == list(range(20))
    assert encode_state(await world.state()) == before
    assert (await world.report(outcome("t5"), key="key")).seq == 3  # the key was not used up


async def test_unknown_names_are_refused(world: World):
    with pytest.raises(UnknownRunError):
        await world.report(outcome("t1"), run="none")
    with pytest.raises(UnknownDatasetError):
        await world.report(outcome("t1"), dataset="none")


async def test_rewards_are_mapped_from_the_runs_range(world: World):
    await world.put_run("signed", reward_range=[-1, 3])
    await world.put_run("plain")
    signed = await world.report(Outcome("t1", rewards=[-1, 3, 1, 0]), run="signed")
    plain = await world.report(outcome("t1", 0 + 1 + 0.5 + 0.25, 4), run="plain")
    assert signed.tally == plain.tally
    one, other = await world.state("signed"), await world.state("plain")
    assert evidence_bytes(replace(one, settings=other.settings)) == evidence_bytes(other)
    with pytest.raises(InvalidOutcomesError):
        await world.report(Outcome("t1", rewards=[3.1]), run="signed")


EFFECTIVE = [
    (Outcome("t1", rewards=[0, 1, 0.5, 0.5]), "effective"),
    (Outcome("t1", rewards=[0.25] * 4), "none_solved"),
    (Outcome("t1", rewards=[0.5] * 4), "all_solved"),
    (outcome("t1", 7, 16), "effective"),
    (outcome("t1", 0, 16), "none_solved"),
    (Outcome("t1", successes=2, trials=2, rewards=[1.2, 1.0]), "effective"),
    (Outcome("t1", successes=1, trials=3, rewards=[9, 9, 9]), "none_solved"),
    (Outcome("t1", successes=2, trials=2, effective=True), "effective"),
    (Outcome("t1", successes=3, trials=4, effective=False), "all_solved"),
]


async def test_a_task_is_effective_if_its_group_has_a_gradient(world: World):
    for shown, name in EFFECTIVE:
        tally = (await world.report(shown)).tally
        counted = {each: getattr(tally, each) for each in ("effective", "all_solved", "none_solved")}
        assert counted == {"effective": 0, "all_solved": 0, "none_solved": 0, name: 1}, shown


numbers = st.sampled_from([0, 1, 2, 2.5, -1, 1.2, math.nan, math.inf])
forms = st.fixed_dictionaries(
    {},
    optional={
        "successes": numbers,
        "trials": numbers,
        "rewards": st.lists(numbers, max_size=3),
        "effective": st.booleans(),
        "status": st.just("aborted"),
    },
)


def what_is_right(form: dict[str, Any]) -> tuple[float, float, bool] | str:
    """Return the successes, failures and flag of an outcome by the words of docs/api.md, "aborted", or "refused"."""
    given = form.keys() - {"effective"}
    if form == {"status": "aborted"}:
        return "aborted"
    rewards, (solved, trials) = form.get("rewards", []), (form.get("successes", 0), form.get("trials", 1))
    if given == {"rewards"}:
        is_right = len(rewards) > 0 and all(0 <= reward <= 1 for reward in rewards)
        solved, trials = sum(rewards), len(rewards)
    else:
        fits = "rewards" not in form or (len(rewards) == trials and all(map(math.isfinite, rewards)))
        is_right = {"successes", "trials"} <= given <= {"successes", "trials", "rewards"} and fits
        is_right = is_right and 0 < trials < math.inf and 0 <= solved <= trials
    if not is_right:
        return "refused"
    differ = len(set(rewards)) > 1 if "rewards" in form else 0 < solved < trials
    return solved, trials - solved, form.get("effective", differ)


@given(forms)
def test_every_form_of_an_outcome_is_read_as_documented_or_refused(form: dict[str, Any]):
    wanted, tasks, outcomes = what_is_right(form), np.array([7], np.int32), [Outcome("t7", **form)]
    if wanted == "refused":
        with pytest.raises(InvalidOutcomesError):
            read_evidence(tasks, outcomes, (0.0, 1.0))
        return
    evidence, aborted = read_evidence(tasks, outcomes, (0.0, 1.0))
    assert aborted.tolist() == ([7] if wanted == "aborted" else [])
    columns = (evidence.tasks, evidence.successes, evidence.failures, evidence.effective)
    assert [tuple(row) for row in zip(*columns, strict=True)] == ([] if wanted == "aborted" else [(7, *wanted)])
    assert not any(column.flags.writeable for column in columns)  # the journal shares them with its readers


async def test_aborted_tasks_count_for_nothing_but_aborts(world: World):
    only = await world.report(Outcome("t1", status="aborted"))
    assert (only.closed, only.step, only.tally.reported) == (False, 0, 0)
    receipt = await world.report(Outcome("t1", status="aborted"), outcome("t2", 4))
    assert (receipt.closed, receipt.tally.reported, receipt.tally.rollouts) == (True, 1, 16)
    await world.put_run("plain")
    await world.report(outcome("t2", 4), run="plain")
    state = await world.state()
    assert (state.aborts.tasks.tolist(), state.aborts.aborts.tolist()) == ([1], [2])
    assert evidence_bytes(replace(state, aborts=NO_ABORTS)) == evidence_bytes(await world.state("plain"))


async def test_what_rollouts_cost_is_summed_aborted_ones_too(world: World):
    assert (await world.report(outcome("t1", 4))).costs == NO_COSTS
    counted = Outcome("t1", successes=4, trials=16, tokens=100.0)
    rewarded = Outcome("t2", rewards=[1.0, 0.0], tokens=20.0, seconds=3.0)
    aborted = Outcome("t3", status="aborted", tokens=7.0)
    receipt = await world.report(counted, rewarded, aborted)
    assert receipt.costs == Costs(127.0, 3.0)


async def test_evidence_in_parts_comes_to_the_same_as_at_once(world: World):
    await world.put_run("whole")
    for task in ("t1", "t2", "t1"):
        await world.report(outcome(task, 3), close_step=False)
    open_still = await world.report(close_step=False)
    assert (open_still.closed, open_still.step, open_still.tally.reported) == (False, 0, 2)
    closing = await world.report(close_step=True)
    at_once = await world.report(outcome("t1", 3), outcome("t2", 3), outcome("t1", 3), run="whole")
    assert (closing.closed, closing.tally, closing.brier) == (True, at_once.tally, at_once.brier)
    assert (closing.new_tasks, closing.distinct_tasks) == (at_once.new_tasks, at_once.distinct_tasks) == (2, 2)
    # Each report without a selection begins another pass, so their number shows there, and only there.
    in_parts, whole = [replace(await world.state(run), walks=Walks()) for run in ("default", "whole")]
    assert evidence_bytes(in_parts) == evidence_bytes(whole)
    nothing = await world.report(close_step=True)
    assert (nothing.closed, nothing.step, nothing.tally.reported, nothing.brier) == (True, 2, 0, None)


async def test_a_step_closes_by_itself_once_enough_tasks_are_pending(world: World):
    await world.put_run("run", tasks_per_step=3)
    closed = [(await world.report(outcome(task), run="run")).closed for task in ("t1", "t1", "t2", "t3", "t4")]
    assert closed == [False, False, False, True, False]
    assert (await world.report(outcome("t5"), run="run", close_step=True)).step == 2
    more = await world.report(*(outcome(f"t{task}") for task in range(7)), run="run", close_step=False)
    assert (more.closed, more.tally.reported, (await world.describe("run")).pending) == (True, 6, 1)


@pytest.mark.parametrize(("lag", "belief"), [(0, "bots"), (1, "bots"), (64, "bots"), (65, "bots"), (70, "tracker")])
async def test_late_evidence_counts_as_late_and_bots_takes_none_that_is_too_old(world: World, lag: int, belief: str):
    await world.put_run("default", belief=belief)
    selection = await world.select(3)
    for _ in range(lag):
        await world.report(outcome("t1"))
    receipt = await world.report(*outcomes_of(selection), selection_id=selection.id)
    is_expired = lag > 64 and belief == "bots"
    late, expired = 3 * (lag > 0 and not is_expired), 3 * is_expired
    assert (receipt.late, receipt.expired, receipt.closed) == (late, expired, not is_expired)
    closing = await world.report(close_step=True)
    totals = (await world.state()).totals
    assert (totals.late, totals.expired, totals.reported) == (late, expired, lag + 3 - expired)
    assert closing.step == lag + 1 + (not is_expired)


async def test_a_report_sent_several_times_by_8_callers_counts_once(world: World):
    news = ReportRequest(POOL, [outcome("t1", 3)])

    async def send() -> list[tuple[int, bool]]:
        answers = [await world.runs.report(news, IdempotencyKey("key", "same")) for _ in range(3)]
        return [(told.receipt.seq, told.duplicate) for told in answers]

    told = [answer for several in await asyncio.gather(*(send() for _ in range(8))) for answer in several]
    assert sorted(told) == [(1, False)] + [(1, True)] * 23
    with pytest.raises(KeyReusedError):
        await world.runs.report(news, IdempotencyKey("key", "other"))
    assert (await world.assert_is_a_replay()).totals.rollouts == 16


async def test_a_report_that_would_be_refused_by_now_gets_its_first_receipt(world: World):
    await world.put_run("wide", reward_range=[0, 10])
    told = ReportRequest(POOL, [Outcome("t1", rewards=[0, 10, 5])], "wide")
    first = await world.runs.report(told, IdempotencyKey("key", "same"))
    await world.runs.change_settings(POOL, "wide", {"reward_range": [0, 1]}, None)
    again = await world.runs.report(told, IdempotencyKey("key", "same"))
    assert (again.receipt, again.duplicate) == (first.receipt, True)
    with pytest.raises(KeyReusedError):
        await world.runs.report(told, IdempotencyKey("key", "other"))
    with pytest.raises(InvalidOutcomesError):
        await world.runs.report(told, IdempotencyKey("another key", "same"))


async def test_a_reports_retry_ends_no_lease_of_a_later_selection(world: World):
    await world.report(outcome("t1"), key="key")
    await world.select(TASKS)
    await world.report(outcome("t1"), key="key")
    assert (await world.describe()).leased == TASKS


async def test_a_report_while_sql_is_away_is_refused_and_comes_later_under_its_key(world: World):
    await world.state()
    with outage(world.database, "write"):
        with pytest.raises(StorageUnavailableError):
            await world.report(outcome("t1"), key="key")
        world = world.beside()
        await world.state()
        assert len((await world.select(3)).tasks) == 3  # selections go on
    assert (await world.report(outcome("t1"), key="key")).seq == 1


# --- evidence of some age --------------------------------------------------------------------------------------------


async def test_evidence_of_an_age_counts_as_that_of_a_selection_so_many_steps_ago(world: World):
    await world.put_run("selected")
    selection = await world.select(1, "selected")
    for number in range(1, 4):
        for run in ("default", "selected"):
            await world.report(outcome(f"t{number}", 4), run=run)
    await world.report(*outcomes_of(selection, 9), run="selected", selection_id=selection.id)
    receipt = await world.report(*outcomes_of(selection, 9), age=3)
    assert (receipt.late, receipt.closed) == (1, True)
    pool, tasks = (await world.opened()).dataset.pool, np.arange(TASKS, dtype=np.int32)
    believed = [(await world.state(run)).belief.distributions(pool, tasks) for run in ("default", "selected")]
    assert believed[0].mean.tobytes() == believed[1].mean.tobytes()
    assert believed[0].interval()[1].tobytes() == believed[1].interval()[1].tobytes()
    assert (await world.report(outcome("t1", 4), age=0)).late == 0


async def test_an_age_that_cannot_be_is_refused(world: World):
    await world.report(outcome("t1", 4))
    selection = await world.select(1)
    for wrong, what in (
        ({"age": 2}, "1 have closed"),
        ({"age": 1, "selection_id": selection.id}, "exclude each other"),
    ):
        with pytest.raises(InvalidOutcomesError) as error:
            await world.report(outcome("t1", 4), **wrong)
        assert what in error.value.flaws[0].what


# --- what is counted -------------------------------------------------------------------------------------------------


def reported(*worlds: World) -> float:
    """Return how many reported tasks were counted, in all processes together."""
    return sum(world.shown("reported_tasks_total") or 0.0 for world in worlds)


async def test_tasks_count_when_their_step_closes(world: World):
    await world.report(outcome("t0"), outcome("t1"), close_step=False)
    assert reported(world) == 0
    for _ in range(2):
        await world.report(outcome("t2"), key="once")
    assert reported(world) == 3


async def test_what_replicas_report_at_once_counts_once(replicas: tuple[World, World]):
    await replicas[0].runs.change_settings(POOL, "default", {"tasks_per_step": 4}, None)
    pairs = [(f"t{number}", f"t{number + 1}") for number in range(0, TASKS, 2)]
    await asyncio.gather(
        *(replicas[place % 2].report(*map(outcome, pair)) for place, pair in enumerate(pairs)),
    )
    assert (await replicas[0].state()).totals.reported == TASKS
    assert reported(*replicas) == TASKS
