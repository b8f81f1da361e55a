"""What rollouts cost, compared with plain sums; late, expired and aborted rollouts; bytes; what no report can have."""

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.codec import decode_state, encode_state
from bots_service.core.costs import NO_COST_SUMS, NO_COSTS, CostRows, CostSum, CostSums, cost_rows
from bots_service.core.entries import Entry, Report, Rewind
from bots_service.core.run_settings import settings_from
from bots_service.core.state import RunState, advance, fresh_state
from tests.core.journals import Story, pool_of, replay, report_of, stories

Told = tuple[int, float | None, float | None, float]  # task, tokens, seconds, rollouts

amounts = st.none() | st.integers(0, 10**6).map(float)


def rows_of(told: list[Told]) -> CostRows:
    tasks, tokens, seconds, rollouts = zip(*told, strict=True) if told else ((), (), (), ())
    spent = np.array([tokens, seconds], np.float64).reshape(2, len(tasks))
    return cost_rows(np.array(tasks, np.int32), spent, np.array(rollouts, np.float64))


@dataclass
class Plain:
    """What a run cost, summed up plainly: [spent, rollouts, effective] by resource, and [spent, rollouts] by task."""

    sums: dict[str, list[float]]
    by_task: dict[tuple[int, str], list[float]]


@st.composite
def costly_stories(draw: st.DrawFn) -> tuple[Story, Plain, Plain]:
    """Draw a journal whose reports say some costs; with what closed steps cost, and the open one."""
    story = draw(stories(max_entries=8, with_past=False))
    told: dict[int, list[Told]] = {}
    entries = []
    for entry in story.entries:
        body = entry.body
        if isinstance(body, Report):
            seen = body.evidence
            rollouts = (seen.successes + seen.failures).tolist()
            own = [
                (task, draw(amounts), draw(amounts), count)
                for task, count in zip(seen.tasks.tolist(), rollouts, strict=True)
            ]
            own += [
                (task, draw(amounts), None, 0.0)
                for task in draw(st.lists(st.integers(0, len(story.pool) - 1), max_size=2))
            ]
            told[entry.seq], body = own, replace(body, costs=rows_of(own))
        entries.append(replace(entry, body=body))
    costly = replace(story, entries=entries)
    return costly, *summed(costly, told)


def summed(story: Story, told: dict[int, list[Told]]) -> tuple[Plain, Plain]:
    closed, waiting = Plain(defaultdict(lambda: [0.0] * 3), defaultdict(lambda: [0.0] * 2)), []
    groups: dict[int, list[tuple[float, float, bool]]] = defaultdict(list)
    state = fresh_state(story.settings, story.pool)
    for entry in story.entries:
        state, receipt = advance(state, entry, story.pool)
        if not isinstance(entry.body, Report):
            continue
        seen = entry.body.evidence
        for task, solved, failed, effective in zip(
            *(column.tolist() for column in (seen.tasks, seen.successes, seen.failures, seen.effective)), strict=True
        ):
            groups[task].append((solved, failed, effective))
        waiting += told[entry.seq]
        if receipt.closed:
            add(closed, waiting, groups)
            waiting, groups = [], defaultdict(list)
    still_open = Plain(defaultdict(lambda: [0.0] * 3), defaultdict(lambda: [0.0] * 2))
    add(still_open, waiting, groups)
    return closed, still_open


def add(plain: Plain, waiting: list[Told], groups: dict[int, list[tuple[float, float, bool]]]) -> None:
    covered: set[tuple[int, str]] = set()
    for task, *costs, rollouts in waiting:
        for resource, spent in zip(("tokens", "seconds"), costs, strict=True):
            if spent is not None:
                for sums in (plain.sums[resource], plain.by_task[task, resource]):
                    sums[0] += spent
                    sums[1] += rollouts
                if rollouts:
                    covered.add((task, resource))
    for task, resource in covered:
        rates = [solved / (solved + failed) for solved, failed, _ in groups[task]]
        teaches = any(effective for *_, effective in groups[task]) or max(rates) - min(rates) > 1e-9
        plain.sums[resource][2] += teaches


def told_by(rows: CostRows) -> dict[tuple[int, str], list[float]]:
    return {
        (task, resource): [rows.spent[row, place], rows.rollouts[row, place]]
        for place, task in enumerate(rows.tasks.tolist())
        for row, resource in enumerate(("tokens", "seconds"))
        if rows.spent[row, place] or rows.rollouts[row, place]
    }


def sums_of(plain: Plain) -> CostSums:
    rows = (plain.sums[resource] for resource in ("tokens", "seconds"))
    return CostSums(*(CostSum(spent, rollouts, int(effective)) for spent, rollouts, effective in rows))


@given(costly_stories())
def test_costs_by_run_by_task_and_of_the_open_step_are_plain_sums(drawn: tuple[Story, Plain, Plain]):
    story, closed, waiting = drawn
    state, receipts = story.replayed()
    assert told_by(state.costs.by_task.whole) == {key: sums for key, sums in closed.by_task.items() if any(sums)}
    assert told_by(state.open_step.costs) == {key: sums for key, sums in waiting.by_task.items() if any(sums)}
    expected = sums_of(closed)
    assert state.costs.sums == expected
    total = NO_COST_SUMS
    for receipt in receipts:
        total = total.plus(receipt.costs) if receipt.closed else total
    assert total == expected
    if receipts and isinstance(story.entries[-1].body, Report) and not receipts[-1].closed:
        assert receipts[-1].costs == sums_of(waiting)


@given(costly_stories())
def test_a_state_with_costs_comes_back_bit_for_bit(drawn: tuple[Story, Plain, Plain]):
    story, _, _ = drawn
    state, _ = story.replayed()
    blob = encode_state(state)
    again = decode_state(blob)
    assert encode_state(again) == blob
    assert (again.costs.sums, told_by(again.costs.by_task.whole)) == (
        state.costs.sums,
        told_by(state.costs.by_task.whole),
    )
    assert told_by(again.open_step.costs) == told_by(state.open_step.costs)


@given(stories(max_entries=6))
def test_a_run_without_costs_has_not_a_byte_of_them(story: Story):
    state, _ = story.replayed()
    assert b"costs" not in encode_state(state)


def costly(report: Report, *told: Told) -> Report:
    return replace(report, costs=rows_of(list(told)))


POOL = pool_of((0.5,), (0.5,), (0.5,))


def belief_of(kind: str, *bodies: Report) -> RunState:
    return replay(POOL, bodies, settings_from({"belief": kind}))


@pytest.mark.parametrize(("kind", "covered"), [("bots", 0.0), ("tracker", 4.0)])
def test_rollouts_that_came_too_late_to_count_still_cost(kind: str, covered: float):
    steps = [report_of((0, 1.0, 1.0))] * 66
    late = costly(report_of((1, 1.0, 3.0), made_at=0), (1, 500.0, None, 4.0))
    state = belief_of(kind, *steps, late, report_of((2, 1.0, 1.0)))
    effective = int(covered > 0)
    assert state.costs.sums.tokens == CostSum(500.0, covered, effective)
    assert told_by(state.costs.by_task.whole) == {(1, "tokens"): [500.0, covered]}


@pytest.mark.parametrize("kind", ["bots", "tracker"])
def test_aborted_rollouts_cost_and_wait_for_the_step_that_closes(kind: str):
    aborted = costly(report_of(), (1, 70.0, 2.5, 0.0))
    state = belief_of(kind, aborted)
    assert (state.step, state.costs.sums) == (0, NO_COST_SUMS)
    assert told_by(state.open_step.costs) == {(1, "tokens"): [70.0, 0.0], (1, "seconds"): [2.5, 0.0]}
    state = belief_of(kind, aborted, costly(report_of((0, 1.0, 1.0)), (0, 30.0, None, 2.0)))
    assert state.costs.sums == CostSums(CostSum(100.0, 2.0, 1), CostSum(2.5, 0.0, 0))


def test_a_rewind_takes_costs_back():
    first, second = (costly(report_of((task, 1.0, 1.0)), (task, 10.0, None, 2.0)) for task in (0, 1))
    before = belief_of("tracker", first)
    after = replay(POOL, [second], before.settings, before)
    back, _ = advance(after, Entry(3, 1, POOL.profiles, Rewind(1, 1)), POOL, base=before)
    assert (after.costs.sums.tokens.spent, back.costs.sums.tokens.spent) == (20.0, 10.0)


@given(st.lists(st.tuples(st.integers(0, 4), amounts, amounts, st.integers(0, 16).map(float)), max_size=8))
def test_rows_hold_what_outcomes_said_each_task_once(told: list[Told]):
    rows = rows_of(told)
    said = [one for one in told if (one[1], one[2]) != (None, None)]
    assert rows.tasks.tolist() == sorted({task for task, *_ in said})
    for place, task in enumerate(rows.tasks.tolist()):
        own = [one for one in said if one[0] == task]
        columns = ([(tokens, count) for _, tokens, _, count in own], [(seconds, count) for *_, seconds, count in own])
        for row, column in enumerate(columns):
            assert rows.spent[row, place] == sum(spent for spent, _ in column if spent is not None)
            assert rows.rollouts[row, place] == sum(count for spent, count in column if spent is not None)


def test_outcomes_without_a_cost_have_no_rows():
    assert rows_of([(1, None, None, 8.0)]) is NO_COSTS


def test_of_a_task_that_said_nothing_nothing_is_told():
    rows = rows_of([(1, 0.0, None, 2.0), (3, None, 7.5, 0.0)])
    assert [rows.said_of(task) for task in (0, 1, 3)] == [[None, None], [0.0, None], [None, 7.5]]
    assert NO_COSTS.said_of(0) == [None, None]


def test_a_cost_has_means_where_it_covers_something():
    assert (CostSum(90.0, 12.0, 3).per_rollout, CostSum(90.0, 12.0, 3).per_effective) == (7.5, 30.0)
    assert CostSum(90.0).per_rollout is CostSum(90.0).per_effective is None


def test_many_tasks_are_settled_and_their_sums_stay():
    pool = pool_of(*[(0.5,)] * 5000)
    state, tasks = fresh_state(settings_from({}), pool), 2500
    for step in range(4):
        first = step % 2 * tasks
        reported = report_of(*((first + task, 1.0, 1.0) for task in range(tasks)))
        told = [(first + task, float(task), None, 2.0) for task in range(tasks)]
        state = replay(pool, [costly(reported, *told)], state.settings, state)
    whole = decode_state(encode_state(state)).costs.by_task.whole
    assert whole.spent[0].tolist() == [2.0 * task for task in range(tasks)] * 2
    assert (whole.rollouts[0] == 4.0).all()
    assert not whole.spent[1].any()
