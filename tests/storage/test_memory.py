"""The contracts of hot stores, on memory; and their bounds."""

from dataclasses import replace

import numpy as np
import pytest

from bots_service.core.arrays import frozen
from bots_service.storage.memory_leases import COUNTED_SEQS, REMEMBERED_S, MemoryLeases
from bots_service.storage.memory_states import MemoryStates, nbytes
from tests.storage.contracts.hot import (
    Clock,
    LeasesContract,
    StatesContract,
    run_row,
    selection_of,
    state_at,
    take,
)


class TestMemoryStates(StatesContract):
    @pytest.fixture
    def states(self) -> MemoryStates:
        return MemoryStates(10**6)

    async def test_where_memory_is_short_the_state_asked_for_longest_ago_goes(self):
        states = MemoryStates(2 * nbytes(state_at(1)))
        for number in (1, 2):
            await states.publish(run_row(number), state_at(1))
        await states.newest(run_row(1))
        await states.publish(run_row(3), state_at(1))
        known = [await states.newest(run_row(number)) is not None for number in (1, 2, 3)]
        assert known == [True, False, True]

    async def test_a_state_larger_than_the_memory_stays_while_it_is_the_last(self):
        states = MemoryStates(nbytes(state_at(1)))
        state = state_at(1)
        large = replace(state, belief=replace(state.belief, implied=frozen(np.zeros((2, 10_000)))))
        await states.publish(run_row(1), large)
        assert await states.newest(run_row(1)) is large
        await states.publish(run_row(2), state)
        assert await states.newest(run_row(1)) is None


class TestMemoryLeases(LeasesContract):
    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def leases(self, clock: Clock) -> MemoryLeases:
        return MemoryLeases(clock=clock)

    async def test_a_selection_is_forgotten_after_a_while(self, leases: MemoryLeases, clock: Clock):
        await take(leases, 1, key="k")
        clock.now = REMEMBERED_S
        assert (await leases.begin(run_row(), seq=1, key="k")).previous is None

    async def test_the_oldest_selections_are_forgotten_where_there_are_too_many(self, clock: Clock):
        leases = MemoryLeases(clock=clock, remembered_bytes=5000)
        for number in range(100):
            await take(leases, number, key=str(number))
        previous = [(await leases.begin(run_row(), seq=1, key=str(number))).previous for number in range(100)]
        remembered = [number for number in range(100) if previous[number] is not None]
        assert remembered == list(range(100 - len(remembered), 100))
        assert 1 <= len(remembered) <= 4

    async def test_few_seqs_are_counted_at_a_time(self, leases: MemoryLeases):
        for seq in range(COUNTED_SEQS + 1):
            await leases.begin(run_row(), seq=seq, key=None)
        assert (await leases.begin(run_row(), seq=0, key=None)).ordinal == 0
        assert (await leases.begin(run_row(), seq=COUNTED_SEQS, key=None)).ordinal == 1

    async def test_leases_equal_those_of_a_slow_model(self, leases: MemoryLeases, clock: Clock):
        rng = np.random.default_rng(7)
        model: dict[int, float] = {}
        for _ in range(300):
            clock.now += rng.random()
            tasks = np.unique(rng.integers(0, 40, 6)).tolist()
            model = {task: end for task, end in model.items() if end > clock.now}
            if rng.random() < 0.3:
                await leases.release(run_row(), np.array(tasks, np.int32))
                model = {task: end for task, end in model.items() if task not in tasks}
                continue
            seconds, reuse = float(rng.random() * 5), bool(rng.random() < 0.5)
            taken = await leases.take(
                run_row(), selection_of(*tasks), seconds=seconds, key=None, fingerprint="", reuse=reuse
            )
            assert taken.tolist() == sorted(set(tasks) & set(model))
            if reuse or len(taken) == 0:
                model |= dict.fromkeys(tasks, clock.now + seconds)
            assert (await leases.leased(run_row())).tolist() == sorted(model)
