"""A relay in front of a server that counts what passes: bytes each way, and round trips."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Thread

from tests.ports import free_port

CHUNK = 2**16  # bytes


@dataclass(slots=True)
class Passed:
    """What passed so far. round_trips: how often a caller spoke after the server had, or first."""

    bytes_in: int = 0
    bytes_out: int = 0
    round_trips: int = 0


class Relay:
    """Passes what callers send to its own port on to a server of this machine, and the answers back."""

    def __init__(self, server_port: int) -> None:
        self.port = free_port()
        self.passed = Passed()
        self._server_port = server_port

    async def serve(self) -> asyncio.Server:
        """Begin to accept callers."""
        return await asyncio.start_server(self._relay, "127.0.0.1", self.port, limit=CHUNK)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", self._server_port, limit=CHUNK)
        answered = True

        async def ask() -> None:
            nonlocal answered
            while sent := await reader.read(CHUNK):
                self.passed.bytes_in += len(sent)
                self.passed.round_trips += answered
                answered = False
                there[1].write(sent)
                await there[1].drain()

        async def answer() -> None:
            nonlocal answered
            while received := await there[0].read(CHUNK):
                self.passed.bytes_out += len(received)
                answered = True
                writer.write(received)
                await writer.drain()

        ways = [asyncio.create_task(way()) for way in (ask, answer)]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for side in (writer, there[1]):
                side.close()
                with suppress(OSError):
                    await side.wait_closed()


@contextmanager
def relaying(server_port: int) -> Iterator[Relay]:
    """Run a relay in a thread of its own, so that callers that block this one are served; end it at the end."""
    relay, loop = Relay(server_port), asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name="relay", daemon=True)
    thread.start()
    try:
        server = asyncio.run_coroutine_threadsafe(relay.serve(), loop).result(timeout=10)
        try:
            yield relay
        finally:
            asyncio.run_coroutine_threadsafe(_ended(server), loop).result(timeout=10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _ended(server: asyncio.Server) -> None:
    server.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
