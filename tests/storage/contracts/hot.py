"""What every States and Leases owes."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings
from bots_service.core.state import RunState, fresh_state
from bots_service.ports.hot import NO_TOKEN, KnownState, LeaseResult, Leases, LeaseTicket, PublishResult, States
from bots_service.ports.records import RunRow, Selection
from bots_service.retention import SELECTIONS_S

POOL = Pool(np.full((3, 1), 0.5), np.arange(3, dtype=np.int32))


def run_row(number: int = 1) -> RunRow:
    return RunRow(number, f"uid-{number}", 1, f"run-{number}", RunSettings(), 0, 0, 0.0)


def state_at(seq: int, epoch: int = 0) -> RunState:
    """The state of a run with BOTS, whose belief a test can make as large as it wants."""
    return replace(fresh_state(RunSettings(belief="bots", strategy="thompson"), POOL), seq=seq, epoch=epoch)


def selection_of(state: RunState, *tasks: int) -> Selection:
    numbers = np.linspace(0.0, 1.0, len(tasks))
    draws = np.full(len(tasks), np.nan)
    chosen = np.array(tasks, np.int32)
    place = ("id", state.epoch, 0, state.seq, False, 0)
    return Selection(*place, chosen, draws, numbers, numbers)


class Clock:
    """Time that passes only when told to. Redis's passes besides, so lengths in tests differ by many seconds."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Hot:
    """What is live, and the time that its leases see. known: what selections start from."""

    states: States
    leases: Leases
    clock: Clock
    known: KnownState = KnownState(state_at(1), NO_TOKEN)  # noqa: RUF009 - read-only

    async def publish(self, state: RunState, run: RunRow = run_row()) -> PublishResult:  # noqa: B008 - read-only
        """Publish a state with a token from just before, and select from it."""
        token = (await self.states.newest(run)).token
        result = await self.states.publish(run, state, token)
        self.known = KnownState(state, NO_TOKEN if result is PublishResult.LOCAL else token)
        return result

    async def prepare(self, key: str | None = None, run: RunRow = run_row()) -> LeaseTicket:  # noqa: B008 - read-only
        return await self.leases.prepare(run, self.known, key=key)

    async def acquire(
        self, ticket: LeaseTicket, *tasks: int, seconds: float = 1000, key: str | None = None, reuse: bool = False
    ) -> LeaseResult:
        chosen = replace(selection_of(self.known.state, *tasks), degraded=ticket.degraded)
        return await self.leases.acquire(
            run_row(), chosen, ticket, seconds=seconds, key=key, fingerprint="f", reuse=reuse
        )

    async def select(
        self, *tasks: int, seconds: float = 1000, key: str | None = None, reuse: bool = False
    ) -> LeaseResult:
        return await self.acquire(await self.prepare(key), *tasks, seconds=seconds, key=key, reuse=reuse)

    async def leased(self) -> list[int]:
        leased: list[int] = (await self.leases.leased(run_row())).tolist()
        return leased

    async def lease_ends(self) -> dict[int, float]:
        ends = await self.leases.ttls(run_row())
        return dict(zip(ends.tasks.tolist(), ends.ttl_s.tolist(), strict=True))

    async def release(self, *tasks: int) -> None:
        await self.leases.release(run_row(), np.array(tasks, np.int32))


async def found(states: States, run: RunRow) -> tuple[int, int] | None:
    state = (await states.newest(run)).state
    return None if state is None else (state.epoch, state.seq)


class StatesContract:
    async def test_an_invalidated_run_is_asked_for_before_its_state_is_used(self, hot: Hot):
        """Also of a process that goes on by what it knows: it is told at the latest when it takes."""
        await hot.states.register(run_row())
        await hot.publish(state_at(4))
        ticket = await hot.prepare()
        await hot.acquire(ticket, 1)
        await hot.states.invalidate(run_row())
        if await found(hot.states, run_row()) is None:  # in one process's memory nobody else changes anything
            assert (await hot.select(2)).stale
            assert await hot.publish(state_at(4)) is PublishResult.SHARED
        assert await found(hot.states, run_row()) == (0, 4)
        ticket = await hot.prepare()
        assert (ticket.ordinal, ticket.leased.tolist(), ticket.degraded) == (1, [1], False)

    async def test_nothing_is_known_at_first(self, hot: Hot):
        assert await found(hot.states, run_row()) is None
        assert hot.states.known(run_row()) is None

    async def test_the_state_with_the_greatest_epoch_and_seq_is_the_newest(self, hot: Hot):
        for epoch, seq in ((0, 4), (0, 9), (0, 7), (1, 3), (0, 12)):
            assert await hot.publish(state_at(seq, epoch)) is PublishResult.SHARED
        assert await found(hot.states, run_row()) == (1, 3)

    async def test_a_state_comes_back_as_it_was_published(self, hot: Hot):
        settings = RunSettings(seed=5, tasks_per_step=7)
        state = replace(fresh_state(settings, POOL), seq=8, step=2)
        await hot.publish(state)
        newest = (await hot.states.newest(run_row())).state
        assert newest is not None
        assert (newest.settings, newest.seq, newest.step) == (settings, 8, 2)

    async def test_what_is_known_carries_a_token_to_go_on_with(self, hot: Hot):
        await hot.publish(state_at(4))
        known = hot.states.known(run_row())
        assert known is not None
        assert known.state.seq == 4
        assert await hot.states.publish(run_row(), state_at(5), known.token) is PublishResult.SHARED
        assert await found(hot.states, run_row()) == (0, 5)

    async def test_runs_do_not_mix(self, hot: Hot):
        await hot.publish(state_at(4))
        assert await found(hot.states, run_row(2)) is None
        assert await found(hot.states, replace(run_row(1), uid="made anew")) is None

    async def test_a_deleted_state_is_not_known(self, hot: Hot):
        await hot.publish(state_at(4))
        await hot.states.delete(run_row())
        await hot.states.delete(run_row())
        assert await found(hot.states, run_row()) is None
        assert hot.states.known(run_row()) is None


class LeasesContract:
    async def test_selections_from_one_state_are_counted(self, hot: Hot):
        ordinals = []
        for seq in (5, 5, 6, 6, 6):
            await hot.publish(state_at(seq))
            ticket = await hot.prepare()
            ordinals.append(ticket.ordinal)
            assert (await hot.acquire(ticket, 10 * seq + ticket.ordinal)).selection is not None
        assert ordinals == [0, 1, 0, 1, 2]

    async def test_a_ticket_alone_counts_nothing(self, hot: Hot):
        await hot.publish(state_at(5))
        assert [(await hot.prepare()).ordinal for _ in range(3)] == [0, 0, 0]

    async def test_leased_tasks_are_in_flight_until_released(self, hot: Hot):
        await hot.publish(state_at(1))
        assert (await hot.select(7, 2, 9)).selection is not None
        assert (await hot.prepare()).leased.tolist() == [2, 7, 9]
        await hot.release(9, 4)
        assert (await hot.prepare()).leased.tolist() == [2, 7]
        assert await hot.leased() == [2, 7]

    async def test_tasks_stay_in_flight_while_the_state_moves_on(self, hot: Hot):
        await hot.publish(state_at(1))
        await hot.select(7, 2)
        await hot.publish(state_at(2))
        await hot.release(7)
        ticket = await hot.prepare()
        assert (ticket.ordinal, ticket.leased.tolist()) == (0, [2])

    async def test_where_others_took_tasks_meanwhile_a_selection_is_refused_and_takes_none(self, hot: Hot):
        await hot.publish(state_at(1))
        first, second = await hot.prepare(), await hot.prepare()
        assert (await hot.acquire(first, 1, 2)).selection is not None
        refused = await hot.acquire(second, 3, 4)
        assert (refused.selection, refused.previous, refused.stale) == (None, None, False)
        assert await hot.leased() == [1, 2]

    async def test_after_a_refusal_an_ordinal_is_reserved_and_only_shared_tasks_are_refused(self, hot: Hot):
        await hot.publish(state_at(1))
        first, second = await hot.prepare(), await hot.prepare()
        await hot.acquire(first, 1, 2)
        await hot.acquire(second, 3, 4)
        again = await hot.prepare()
        assert (again.ordinal, again.leased.tolist()) == (1, [1, 2])
        assert (await hot.acquire(again, 2, 3)).selection is None
        kept = await hot.prepare()
        assert kept.ordinal == 1
        await hot.release(1)
        assert (await hot.acquire(kept, 3, 4)).selection is not None
        assert await hot.leased() == [2, 3, 4]
        assert (await hot.prepare()).ordinal == 2

    async def test_leased_tasks_are_reused_where_allowed_and_their_lease_begins_anew(self, hot: Hot):
        await hot.publish(state_at(1))
        await hot.select(1, 2, seconds=1000)
        hot.clock.advance(800)
        assert (await hot.select(2, 3, seconds=1000, reuse=True)).selection is not None
        hot.clock.advance(400)
        assert await hot.leased() == [2, 3]

    async def test_only_leases_that_the_draw_knew_of_are_spared_a_second_time(self, hot: Hot):
        await hot.publish(state_at(1))
        first, second = await hot.prepare(), await hot.prepare()
        await hot.acquire(first, 1, 2)
        await hot.acquire(second, 3, 4)
        again = await hot.prepare()
        before = replace(again, leased=np.array([1], np.int32))  # as it stood before another replica leased 2
        assert (await hot.acquire(before, 1, 2, reuse=True)).selection is None
        assert (await hot.acquire(before, 1, 3, reuse=False)).selection is None
        assert await hot.leased() == [1, 2]
        assert (await hot.acquire(await hot.prepare(), 1, 2, 3, reuse=True)).selection is not None
        assert await hot.leased() == [1, 2, 3]

    async def test_a_lease_ends_by_itself(self, hot: Hot):
        await hot.publish(state_at(1))
        await hot.select(1, seconds=1000)
        await hot.select(2, seconds=2000)
        hot.clock.advance(1000)
        assert (await hot.prepare()).leased.tolist() == [2]
        assert (await hot.select(1)).selection is not None
        assert await hot.leased() == [1, 2]

    async def test_leases_tell_when_they_end_those_taken_together_alike(self, hot: Hot):
        await hot.publish(state_at(1))
        assert await hot.lease_ends() == {}
        await hot.select(7, 2, 9, seconds=1000)
        hot.clock.advance(400)
        await hot.select(5, seconds=2000)
        await hot.select(9, seconds=3000, reuse=True)
        ends = await hot.lease_ends()
        wanted = {2: 600, 5: 2000, 7: 600, 9: 3000}
        assert list(ends) == list(wanted)
        assert ends == pytest.approx(wanted, abs=60)
        assert ends[2] == ends[7]
        await hot.release(7)
        hot.clock.advance(1000)
        assert await hot.lease_ends() == pytest.approx({5: 1000, 9: 2000}, abs=60)

    async def test_a_lease_that_ends_before_the_taking_refuses_the_selection(self, hot: Hot):
        await hot.publish(state_at(1))
        await hot.select(1, seconds=1000)
        ticket = await hot.prepare()
        hot.clock.advance(1000)
        assert (await hot.acquire(ticket, 2)).selection is None

    async def test_a_selection_is_remembered_under_its_key_and_asking_for_it_counts_nothing(self, hot: Hot):
        await hot.publish(state_at(1))
        assert (await hot.prepare("k")).previous is None
        await hot.select(1, 2, key="k")
        previous = await self.previous(hot, "k")
        assert previous is not None
        fingerprint, selection = previous
        assert (fingerprint, selection.tasks.tolist(), selection.means.tolist()) == ("f", [1, 2], [0.0, 1.0])
        assert np.isnan(selection.draws).all()
        assert await hot.leased() == [1, 2]
        assert (await hot.prepare()).ordinal == 1
        assert (await hot.prepare("k", run_row(2))).previous is None
        kept = await hot.leases.previous(run_row(), "k")
        assert kept is not None
        assert (kept[0], kept[1].tasks.tolist()) == ("f", [1, 2])
        assert [await hot.leases.previous(run_row(), key) for key in ("other", None)] == [None, None]

    async def test_a_selection_is_forgotten_after_a_while(self, hot: Hot):
        await hot.publish(state_at(1))
        await hot.select(1, seconds=10 * SELECTIONS_S, key="k")
        hot.clock.advance(0.7 * SELECTIONS_S)
        assert await self.previous(hot, "k") is not None
        hot.clock.advance(0.6 * SELECTIONS_S)
        assert (await hot.select(2, key="k")).selection is not None

    async def test_a_key_is_remembered_once(self, hot: Hot):
        await hot.publish(state_at(1))
        first, second = await hot.prepare("k"), await hot.prepare("k")
        await hot.acquire(first, 1, key="k")
        taken = await hot.acquire(second, 2, key="k")
        assert taken.selection is None
        assert taken.previous is not None
        assert taken.previous[1].tasks.tolist() == [1]
        assert await hot.leased() == [1]

    async def test_what_was_refused_is_not_remembered(self, hot: Hot):
        await hot.publish(state_at(1))
        ticket = await hot.prepare("k")
        await hot.select(1)
        await hot.acquire(ticket, 2, key="k")
        assert (await hot.prepare("k")).previous is None
        assert (await hot.select(3, key="k")).selection is not None

    async def test_a_cleared_run_has_no_lease_and_no_selection(self, hot: Hot):
        await hot.publish(state_at(1))
        await hot.select(1, key="k")
        await hot.leases.clear(run_row())
        assert await hot.leased() == []
        ticket = await hot.prepare()
        await hot.leases.clear(run_row())
        assert (await hot.acquire(ticket, 2)).selection is None
        await hot.publish(state_at(2, epoch=1))
        assert (await hot.select(1, 2, key="k")).selection is not None

    async def test_leased_tasks_can_not_be_written_to(self, hot: Hot):
        await hot.publish(state_at(1))
        await hot.select(1)
        with pytest.raises(ValueError, match="read-only"):
            (await hot.leases.leased(run_row()))[0] = 3

    @staticmethod
    async def previous(hot: Hot, key: str) -> tuple[str, Selection] | None:
        """Return what was remembered under the key: a shared store may say so only once a selection is made."""
        ticket = await hot.prepare(key)
        return ticket.previous or (await hot.acquire(ticket, 99, key=key)).previous


async def history(hot: Hot, seed: int, *, steps: int = 150, conflicts: float = 0.2) -> list[object]:
    """Return what a random sequence of operations found, the same for every store.

    conflicts: the share of steps in which two selections begin before the first one is taken.
    """
    rng, seen, seq = np.random.default_rng(seed), list[object](), 1
    await hot.states.register(run_row())
    await hot.publish(state_at(seq))
    for _ in range(steps):
        kind = rng.choice(
            ["select", "two", "release", "advance", "publish"], p=[0.6 - conflicts, conflicts, 0.2, 0.1, 0.1]
        )
        if kind == "advance":
            hot.clock.advance(1000 * float(rng.integers(1, 6)))
        elif kind == "publish":
            seq += 1
            seen.append(await hot.publish(state_at(seq)))
        elif kind == "release":
            await hot.release(*rng.integers(0, 60, 5).tolist())
            seen.append(await hot.leased())
        else:
            key = f"k{rng.integers(0, 8)}" if rng.random() < 0.4 else None
            ticket = [await hot.prepare(key) for _ in range(1 if kind == "select" else 2)]
            for start in ticket:
                tasks = np.unique(rng.integers(0, 60, 4)).tolist()
                seconds, reuse = 1000 * float(rng.integers(1, 20)) + 500, bool(rng.random() < 0.2)
                seen += [start.ordinal, start.leased.tolist()]
                taken = await hot.acquire(start, *tasks, seconds=seconds, key=key, reuse=reuse)
                previous = start.previous or taken.previous
                seen.append(previous and previous[1].tasks.tolist())
                seen.append(None if taken.selection is None else taken.selection.tasks.tolist())
                seen.append(taken.stale)
    return seen
