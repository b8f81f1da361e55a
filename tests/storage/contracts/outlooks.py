"""What every Outlooks does."""

import time
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bots_service.core.entries import Fork, Rewind
from bots_service.core.run_settings import RunSettings
from bots_service.errors import UnknownRunError
from bots_service.records import NewEntry, Parent, RunRow, StoredOutlook
from tests.sizes import examples
from tests.storage import made
from tests.storage.made import Stores


@dataclass
class SlowLooks:
    """Keeps, after each entry, all (seq, step) that were looked at in the history as it then stood."""

    seen: list[list[tuple[int, int]]] = field(default_factory=lambda: [[]])
    steps: list[int] = field(default_factory=lambda: [0])

    def entry(self, *, closes: bool) -> None:
        self.seen.append(list(self.seen[-1]))
        self.steps.append(self.steps[-1] + closes)

    def rewind(self, to_seq: int) -> None:
        self.seen.append(list(self.seen[to_seq]))
        self.steps.append(self.steps[to_seq])

    def look(self) -> tuple[int, int]:
        here = len(self.steps) - 1, self.steps[-1]
        if here not in self.seen[-1]:
            self.seen[-1].append(here)
        return here

    def first_of_each_step(self) -> list[int]:
        """Return the seqs of the first look at each step."""
        first: dict[int, int] = {}
        for seq, step in self.seen[-1]:
            first.setdefault(step, seq)
        return list(first.values())


async def act(stores: Stores, run: RunRow, model: SlowLooks, action: tuple[str, int]) -> None:
    """Append an entry, or look, in the store and in the model."""
    kind, place = action
    if kind == "look":
        seq, step = model.look()
        await stores.outlooks.keep(run, seq, step, made.outlook(seq), made.coverage(seq))
    elif kind == "rewind":
        to_seq = place % len(model.steps)
        await stores.journal.append(run, NewEntry(Rewind(to_seq, model.steps[to_seq]), 3))
        model.rewind(to_seq)
    else:
        await stores.journal.append(run, made.draft())
        model.entry(closes=kind == "close")


async def seqs(stores: Stores, run: RunRow, up_to: int, most: int) -> list[int]:
    return [one.seq for one in await stores.outlooks.read(run, up_to, most)]


actions = st.lists(
    st.tuples(st.sampled_from(["look", "look", "look", "close", "close", "part", "rewind"]), st.integers(0, 20)),
    max_size=30,
)
# Each example makes runs of its own, so the database may be shared by all.
many = settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])


class OutlooksContract:
    """The tests; `stores` says over what."""

    async def test_an_outlook_comes_back_as_it_was(self, stores: Stores):
        run, before = await made.run(stores), time.time()
        assert await stores.outlooks.read(run, 10, 10) == []
        await stores.outlooks.keep(run, 0, 0, made.outlook(5), made.coverage(5))
        (found,) = await stores.outlooks.read(run, 0, 10)
        assert before <= found.created_at <= time.time()
        kept = made.outlook(5)
        assert found == StoredOutlook(
            0, 0, kept.effective_task_ratio, kept.distribution, made.coverage(5), found.created_at
        )

    async def test_the_same_entry_again_changes_nothing(self, stores: Stores):
        run = await made.run(stores)
        await stores.outlooks.keep(run, 0, 0, made.outlook(1), made.coverage(1))
        first = await stores.outlooks.read(run, 0, 10)
        await stores.outlooks.keep(run, 0, 0, made.outlook(2), made.coverage(2))
        assert await stores.outlooks.read(run, 0, 10) == first

    @many
    @given(actions=actions)
    async def test_those_of_the_present_history_are_those_of_a_slow_model(
        self, stores: Stores, actions: list[tuple[str, int]]
    ):
        run, model = await made.run(stores), SlowLooks()
        for action in actions:
            await act(stores, run, model, action)
        present = model.first_of_each_step()
        for up_to in (0, len(model.steps) // 2, len(model.steps)):
            assert await seqs(stores, run, up_to, 1000) == [seq for seq in present if seq <= up_to]
        for most in range(1, len(present) + 2):
            some = await seqs(stores, run, len(model.steps), most)
            assert len(some) == min(most, len(present))
            assert some[-1:] == present[-1:]
            assert most == 1 or some[:1] == present[:1]
            gaps = [present.index(b) - present.index(a) for a, b in pairwise(some)]
            assert not gaps or max(gaps) - min(gaps) <= 1

    async def test_a_fork_has_its_own_from_its_beginning(self, stores: Stores):
        row = await made.dataset(stores)
        empty, _ = await stores.runs.put(row.id, "forked", RunSettings())
        await stores.outlooks.keep(empty, 0, 0, made.outlook(1), made.coverage(1))
        origin = (Parent("default", 12, 14), Fork("default", 14, b"state"), 3)
        run, _ = await stores.runs.put(row.id, "forked", RunSettings(), fork=origin)
        assert await stores.outlooks.read(run, 1, 10) == []
        await stores.outlooks.keep(run, 1, 12, made.outlook(2), made.coverage(2))
        assert [(one.seq, one.step) for one in await stores.outlooks.read(run, 1, 10)] == [(1, 12)]

    async def test_they_go_with_their_run_and_none_comes_after_it(self, stores: Stores):
        run = await made.run(stores)
        await stores.outlooks.keep(run, 0, 0, made.outlook(), made.coverage())
        await stores.runs.delete(run)
        with pytest.raises(UnknownRunError, match=run.name):
            await stores.outlooks.keep(run, 0, 0, made.outlook(), made.coverage())
        again, _ = await stores.runs.put(run.dataset_id, run.name, run.settings)
        assert await stores.outlooks.read(again, 10, 10) == []
        assert await stores.outlooks.read(run, 10, 10) == []

    async def test_those_of_other_settings_are_gone(self, stores: Stores):
        run = await made.run(stores)
        await stores.outlooks.keep(run, 0, 0, made.outlook(), made.coverage())
        replaced, _ = await stores.runs.put(run.dataset_id, run.name, RunSettings(target=0.3))
        assert await stores.outlooks.read(replaced, 10, 10) == []
        with pytest.raises(UnknownRunError, match=run.name):
            await stores.outlooks.keep(run, 0, 0, made.outlook(), made.coverage())
