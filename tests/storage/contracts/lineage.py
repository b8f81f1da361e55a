"""What every Journal owes of a run's present history, where rewinds hide what stood before them."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bots_service.core.entries import Fork, Rewind
from bots_service.core.run_settings import RunSettings
from bots_service.records import CurvePoint, NewEntry, Parent, RunRow, StoredReceipt
from tests.sizes import examples
from tests.storage import made
from tests.storage.made import Stores


@dataclass
class SlowHistory:
    """Keeps, after each entry, the whole list of (step, seq) that closed in the history as it then stood.

    visible: after each entry, the entries of that history.
    steps: after each entry, how many steps had closed.
    """

    first_step: int = 0
    first_seq: int = 0
    after: list[list[tuple[int, int]]] = field(default_factory=list)
    visible: list[set[int]] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)

    def __post_init__(self):
        self.after = [[] for _ in range(self.first_seq + 1)]
        self.visible = [set(range(1, seq + 1)) for seq in range(self.first_seq + 1)]
        self.steps = [self.first_step] * (self.first_seq + 1)

    @property
    def present(self) -> list[tuple[int, int]]:
        return self.after[-1]

    @property
    def step(self) -> int:
        return self.present[-1][0] if self.present else self.first_step

    def closing(self, step: int) -> int | None:
        return {self.first_step: self.first_seq, **dict(self.present)}.get(step)

    def close(self) -> None:
        self._add([*self.present, (self.step + 1, len(self.after))], self.visible[-1])

    def stay(self) -> None:
        self._add(self.present, self.visible[-1])

    def rewind(self, step: int) -> int:
        to_seq = self.closing(step)
        assert to_seq is not None
        self._add(self.after[to_seq], self.visible[to_seq])
        return to_seq

    def _add(self, closed: list[tuple[int, int]], visible: set[int]) -> None:
        self.visible.append({*visible, len(self.after)})
        self.after.append(closed)
        self.steps.append(self.step)


async def act(stores: Stores, run: RunRow, model: SlowHistory, action: tuple[str, int]) -> None:
    """Append one entry with its receipt, to the journal and to the model."""
    kind, place = action
    if kind == "rewind":
        step = model.first_step + place % (model.step - model.first_step + 1)
        appended = await stores.journal.append(run, NewEntry(Rewind(model.rewind(step), step), 3))
    else:
        model.close() if kind == "close" else model.stay()
        appended = await stores.journal.append(run, made.draft())
    closed = kind == "close"
    receipt = made.receipt(appended.entry.seq, model.step, closed=closed, epoch=appended.entry.epoch)
    await stores.journal.keep_receipts(run, [receipt])


async def compare_curve(stores: Stores, run: RunRow, read: list[StoredReceipt], width: int) -> None:
    """Each point is what its steps add up to, also where the curve ends before the journal does."""
    for up_to in {0, *(kept.receipt.seq for kept in read[len(read) // 2 :])}:
        places: dict[int, list[StoredReceipt]] = {}
        for kept in read:
            if kept.receipt.seq <= up_to:
                places.setdefault((kept.receipt.step - 1 - run.origin_step) // width, []).append(kept)
        expected = [(kept[0].receipt.step, *at_end(kept[-1]), *sums(kept)) for kept in places.values()]
        points = await stores.journal.curve(run, up_to, width)
        assert [plain(point) for point in points] == expected


async def compare_journal(stores: Stores, run: RunRow, model: SlowHistory) -> None:
    """The whole journal comes backwards, page by page, and tells what was hidden."""
    pages = [await stores.journal.before(run, None, 4)]
    while pages[-1]:
        pages.append(await stores.journal.before(run, pages[-1][-1].seq, 4))
    read = [logged for page in pages for logged in page]
    last = len(model.after) - 1
    assert [logged.seq for logged in read] == list(range(last, 0, -1))
    assert {logged.seq for logged in read if not logged.is_hidden} == model.visible[-1]
    kept = [logged for logged in read if logged.seq > model.first_seq]
    assert [logged.step for logged in kept] == [model.steps[logged.seq] for logged in kept]
    assert all(logged.closed == ((logged.step, logged.seq) in model.after[logged.seq]) for logged in kept)


def plain(point: CurvePoint) -> tuple[Any, ...]:
    """Return a point's numbers in the order of `compare_curve`, those that are sums of fractions nearly."""
    ends = (point.first_step, point.last_step, point.capability, point.distinct_tasks, point.time)
    counts = (point.reported, point.effective, point.all_solved, point.none_solved)
    others = (point.late, point.expired, point.new_tasks)
    fractions = (point.rollouts, point.successes, point.brier, point.log_loss)
    return (*ends, *counts, *others, *map(pytest.approx, fractions))


def at_end(kept: StoredReceipt) -> tuple[float | None, ...]:
    """Return what a point tells of its last step, in the order of `compare_curve`."""
    receipt = kept.receipt
    return receipt.step, receipt.capability, receipt.distinct_tasks, kept.created_at


def sums(several: list[StoredReceipt]) -> tuple[float | None, ...]:
    """Return what some steps add up to, in the order of `compare_curve`."""
    receipts = [kept.receipt for kept in several]
    tallies = [receipt.tally for receipt in receipts]
    rollouts = sum(tally.rollouts for tally in tallies)

    def mean(errors: list[float | None]) -> float | None:
        weighed = [error * tally.rollouts for error, tally in zip(errors, tallies, strict=True) if error is not None]
        return sum(weighed) / rollouts if weighed else None

    return (
        *(sum(getattr(tally, name) for tally in tallies) for name in ("reported", "effective")),
        *(sum(getattr(tally, name) for tally in tallies) for name in ("all_solved", "none_solved")),
        sum(receipt.late for receipt in receipts),
        sum(receipt.expired for receipt in receipts),
        sum(receipt.new_tasks for receipt in receipts),
        rollouts,
        sum(tally.successes for tally in tallies),
        mean([receipt.brier for receipt in receipts]),
        mean([receipt.log_loss for receipt in receipts]),
    )


async def compare(stores: Stores, run: RunRow, model: SlowHistory) -> None:
    for step in range(model.first_step - 1, len(model.after) + model.first_step + 2):
        assert await stores.journal.closing(run, step) == model.closing(step)
    read = await stores.journal.history(run, 0, 1000)
    assert [(kept.receipt.step, kept.receipt.seq) for kept in read] == model.present
    for width in (1, 3):
        await compare_curve(stores, run, read, width)
    await compare_journal(stores, run, model)
    middle = model.step // 2
    page = await stores.journal.history(run, middle, 3)
    assert [kept.receipt.seq for kept in page] == [seq for step, seq in model.present if step > middle][:3]


actions = st.lists(
    st.tuples(st.sampled_from(["close", "close", "close", "part", "rewind"]), st.integers(0, 20)), max_size=25
)
# Each example makes runs of its own, so the database may be shared by all.
many = settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])


class LineageContract:
    @many
    @given(actions=actions)
    async def test_the_present_history_is_that_of_a_slow_model(self, stores: Stores, actions: list[tuple[str, int]]):
        run, model = await made.run(stores), SlowHistory()
        for action in actions:
            await act(stores, run, model, action)
        await compare(stores, run, model)

    async def test_rewinding_twice_to_one_step_then_to_nested_ones(self, stores: Stores):
        run, model = await made.run(stores), SlowHistory()
        closes, to = [("close", 0)] * 4, "rewind"
        for action in [*closes, (to, 2), (to, 2), *closes, (to, 3), (to, 1), *closes, (to, 0), ("close", 0)]:
            await act(stores, run, model, action)
            await compare(stores, run, model)

    async def test_a_forked_run_begins_at_its_parents_step(self, stores: Stores):
        row = await made.dataset(stores)
        origin = (Parent("default", 12, 14), Fork("default", 14, b"state"), 3)
        run, _ = await stores.runs.put(row.id, "forked", RunSettings(), fork=origin)
        model = SlowHistory(first_step=12, first_seq=1)
        await compare(stores, run, model)
        for action in [("close", 0), ("close", 0), ("rewind", 0), ("close", 0), ("rewind", 1)]:
            await act(stores, run, model, action)
            await compare(stores, run, model)

    async def test_history_tells_when_each_entry_came(self, stores: Stores):
        run = await made.run(stores)
        for seq in (1, 2):
            await stores.journal.append(run, made.draft())
            await stores.journal.keep_receipts(run, [made.receipt(seq, seq)])
        times = [kept.created_at for kept in await stores.journal.history(run, 0, 10)]
        assert times == sorted(times)
        assert times[0] > run.created_at - 1
