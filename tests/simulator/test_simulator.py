"""Thousands of seeded schedules of callers and faults in one process, each checked against a plain model."""

import math
import os
from collections.abc import Callable
from dataclasses import replace

import pytest

from bots_service.core.entries import Report
from bots_service.core.state import RunState
from bots_service.ports.hot import NO_TOKEN, PublishedState, PublishResult
from bots_service.ports.records import AppendResult
from tests.simulator.fake_hot import FakeStates, Hot, InFlight
from tests.simulator.fake_sql import Sql
from tests.simulator.links import LostError
from tests.simulator.schedule import Schedule
from tests.sizes import size

ENOUGH = 300  # each sabotage below is noticed by one of them
SCHEDULES = size(ENOUGH, 20_000)
BATCHES = 20  # so that several processes can share the work
DENSE_EVERY = 10  # the dense rule is slow
ONE = os.environ.get("BOTS_SIMULATOR_SEED")  # plays this one alone


def play(seed: int) -> Schedule:
    schedule = Schedule(seed)
    try:
        schedule.run()
    except AssertionError as error:
        pytest.fail(f"seed {seed}: BOTS_SIMULATOR_SEED={seed} pytest tests/simulator plays it again\n{error}")
    return schedule


@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_promise_is_broken_whatever_fails(batch: int):
    seeds = range(batch, SCHEDULES, BATCHES) if ONE is None else [int(ONE)] * (batch == 0)
    for place, seed in enumerate(seeds):
        world = play(seed).world
        if place % DENSE_EVERY == 0:
            for run in world.promises:
                world.truth.assert_dense(run)


@pytest.mark.parametrize("seed", [3, 14, 159])
def test_a_seed_gives_the_same_schedule_each_time(seed: int):
    first, second = play(seed).world, play(seed).world
    assert first.network.trace == second.network.trace
    assert len(first.network.trace) > 20


# --- can it fail? ----------------------------------------------------------------------------------------------------


def losing_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    append = Sql.append

    def lossy(self: Sql, run, draft) -> AppendResult:
        if isinstance(draft.body, Report) and self.number() % 20 == 0:
            last = self.table(run).entries[-1:]
            return AppendResult(last[0], duplicate=True) if last else append(self, run, draft)
        return append(self, run, draft)

    monkeypatch.setattr(Sql, "append", lossy)


def forgetting_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    append = Sql.append

    def keyless(self: Sql, run, draft) -> AppendResult:
        self.table(run).keys.pop(draft.idempotency_key.key, None) if draft.idempotency_key else None
        return append(self, run, draft)

    monkeypatch.setattr(Sql, "append", keyless)


def trusting_what_a_wipe_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a store that comes back with an older state and says that it lost nothing."""
    older: dict[str, RunState] = {}

    def restart(self: Hot, in_flight: dict[str, InFlight]) -> None:
        self.states = {uid: older[uid] for uid in self.states if uid in older}
        self.in_flight = in_flight

    def copied(self: Hot) -> dict[str, InFlight]:
        older.clear()
        older.update(self.states)
        return {}

    monkeypatch.setattr(Hot, "restart", restart)
    monkeypatch.setattr(Hot, "copied", copied)


def losing_states(monkeypatch: pytest.MonkeyPatch) -> None:
    publish = Hot.publish

    def lossy(self: Hot, run, state) -> PublishResult:
        return PublishResult.SHARED if state.seq % 7 == 6 else publish(self, run, state)

    monkeypatch.setattr(Hot, "publish", lossy)


def losing_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    take = InFlight.take

    def lossy(self: InFlight, selection, *rest) -> None:
        take(self, selection, *rest)
        self.ends.clear()

    monkeypatch.setattr(InFlight, "take", lossy)


def ending_an_invalidation_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a store in which the first publish after a change of the dataset ends the invalidation for all replicas."""

    async def trusting(self: FakeStates, run) -> PublishedState:
        try:
            state, generation = await self._link.call(
                "newest", lambda: (self._hot.states.get(run.uid), self._hot.generation_of(run))
            )
        except LostError:
            return PublishedState(None, NO_TOKEN)
        token = f"{self._link.outages}:{generation}"
        if state is not None:
            self._trusted[run.uid] = token
            self._hold(run, state, token)
        return PublishedState(state, token)

    monkeypatch.setattr(FakeStates, "newest", trusting)


def counting_anew_after_a_wipe(monkeypatch: pytest.MonkeyPatch) -> None:
    anew = Hot.anew
    monkeypatch.setattr(Hot, "anew", lambda self, in_flight: replace(anew(self, in_flight), first=0))


def telling_nobody_of_lost_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    anew = Hot.anew
    monkeypatch.setattr(Hot, "anew", lambda self, in_flight: replace(anew(self, in_flight), lost_at=-math.inf))


SABOTAGES = [
    *(losing_entries, forgetting_keys, trusting_what_a_wipe_left, losing_states, losing_leases),
    *(ending_an_invalidation_for_all, counting_anew_after_a_wipe, telling_nobody_of_lost_leases),
]


BEGIN = {"trusting_what_a_wipe_left": 142}  # of the search, where the first who notices comes late


@pytest.mark.parametrize("sabotage", SABOTAGES)
def test_a_store_that_breaks_its_word_is_noticed(
    sabotage: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
):
    sabotage(monkeypatch)
    begin = BEGIN.get(sabotage.__name__, 0)
    for number in range(ENOUGH):
        try:
            Schedule((begin + number) % ENOUGH).run()
        except AssertionError:
            return
    pytest.fail("nobody noticed")
