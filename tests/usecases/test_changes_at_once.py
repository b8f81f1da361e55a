"""Changes of one dataset at once: one counts, and the others are refused so that they can be sent again."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from bots_service.errors import BusyError
from bots_service.records import TaskBlock
from bots_service.storage.sql.datasets import SqlDatasets
from tests.usecases.ports import Port
from tests.usecases.test_datasets import hidden
from tests.usecases.world import POOL, World, block, never, stream


class Overtaken(Port):
    """Datasets where something else happens just before blocks are read; once."""

    def __init__(self, real: SqlDatasets, meanwhile: list[Callable[[], Awaitable[object]]]) -> None:
        super().__init__(real)
        self.meanwhile = meanwhile

    async def blocks(self, dataset_id: int) -> AsyncIterator[TaskBlock]:
        if self.meanwhile:
            await self.meanwhile.pop()()
        async for tasks in self.real.blocks(dataset_id):
            yield tasks


async def test_an_append_that_is_overtaken_while_it_reads_the_dataset_is_refused_as_busy(world: World):
    meanwhile: list[Callable[[], Awaitable[object]]] = []
    other = world.beside(datasets=lambda real: Overtaken(real, meanwhile))
    await other.opened()  # in memory, so that the append alone reads blocks
    meanwhile.append(lambda: world.use.datasets.append(POOL, stream(block(40, 2)), never))
    with pytest.raises(BusyError):
        await other.use.datasets.append(POOL, stream(block(40, 2)), never)
    assert hidden(world) == 0
    assert (await other.opened()).dataset.row.live == 42
    row, _ = await other.use.datasets.append(POOL, stream(block(50, 1)), never)
    assert row.live == 43


async def test_changes_at_once_give_one_change_and_refusals_and_later_ones_start_from_it(world: World):
    begun, changed = asyncio.Semaphore(0), asyncio.Event()

    async def once_changed(tasks: TaskBlock):
        begun.release()
        await changed.wait()
        yield tasks

    appends = [
        asyncio.ensure_future(world.use.datasets.append(POOL, once_changed(block(start, 1)), never))
        for start in (40, 50)
    ]
    for _ in appends:
        await begun.acquire()
    await world.use.datasets.retire(POOL, ["t3"], None)
    changed.set()
    done = await asyncio.gather(*appends, return_exceptions=True)
    assert [type(one) for one in done] == [BusyError, BusyError]
    assert hidden(world) == 0
    version = (await world.opened()).dataset.row.version
    assert version == 2
    other = world.beside()
    await other.use.datasets.retire(POOL, ["t4"], None)
    row, _ = await world.use.datasets.append(POOL, stream(block(60, 1)), never)
    assert row.version == 4
    assert (await other.use.datasets.retire(POOL, ["t5"], None)).version == 5
