"""What every Courses does."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bots_service.core.entries import Body, Rewind, SettingsChange
from bots_service.core.receipt import Tally
from bots_service.core.run_settings import RunSettings
from bots_service.core.summary.course import TIMED, StepSums
from bots_service.core.summary.gain import StepRange
from bots_service.core.summary.verdict import RunFindings, RunVerdict
from bots_service.errors import UnknownRunError
from bots_service.records import (
    NO_NOTES,
    CoursePart,
    Judgement,
    NewEntry,
    RunHead,
    RunRow,
    SeqRange,
    WantedCourse,
    WantedSums,
)
from tests.sizes import examples
from tests.storage import made
from tests.storage.made import Stores

# Each example makes runs of its own, so the database may be shared by all.
many = settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
actions = st.lists(
    st.tuples(st.sampled_from(["close", "close", "part", "change", "rewind"]), st.integers(0, 99)), max_size=30
)


async def head_of(stores: Stores, run: RunRow) -> RunHead:
    return next(head for head in await stores.courses.heads() if head.run_id == run.id)


async def act(stores: Stores, run: RunRow, kinds: list[tuple[str, int]]) -> list[tuple[int, str, int, int]]:
    """Append entries with receipts; return seq, kind, number and step of those in the present history."""
    present: list[tuple[int, str, int, int]] = []
    for seq, (kind, number) in enumerate(kinds, start=1):
        body: Body = made.report(seq)
        if kind == "change":
            body = SettingsChange({"strategy": ("uniform", "shuffle")[number % 2], "seed": number})
        if kind == "rewind":
            target = number % (len(present) + 1)
            present = present[:target]
            body = Rewind(*(present[-1][0], present[-1][3]) if present else (0, 0))
        await stores.journal.append(run, NewEntry(body, 3))
        step = (present[-1][3] if present else 0) + (kind == "close")
        present.append((seq, kind, number, step))
        tally = Tally(number, number // 2, 0, 0, 2.5 * number, 1.0, None)
        receipt = replace(made.receipt(seq, step, closed=kind == "close"), tally=tally)
        await stores.journal.keep_receipts(run, [receipt])
        await stores.outlooks.keep(run, seq, step, made.outlook(seq), made.coverage())
    return present


def looks(spans: tuple[SeqRange, ...]) -> tuple[SeqRange, ...]:
    return tuple(SeqRange(-1 if span.after == 0 else span.after, span.last) for span in spans)


class CoursesContract:
    """The tests; `stores` says over what."""

    async def test_heads_say_where_the_runs_of_each_dataset_stand(self, stores: Stores):
        dataset, other = await made.dataset(stores), await made.dataset(stores)
        run = await made.run(stores, dataset)
        await stores.datasets.stage()  # no dataset yet, and without a run
        await stores.journal.append(run, made.draft())
        await stores.journal.append(run, NewEntry(Rewind(0, 0), 3))
        of_dataset = await stores.courses.heads(dataset.name)
        assert {head.dataset for head in of_dataset} == {dataset.name}
        assert RunHead(run.id, run.uid, dataset.name, 2, 1, dataset.version) in of_dataset
        assert len(of_dataset) == 2  # and its run `default`
        found = await stores.courses.heads()
        assert {head.dataset for head in found} >= {dataset.name, other.name}
        assert [head for head in found if head.dataset == dataset.name] == of_dataset
        assert await stores.courses.heads("none") == []

    async def test_rows_are_those_of_the_runs_that_stand(self, stores: Stores):
        run, gone = await made.run(stores), await made.run(stores)
        await stores.runs.delete(gone)
        assert await stores.courses.rows([run.id, gone.id]) == {run.id: run}
        assert await stores.courses.rows([]) == {}

    async def test_notes_are_the_newest_judgement_and_the_refused_reports(self, stores: Stores):
        run, other = await made.run(stores), await made.run(stores)
        before = await head_of(stores, run)
        await stores.journal.append(run, made.draft())
        newest = Judgement(1, 7, 2, RunFindings(RunVerdict("narrow", "Why ü.", "What to do."), None, ("A hint.",)))
        for judgement in (Judgement(0, 9, 1, RunFindings()), newest, Judgement(1, 6, 3, RunFindings())):
            await stores.courses.keep_judgement(run, judgement)
        for reason in ("first", "last"):
            await stores.runs.note_refused_report(run, reason)
        head = await head_of(stores, run)
        assert (head.refused_reports, head.judged_at is None) == (2, False)
        assert (before.refused_reports, before.judged_at) == (0, None)
        found = await stores.courses.notes([run.id, other.id])
        assert found[other.id] == NO_NOTES
        assert found[run.id].judgement == newest
        refused = found[run.id].refused
        assert refused is not None
        assert (refused.count, refused.seq, refused.reason) == (2, 1, "last")
        assert await stores.courses.notes([]) == {}

    async def test_a_run_that_is_gone_gets_no_notes(self, stores: Stores):
        run = await made.run(stores)
        await stores.runs.delete(run)
        await stores.courses.keep_judgement(run, Judgement(0, 1, 1, RunFindings()))
        with pytest.raises(UnknownRunError):
            await stores.runs.note_refused_report(run, "why")
        assert await stores.courses.notes([run.id]) == {}

    async def test_an_empty_run_with_other_settings_has_no_notes(self, stores: Stores):
        dataset = await made.dataset(stores)
        run = await made.run(stores, dataset)
        await stores.courses.keep_judgement(run, Judgement(0, 0, 1, RunFindings()))
        await stores.runs.note_refused_report(run, "why")
        await stores.runs.put(dataset.id, run.name, RunSettings(seed=99))
        assert (await stores.courses.notes([run.id]))[run.id] == NO_NOTES

    @many
    @given(kinds=st.lists(actions, min_size=1, max_size=3), cut=st.integers(0, 30))
    async def test_courses_of_several_runs_are_those_of_plain_loops(
        self, stores: Stores, kinds: list[list[tuple[str, int]]], cut: int
    ):
        runs = [await made.run(stores) for _ in kinds]
        expected = [await act(stores, run, some) for run, some in zip(runs, kinds, strict=True)]
        heads = [await head_of(stores, run) for run in runs]
        present = await stores.courses.present(heads)
        for run, history in zip(runs, expected, strict=True):
            seqs = [seq for span in present[run.id] for seq in range(span.after + 1, span.last + 1)]
            assert seqs == [seq for seq, *_ in history]
            assert all(a.last <= b.after for a, b in pairwise(present[run.id]))
        after = {run.id: tuple(SeqRange(max(a, cut), b) for a, b in present[run.id] if b > cut) for run in runs}
        wanted = [WantedCourse(run.id, after[run.id], looks(after[run.id])) for run in runs]
        found = await stores.courses.read(wanted)
        for run, history in zip(runs, expected, strict=True):
            await assert_is_part(stores, run, found[run.id], [entry for entry in history if entry[0] > cut])
        ranges = [StepRange(2, 5), StepRange(1, 30), StepRange(4, 3)]
        sums = await stores.courses.sums(
            [WantedSums(run.id, present[run.id], steps) for run in runs for steps in ranges]
        )
        for place, (run_place, steps) in enumerate((one, steps) for one in range(len(runs)) for steps in ranges):
            closed = [
                entry for entry in expected[run_place] if entry[1] == "close" and steps.first <= entry[3] <= steps.last
            ]
            numbers = [number for _, _, number, _ in closed]
            assert sums[place] == StepSums(sum(numbers), sum(n // 2 for n in numbers), 2.5 * sum(numbers))

    async def test_an_outlook_from_before_the_first_entry_is_found(self, stores: Stores):
        run = await made.run(stores)
        await stores.outlooks.keep(run, 0, 0, made.outlook(3), made.coverage())
        for first, seqs in ((-1, [0]), (0, [])):
            part = (await stores.courses.read([WantedCourse(run.id, (), (SeqRange(first, 5),))]))[run.id]
            assert part.estimates.seqs.tolist() == seqs

    async def test_an_entry_without_a_receipt_is_not_counted(self, stores: Stores):
        run = await made.run(stores)
        for _ in range(3):
            await stores.journal.append(run, made.draft())
        await stores.journal.keep_receipts(run, [made.receipt(1, 1), made.receipt(3, 3)])
        wanted = WantedCourse(run.id, (SeqRange(0, 3),), ())
        part = (await stores.courses.read([wanted]))[run.id]
        assert (part.receipts, part.steps.seqs.tolist()) == (2, [1, 3])

    async def test_more_runs_than_one_statement_takes_are_read_whole(self, stores: Stores):
        run = await made.run(stores)
        await act(stores, run, [("close", 4)] * 3)
        wanted = [WantedCourse(run.id, (SeqRange(0, 1), SeqRange(1, 3)), ())]
        wanted += [WantedCourse(10**9 + number, (SeqRange(0, 9),), ()) for number in range(1200)]
        found = await stores.courses.read(wanted[::-1])
        assert (found[run.id].receipts, found[run.id].steps.seqs.tolist()) == (3, [1, 2, 3])
        assert (found[10**9].receipts, len(found[10**9].steps)) == (0, 0)
        assert (
            await stores.courses.sums([WantedSums(run.id, (SeqRange(0, 3),), StepRange(1, 3))] * 1200)
            == [StepSums(12, 6, 30.0)] * 1200
        )
        assert len(await stores.courses.rows([run.id, *range(10**9, 10**9 + 1200)])) == 1

    async def test_nothing_wanted_is_nothing_read(self, stores: Stores):
        assert await stores.courses.read([]) == {}
        assert await stores.courses.sums([]) == []
        assert await stores.courses.present([]) == {}


async def assert_is_part(
    stores: Stores, run: RunRow, part: CoursePart, history: list[tuple[int, str, int, int]]
) -> None:
    """Check that a part has just these entries."""
    closed = [(seq, number) for seq, kind, number, _ in history if kind == "close"]
    assert part.receipts == len(history)
    assert part.steps.seqs.tolist() == [seq for seq, _ in closed]
    assert part.steps.reported.tolist() == [number for _, number in closed]
    assert part.steps.effective.tolist() == [number // 2 for _, number in closed]
    assert part.steps.rollouts.tolist() == [2.5 * number for _, number in closed]
    logged = {one.seq: one.created_at for one in await stores.journal.before(run, None, 100)}
    assert part.steps.times.tolist() == [logged[seq] for seq, _ in closed][-TIMED:]
    assert part.estimates.seqs.tolist() == [seq for seq, *_ in history]
    np.testing.assert_allclose(part.estimates.ratios, [made.outlook(seq).effective_task_ratio for seq, *_ in history])
    changes = [number for _, kind, number, _ in history if kind == "change"]
    wanted = {"strategy": ("uniform", "shuffle")[changes[-1] % 2], "seed": changes[-1]} if changes else {}
    assert part.changed == wanted
