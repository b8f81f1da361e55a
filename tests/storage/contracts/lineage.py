"""What every Journal owes of a run's present history, where rewinds hide what stood before them."""

from dataclasses import dataclass, field

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bots_service.core.entries import Fork, Rewind
from bots_service.core.run_settings import RunSettings
from bots_service.ports.records import Draft, Parent, RunRow
from tests.storage import made
from tests.storage.made import Stores


@dataclass
class SlowHistory:
    """Keeps, after each entry, the whole list of (step, seq) that closed in the history as it then stood."""

    first_step: int = 0
    first_seq: int = 0
    after: list[list[tuple[int, int]]] = field(default_factory=list)

    def __post_init__(self):
        self.after = [[] for _ in range(self.first_seq + 1)]

    @property
    def present(self) -> list[tuple[int, int]]:
        return self.after[-1]

    @property
    def step(self) -> int:
        return self.present[-1][0] if self.present else self.first_step

    def closing(self, step: int) -> int | None:
        return {self.first_step: self.first_seq, **dict(self.present)}.get(step)

    def close(self) -> None:
        self.after.append([*self.present, (self.step + 1, len(self.after))])

    def stay(self) -> None:
        self.after.append(self.present)

    def rewind(self, step: int) -> int:
        to_seq = self.closing(step)
        assert to_seq is not None
        self.after.append(self.after[to_seq])
        return to_seq


async def act(stores: Stores, run: RunRow, model: SlowHistory, action: tuple[str, int]) -> None:
    """Append one entry with its receipt, to the journal and to the model."""
    kind, place = action
    if kind == "rewind":
        step = model.first_step + place % (model.step - model.first_step + 1)
        appended = await stores.journal.append(run, Draft(Rewind(model.rewind(step), step), 3))
    else:
        model.close() if kind == "close" else model.stay()
        appended = await stores.journal.append(run, made.draft())
    closed = kind == "close"
    receipt = made.receipt(appended.entry.seq, model.step, closed=closed, epoch=appended.entry.epoch)
    await stores.journal.keep_receipts(run, [receipt])


async def compare(stores: Stores, run: RunRow, model: SlowHistory) -> None:
    for step in range(model.first_step - 1, len(model.after) + model.first_step + 2):
        assert await stores.journal.closing(run, step) == model.closing(step)
    read = await stores.journal.history(run, 0, 1000)
    assert [(kept.receipt.step, kept.receipt.seq) for kept in read] == model.present
    middle = model.step // 2
    page = await stores.journal.history(run, middle, 3)
    assert [kept.receipt.seq for kept in page] == [seq for step, seq in model.present if step > middle][:3]


actions = st.lists(
    st.tuples(st.sampled_from(["close", "close", "close", "part", "rewind"]), st.integers(0, 20)), max_size=25
)
# Each example makes runs of its own, so the database may be shared by all.
many = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


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
