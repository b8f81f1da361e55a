"""What every States and Leases owes."""

from dataclasses import replace

import numpy as np
import pytest

from bots_service.core.run_settings import RunSettings
from bots_service.core.state import RunState, fresh_state
from bots_service.errors import BusyError
from bots_service.ports.hot import Leases, States
from bots_service.ports.records import RunRow, Selection


def run_row(number: int = 1) -> RunRow:
    return RunRow(number, f"uid-{number}", 1, f"run-{number}", RunSettings(), 0, 0, 0.0)


def state_at(seq: int) -> RunState:
    return replace(fresh_state(RunSettings(), 3), seq=seq)


def selection_of(*tasks: int) -> Selection:
    numbers = np.linspace(0.0, 1.0, len(tasks))
    return Selection("id", 0, 0, 0, False, 0, np.array(tasks, np.int32), numbers, numbers, numbers)


class Clock:
    """Time that passes only when told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class StatesContract:
    async def test_nothing_is_known_at_first(self, states: States):
        assert await states.newest(run_row()) is None

    async def test_the_state_with_the_greatest_seq_is_the_newest(self, states: States):
        for seq in (4, 9, 7):
            await states.publish(run_row(), state_at(seq))
        newest = await states.newest(run_row())
        assert newest is not None
        assert newest.seq == 9

    async def test_runs_do_not_mix(self, states: States):
        await states.publish(run_row(1), state_at(4))
        assert await states.newest(run_row(2)) is None
        assert await states.newest(replace(run_row(1), uid="made anew")) is None

    async def test_a_forgotten_state_is_not_known(self, states: States):
        await states.publish(run_row(), state_at(4))
        await states.forget(run_row())
        await states.forget(run_row())
        assert await states.newest(run_row()) is None


async def take(leases: Leases, *tasks: int, seconds: float = 10, key: str | None = None, reuse: bool = False):
    selection = selection_of(*tasks)
    taken = await leases.take(run_row(), selection, seconds=seconds, key=key, fingerprint="f", reuse=reuse)
    return taken.tolist()


class LeasesContract:
    async def test_selections_at_one_seq_are_counted(self, leases: Leases):
        ordinals = [(await leases.begin(run_row(), seq=seq, key=None)).ordinal for seq in (5, 5, 6, 5, 6)]
        assert ordinals == [0, 1, 0, 2, 1]

    async def test_taken_tasks_are_in_flight_until_released(self, leases: Leases):
        assert await take(leases, 7, 2, 9) == []
        assert (await leases.leased(run_row())).tolist() == [2, 7, 9]
        await leases.release(run_row(), np.array([9, 4], np.int32))
        assert (await leases.begin(run_row(), seq=0, key=None)).leased.tolist() == [2, 7]

    async def test_all_or_none_are_taken(self, leases: Leases):
        await take(leases, 1, 2, 3)
        assert await take(leases, 3, 4, 2) == [2, 3]
        assert (await leases.leased(run_row())).tolist() == [1, 2, 3]

    async def test_leased_tasks_are_reused_where_allowed_and_their_lease_begins_anew(
        self, leases: Leases, clock: Clock
    ):
        await take(leases, 1, 2, seconds=10)
        clock.now = 8.0
        assert await take(leases, 2, 3, seconds=10, reuse=True) == [2]
        clock.now = 12.0
        assert (await leases.leased(run_row())).tolist() == [2, 3]

    async def test_a_lease_ends_by_itself(self, leases: Leases, clock: Clock):
        await take(leases, 1, seconds=10)
        await take(leases, 2, seconds=20)
        clock.now = 10.0
        assert (await leases.leased(run_row())).tolist() == [2]
        assert await take(leases, 1) == []

    async def test_a_selection_is_remembered_under_its_key_and_asking_for_it_counts_nothing(self, leases: Leases):
        assert (await leases.begin(run_row(), seq=1, key="k")).previous is None
        await take(leases, 1, 2, key="k")
        begun = await leases.begin(run_row(), seq=1, key="k")
        assert begun.previous is not None
        fingerprint, selection = begun.previous
        assert (fingerprint, selection.tasks.tolist()) == ("f", [1, 2])
        assert (await leases.begin(run_row(), seq=1, key=None)).ordinal == 1
        assert (await leases.begin(run_row(2), seq=1, key="k")).previous is None

    async def test_a_key_is_remembered_once(self, leases: Leases):
        await take(leases, 1, key="k")
        with pytest.raises(BusyError):
            await take(leases, 2, key="k")
        assert (await leases.leased(run_row())).tolist() == [1]

    async def test_what_was_refused_is_not_remembered(self, leases: Leases):
        await take(leases, 1)
        await take(leases, 1, key="k")
        assert (await leases.begin(run_row(), seq=1, key="k")).previous is None

    async def test_a_forgotten_run_has_no_lease_and_no_selection(self, leases: Leases):
        await take(leases, 1, key="k")
        await leases.forget(run_row())
        begun = await leases.begin(run_row(), seq=1, key="k")
        assert (begun.leased.tolist(), begun.previous) == ([], None)

    async def test_leased_tasks_can_not_be_written_to(self, leases: Leases):
        await take(leases, 1)
        with pytest.raises(ValueError, match="read-only"):
            (await leases.leased(run_row()))[0] = 3
