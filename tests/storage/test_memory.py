"""The contracts of hot stores, on memory; and their bounds."""

import numpy as np
import pytest

from bots_service.core.arrays import frozen
from bots_service.ports.hot import NO_TOKEN, KnownState, PublishResult
from bots_service.storage.memory import COUNTED_STATES, TOKEN, MemoryLeases, MemoryStates, nbytes
from tests.core.pools import with_belief
from tests.storage.contracts.hot import Clock, Hot, LeasesContract, StatesContract, found, run_row, state_at


@pytest.fixture
def hot() -> Hot:
    clock = Clock()
    return Hot(MemoryStates(10**6), MemoryLeases(clock=clock), clock)


class TestMemoryStates(StatesContract):
    async def test_where_memory_is_short_the_state_asked_for_longest_ago_goes(self):
        states = MemoryStates(2 * nbytes(state_at(1)))
        for number in (1, 2):
            await states.publish(run_row(number), state_at(1), TOKEN)
        states.known(run_row(1))
        await states.publish(run_row(3), state_at(1), TOKEN)
        assert [await found(states, run_row(number)) for number in (1, 2, 3)] == [(0, 1), None, (0, 1)]

    async def test_a_state_larger_than_the_memory_stays_while_it_is_the_last(self):
        states = MemoryStates(nbytes(state_at(1)))
        state = state_at(1)
        large = with_belief(state, implied=frozen(np.zeros((2, 10_000))))
        await states.publish(run_row(1), large, TOKEN)
        assert (await states.newest(run_row(1))).state is large
        await states.publish(run_row(2), state, TOKEN)
        assert await found(states, run_row(1)) is None

    async def test_where_others_publish_too_nothing_here_is_known_to_be_the_newest(self):
        states = MemoryStates(10**6, only_process=False)
        assert await states.publish(run_row(), state_at(3), TOKEN) is PublishResult.LOCAL
        assert await found(states, run_row()) is None
        known = states.known(run_row())
        assert known is not None
        assert (known.state.seq, known.degraded) == (3, True)


class TestMemoryLeases(LeasesContract):
    async def test_the_oldest_selections_are_forgotten_where_there_are_too_many(self, hot: Hot):
        hot.leases = MemoryLeases(clock=hot.clock, remembered_bytes=5000)
        for number in range(100):
            await hot.select(number, key=str(number))
        previous = [(await hot.prepare(str(number))).previous for number in range(100)]
        remembered = [number for number in range(100) if previous[number] is not None]
        assert remembered == list(range(100 - len(remembered), 100))
        assert 1 <= len(remembered) <= 4

    async def test_selections_from_few_states_are_counted_at_a_time(self, hot: Hot):
        for seq in range(COUNTED_STATES + 1):
            hot.known = KnownState(state_at(seq), TOKEN)
            await hot.select(seq)
        hot.known = KnownState(state_at(0), TOKEN)
        assert (await hot.prepare()).ordinal == 0
        hot.known = KnownState(state_at(COUNTED_STATES), TOKEN)
        assert (await hot.prepare()).ordinal == 1

    async def test_where_others_can_not_be_asked_it_says_so_and_counts_from_another_ordinal(self, hot: Hot):
        hot.leases = MemoryLeases(clock=hot.clock, first_ordinal=700)
        ticket = await hot.prepare()
        assert (ticket.local, ticket.degraded, ticket.ordinal) == (True, True, 700)
        await hot.acquire(ticket, 1)
        assert (await hot.prepare()).ordinal == 701
        hot.known = KnownState(state_at(2), NO_TOKEN)
        assert (await hot.prepare()).ordinal == 700

    async def test_leases_equal_those_of_a_slow_model(self, hot: Hot):
        rng = np.random.default_rng(7)
        model: dict[int, float] = {}
        for _ in range(300):
            hot.clock.advance(rng.random())
            tasks = np.unique(rng.integers(0, 40, 6)).tolist()
            model = {task: end for task, end in model.items() if end > hot.clock.now}
            if rng.random() < 0.3:
                await hot.release(*tasks)
                model = {task: end for task, end in model.items() if task not in tasks}
                continue
            seconds = float(rng.random() * 5)
            ticket = await hot.prepare()
            assert ticket.leased.tolist() == sorted(model)
            assert (await hot.acquire(ticket, *tasks, seconds=seconds)).selection is not None
            model |= dict.fromkeys(tasks, hot.clock.now + seconds)
            assert await hot.leased() == sorted(model)
