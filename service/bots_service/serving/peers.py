"""Workers of one service exchange their counts, so that any of them can answer for all metrics."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from bots_service.metrics.exposition import merged

log = structlog.get_logger("bots_service.serving")

ASK_S = 1.0  # a worker that says nothing for so long is left out: it hangs, or begins


@dataclass(frozen=True, slots=True)
class Peers:
    """One worker among several.

    folder: where their sockets lie; only this user may enter it.
    number: which worker this is, 0 to count - 1.
    """

    folder: Path
    number: int
    count: int

    @asynccontextmanager
    async def telling(self, own: Callable[[], bytes]) -> AsyncIterator[None]:
        """Send this worker's counts to each connection."""

        async def tell(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(own())
            await writer.drain()
            writer.close()

        path = self._socket(self.number)
        path.unlink(missing_ok=True)  # of a worker that was killed in this place
        async with await asyncio.start_unix_server(tell, path):
            yield

    async def all_of_them(self, own: Callable[[], bytes]) -> bytes:
        """Return the counts of all workers that answer."""
        others = [number for number in range(self.count) if number != self.number]
        replies = await asyncio.gather(*map(self._ask, others))
        texts = {number: text for number, text in zip(others, replies, strict=True) if text}
        return merged({**texts, self.number: own()})

    async def _ask(self, number: int) -> bytes:
        """Return what another worker counted, nothing where it does not answer."""
        try:
            async with asyncio.timeout(ASK_S):
                reader, writer = await asyncio.open_unix_connection(self._socket(number))
                try:
                    return await reader.read()
                finally:
                    writer.close()
        except (OSError, TimeoutError) as error:
            log.warning("worker_not_heard", worker=number, reason=repr(error))
            return b""

    def _socket(self, number: int) -> Path:
        return self.folder / f"{number}.sock"
