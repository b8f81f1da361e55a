"""Workers of one service exchange their counts, so that any of them can answer for all metrics."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

log = structlog.get_logger("bots_service.serving")

ASK_S = 1.0  # a worker that says nothing for so long is left out: it hangs, or begins


@dataclass(frozen=True, slots=True)
class Peers:
    """The workers of one service. folder: where their sockets lie; only this user may enter it."""

    folder: Path

    @asynccontextmanager
    async def telling(self, own: Callable[[], bytes]) -> AsyncIterator[None]:
        """Send this worker's counts to each connection."""

        def tell(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(own())
            writer.close()  # once all is sent; who asked may have given up

        async with await asyncio.start_unix_server(tell, self.folder / f"{os.getpid()}"):
            yield

    async def all_of_them(self, own: Callable[[], bytes]) -> bytes:
        """Return the counts of all workers that answer."""
        others = [path for path in self.folder.iterdir() if path.name != f"{os.getpid()}"]
        replies = await asyncio.gather(*map(self._ask, others))
        texts = {int(path.name): text for path, text in zip(others, replies, strict=True) if text}
        return merged({**texts, os.getpid(): own()})

    async def _ask(self, path: Path) -> bytes:
        """Return what another worker counted, nothing where it does not answer."""
        try:
            async with asyncio.timeout(ASK_S):
                reader, writer = await asyncio.open_unix_connection(path)
                try:
                    return await reader.read()
                finally:
                    writer.close()
        except ConnectionRefusedError:
            pass  # it died
        except (OSError, TimeoutError) as error:
            log.warning("worker_not_heard", worker=path.name, reason=repr(error))
        return b""


def merged(texts: Mapping[int, bytes]) -> bytes:
    """Return the metrics of workers, by their numbers, as one text of Prometheus's: each series with its number."""
    families: dict[bytes, list[bytes]] = {}  # the two lines that begin a family -> its samples
    for worker, text in sorted(texts.items()):
        head, samples = b"", list[bytes]()
        for line in text.splitlines():
            if line.startswith(b"# HELP"):
                head = line
            elif line.startswith(b"#"):
                samples = families.setdefault(head + b"\n" + line, [])
            else:
                samples.append(_labelled(line, worker))
    return b"".join(line + b"\n" for head, samples in families.items() for line in (head, *samples))


def _labelled(sample: bytes, worker: int) -> bytes:
    """Return a sample, `name{labels} value` or `name value`, with one more label."""
    label = b'worker="%d"' % worker
    name, brace, rest = sample.partition(b"{")
    if brace:
        return name + b"{" + label + b"," + rest
    name, _, value = sample.partition(b" ")
    return name + b"{" + label + b"} " + value
