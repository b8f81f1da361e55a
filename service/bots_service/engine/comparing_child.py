"""The process that computes one comparison: `python -m bots_service.engine.comparing_child`.

It reads blocks from stdin and writes blocks to stdout: a length in 8 bytes, little-endian, and as many bytes. In come
the pool, the first state, and the entries, with an empty block at the end; out comes how far it is, at last with the
scores. A process of its own, because the fold is many short numpy calls, which hold the interpreter's lock: in a thread
they would make every select wait for up to 5 ms at a time.
"""

import os
import struct
import sys
from collections.abc import Iterator
from typing import BinaryIO

from bots_service.core.codec import decode_state
from bots_service.core.comparison.candidates import candidates_for
from bots_service.core.comparison.messages import Progress, pack_progress, unpack_entry, unpack_pool
from bots_service.core.comparison.refold import collected, refolded
from bots_service.core.entries import Entry

LENGTH = struct.Struct("<Q")
NICENESS = 10  # selects and reports have precedence on a busy machine
SAID_EVERY = 20  # entries; about 0.2 s


def blocks(source: BinaryIO) -> Iterator[bytes]:
    """Yield blocks up to an empty one.

    Raises:
        EOFError: the other end closed before that.
    """
    while True:
        head = source.read(LENGTH.size)
        size = LENGTH.unpack(head)[0] if len(head) == LENGTH.size else -1
        block = source.read(size) if size > 0 else b""
        if size == 0:
            return
        if len(block) != size:
            raise EOFError("the service ended")
        yield block


def framed(block: bytes) -> bytes:
    """Return a block with its length in front."""
    return LENGTH.pack(len(block)) + block


def compute(source: BinaryIO, sink: BinaryIO) -> None:
    """Compute one comparison.

    Raises:
        EOFError: the other end closed before the last entry.
    """
    coming = blocks(source)
    pool = unpack_pool(next(coming))
    start = decode_state(next(coming))
    candidates = candidates_for(start.settings, pool)
    folded = 0

    def say(progress: Progress) -> None:
        sink.write(framed(pack_progress(progress)))
        sink.flush()

    def entries() -> Iterator[Entry]:
        nonlocal folded
        for block in coming:
            yield unpack_entry(block)
            folded += 1
            if folded % SAID_EVERY == 0:
                say(Progress(folded))

    scores = collected(refolded(start, entries(), candidates, pool), len(candidates))
    say(Progress(folded, scores))


def main() -> None:  # pragma: no cover - runs in the child, which tests/usecases/test_comparing.py starts
    """Compute what stdin asks for; end quietly if the service did."""
    os.nice(NICENESS)
    try:
        compute(sys.stdin.buffer, sys.stdout.buffer)
    except (BrokenPipeError, EOFError):
        os._exit(1)  # at once: closing stdout would complain about the broken pipe


if __name__ == "__main__":  # pragma: no cover - as above
    main()
