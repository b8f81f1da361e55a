"""A TCP proxy on loopback that does to connections what networks do: it loses replies, delays, cuts, and hangs."""

import asyncio
import contextlib
import random
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Any

CHUNK = 65_536


class Fault(Enum):
    """What becomes of a piece of a request or a reply."""

    PASS = "pass"
    CUT = "cut"  # both sides see the connection end; the piece is lost
    DELAY = "delay"
    HALF_CLOSE = "half-close"  # the receiver sees the end; the sender goes on unheard
    HANG = "hang"  # nobody sees anything; nothing passes any more


FAULTS = (*(Fault.CUT,) * 4, *(Fault.DELAY,) * 4, *(Fault.HALF_CLOSE,) * 3, Fault.HANG)
LONGEST_DELAY_S = 0.7
LOOK_S = 0.05


class FaultyProxy:
    """Passes connections on to a port. `share` of all pieces meet a fault; it may be changed at any time."""

    def __init__(self, to_port: int, *, seed: int = 0, cuts: Callable[[bytes], bool] = lambda _: False) -> None:
        """Listen at once.

        seed: of the choices, one row of them for each connection.
        cuts: says of each piece of an answer whether its connection is cut in its place.
        """
        self.share = 0.0
        self.met: Counter[str] = Counter()
        self._cuts = cuts
        self._to_port = to_port
        self._seed = seed
        self._connections = 0
        self._passing: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        self.port: int = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._pass_on, "127.0.0.1", 0)

    async def _end(self) -> None:
        self._server.close()
        # What asyncio does with a connection that just came is let end: cancelled, it would leave the socket open.
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in self._passing:
                task.cancel()
            await asyncio.wait(others, timeout=LOOK_S)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passing = self._started(self._connected(reader, writer))
        await asyncio.wait({passing})

    def _started(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)
        return task

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        rng = random.Random(self._seed * 1_000_003 + self._connections)
        writers = [writer]
        with contextlib.suppress(OSError, asyncio.CancelledError):  # the server is down, or the test is over
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._to_port)
            writers.append(server_writer)
            directions = (
                self._copy(reader, server_writer, rng, lambda _: False),
                self._copy(server_reader, writer, rng, self._cuts),
            )
            await asyncio.wait({self._started(one) for one in directions}, return_when=asyncio.FIRST_COMPLETED)
        for side in writers:
            side.transport.abort()

    async def _copy(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        rng: random.Random,
        cuts: Callable[[bytes], bool],
    ) -> None:
        """Pass pieces on until one side ends the connection, or a fault does."""
        with contextlib.suppress(OSError):  # either side is gone
            while piece := await source.read(CHUNK):
                fault = rng.choice(FAULTS) if rng.random() < self.share else Fault.PASS
                if cuts(piece):
                    fault = Fault.CUT
                self.met[fault.value] += 1
                if fault is Fault.CUT:
                    return
                if fault is Fault.DELAY:
                    await asyncio.sleep(rng.uniform(0.0, LONGEST_DELAY_S))
                elif fault is Fault.HALF_CLOSE:
                    target.write_eof()
                    await self._swallow(source)
                elif fault is Fault.HANG:
                    await self._swallow(source)
                target.write(piece)
                await target.drain()

    async def _swallow(self, source: asyncio.StreamReader) -> None:
        while await source.read(CHUNK):
            pass
        raise ConnectionResetError
