"""A schedule: trainers at work while things break, then calm, then the account."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from structlog.testing import capture_logs

from bots_service.core.draw.selection import SelectRequest
from bots_service.errors import BotsError
from tests.simulator.client import Client, present
from tests.simulator.fake_hot import InFlight
from tests.simulator.replica import Replica
from tests.simulator.world import POOL, World, known_state

PATIENCE_S = 6  # 0 + 1 + ... + 5 s, until every replica knows what others did while it was cut off
AT_MOST_S = 3600.0  # of virtual time; schedules take one or two minutes


class Schedule:
    """Everything that happens under one seed."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        rng = self.world.rng
        self.clients = [Client(self.world, f"client {number}") for number in range(rng.randint(1, 3))]
        self.older: dict[str, InFlight] = {}
        self.is_over = False
        self.unexpected: list[BaseException] = []
        self.world.loop.set_exception_handler(self._left_alone)

    def run(self) -> None:
        """Play it to its end.

        Raises:
            AssertionError: a promise was broken; carries what happened until then.
        """
        loop = self.world.loop
        try:
            with capture_logs():
                loop.run_until_complete(asyncio.wait_for(self._play(), AT_MOST_S))
        except BaseException as error:
            lines = "\n".join(self.world.network.trace[-400:])
            raise AssertionError(f"{type(error).__name__}: {error}\n{lines}") from error
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(1.0))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    def _left_alone(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Note what a task raised after its caller had gone: a refusal or a fault is fine there, a bug is not."""
        error = context.get("exception")
        if error is not None and not isinstance(error, BotsError):
            self.unexpected.append(error)

    async def _play(self) -> None:
        world, rng = self.world, self.world.rng
        await world.create()
        world.network.loss = rng.choice([0.0, 0.0, 0.01, 0.05])
        world.network.slow = rng.choice([0.0, 0.0, 0.02])
        breaking = asyncio.create_task(self._break(rng.choice([0, 2, 5, 10])))
        await asyncio.gather(*(client.work(rng.randint(3, 11)) for client in self.clients))
        self.is_over = True
        await breaking
        await self._calm()
        await self._account()
        assert not self.unexpected, f"raised where nobody waited: {self.unexpected}"

    # --- what breaks -------------------------------------------------------------------------------------------------

    async def _break(self, faults: int) -> None:
        rng = self.world.rng
        kinds: list[Callable[[], Awaitable[None]]] = [self._crash, self._wipe, self._restart_hot]
        kinds += [self._cut_hot, self._cut_sql, self._damage, self._copy]
        for _ in range(faults):
            await asyncio.sleep(rng.uniform(0.0, 1.5))
            if self.is_over:
                return
            [kind] = rng.choices(kinds, [3, 2, 1, 3, 3, 1, 1])
            await kind()

    async def _crash(self) -> None:
        world = self.world
        replica = world.rng.choice(world.replicas)
        world.network.note(f"--- {replica.name} dies")
        replica.crash()
        await asyncio.sleep(world.rng.uniform(0.0, 0.5))
        replica.start()
        world.network.note(f"--- {replica.name} is back")

    async def _wipe(self) -> None:
        self.world.network.note("--- the hot store is wiped")
        self.world.hot.wipe()
        self.world.others_forget(None, is_loss=True).end = self.world.now

    async def _copy(self) -> None:
        self.older = self.world.hot.copied()

    async def _restart_hot(self) -> None:
        self.world.network.note("--- the hot store starts again with older leases")
        self.world.hot.restart(self.older)
        self.world.others_forget(None, is_loss=True).end = self.world.now

    async def _cut_hot(self) -> None:
        await self._cut("hot")

    async def _cut_sql(self) -> None:
        await self._cut("sql")

    async def _cut(self, server: str) -> None:
        world = self.world
        chosen = world.rng.choice([world.replicas, [world.rng.choice(world.replicas)]])
        cut = {(replica.name, server) for replica in chosen}
        world.network.note(f"--- {[replica.name for replica in chosen]} can't reach {server}")
        world.network.away |= cut
        await asyncio.sleep(world.rng.uniform(0.0, 3.0))
        world.network.away -= cut
        world.network.note(f"--- {[replica.name for replica in chosen]} reach {server}")

    async def _damage(self) -> None:
        world = self.world
        for table in world.sql.runs.values():
            if table.snapshots:
                seq = world.rng.choice(sorted(table.snapshots))
                row, blob = table.snapshots[seq]
                place = world.rng.randrange(len(blob))
                table.snapshots[seq] = (row, blob[:place] + bytes([blob[place] ^ 1]) + blob[place + 1 :])
                world.network.note(f"--- snapshot {seq} of {table.row.name} is damaged")

    # --- the account -------------------------------------------------------------------------------------------------

    async def _calm(self) -> None:
        """Everything works again, and what is in doubt is sent until it is known."""
        network = self.world.network
        network.loss = network.slow = 0.0
        network.away.clear()
        network.note("--- all is well again")
        for client in self.clients:
            for doubt in client.doubts:
                assert await client.send(doubt, 50), f"{doubt.once.key} is refused while all is well"

    async def _account(self) -> None:
        world = self.world
        for name in sorted(world.promises):
            replay = world.truth.replay(name)
            for replica in world.replicas:
                await self._agrees(replica, name)
            seqs = [entry.seq for entry in world.sql.runs[name].entries]
            assert seqs == list(range(1, len(seqs) + 1))
            assert len(replay.states) == len(seqs) + 1

    async def _agrees(self, replica: Replica, name: str) -> None:
        """A replica comes to the truth by itself, in a run's state, its history, and what it selects from."""
        world, replay = self.world, self.world.truth.replay(name)
        last, request = len(replay.states) - 1, SelectRequest(POOL, 2, name)
        for wait_s in range(PATIENCE_S):
            await asyncio.sleep(wait_s)
            told = await replica.call(lambda use: use.describe_run(POOL, name), 60)
            known = await replica.call(lambda use: known_state(use, name), 60)
            chosen, _, _ = await replica.call(lambda use: use.select_tasks(request, None), 60)
            world.network.note(f"{replica.name} says {name} is at {told.seq}, selects from {chosen.seq}")
            row = world.sql.runs[name].row
            is_whole = chosen.degraded == world.hot.has_lost(row, told.settings.lease_seconds)
            if told.seq == known.seq == chosen.seq == last and is_whole and not told.degraded:
                world.assert_told(told)
                world.assert_true(name, known)
                rows = await replica.call(lambda use: use.read_history(POOL, name, 0, 10_000), 60)
                assert [row.receipt for row in rows] == present(replay, last), f"history of {name}"
                return
        raise AssertionError(f"{replica.name} does not come to the truth of {name}, which is at {last}")
