"""Backups as bytes: a stream of records, each checksummed, and a SHA-256 over all of them at the end.

    "BOTSBKUP" | format u16 | record, record, ... | end record
    record: length u32 | CRC-32 u32 | MessagePack, a map whose "type" says what it holds

All numbers are little-endian. Nothing here does I/O, and a record is the most that is in memory.
"""

import hashlib
import struct
import zlib
from collections.abc import AsyncIterator

import msgspec
import numpy as np
from msgspec import Struct

from bots_service.errors import InvalidBackupError
from bots_service.ports.backup import Moment, Name, SavedEntry, SavedReceipt, SavedRun, Small
from bots_service.ports.records import DatasetFacts, SnapshotRow, TaskBlock

FORMAT = 1
MEDIA_TYPE = "application/vnd.bots.backup"
LARGEST_RECORD = 2**30  # bytes; neither database holds a larger value
_MAGIC = b"BOTSBKUP"
_BEGIN = struct.Struct("<8sH")
_HEAD = struct.Struct("<II")


class DatasetPart(Struct, frozen=True, tag="dataset"):
    """Comes first. whole: the tasks and all runs follow; else one run, of a dataset that must be there already."""

    name: Name
    whole: bool
    version: Small
    created_at: Moment
    facts: DatasetFacts


class TasksPart(Struct, frozen=True, tag="tasks"):
    """The next tasks. references: [n, M] pass rates, float64 little-endian, row by row."""

    ids: list[str]
    references: bytes
    tags: list[tuple[str, ...]]


class RetiredPart(Struct, frozen=True, tag="retired"):
    """The retired tasks. tasks: int32 little-endian, sorted."""

    tasks: bytes


class PredictionsPart(Struct, frozen=True, tag="predictions"):
    """Predictions that new runs see or that a run knows. content: as storage wrote it."""

    content: bytes


class RunPart(Struct, frozen=True, tag="run"):
    """A run; its entries, receipts and snapshots follow."""

    run: SavedRun


class EntriesPart(Struct, frozen=True, tag="entries"):
    """The next entries of the run."""

    rows: list[SavedEntry]


class ReceiptsPart(Struct, frozen=True, tag="receipts"):
    """The next receipts of the run."""

    rows: list[SavedReceipt]


class SnapshotPart(Struct, frozen=True, tag="snapshot"):
    """A stored state of the run."""

    row: SnapshotRow
    blob: bytes


class EndPart(Struct, frozen=True, tag="end"):
    """Comes last. sha256: of every byte before this record."""

    sha256: bytes


Part = DatasetPart | TasksPart | RetiredPart | PredictionsPart | RunPart | EntriesPart | ReceiptsPart | SnapshotPart
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Part | EndPart] = msgspec.msgpack.Decoder(Part | EndPart)


class BackupWriter:
    """Makes the bytes of a backup, one part at a time."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def begin(self) -> bytes:
        """Return what comes before the parts."""
        return self._hashed(_BEGIN.pack(_MAGIC, FORMAT))

    def part(self, part: Part) -> bytes:
        """Return the next part."""
        return self._hashed(_record(part))

    def end(self) -> bytes:
        """Return what comes after the parts."""
        return _record(EndPart(self._hash.digest()))

    def _hashed(self, body: bytes) -> bytes:
        self._hash.update(body)
        return body


async def read_parts(chunks: AsyncIterator[bytes]) -> AsyncIterator[Part]:
    """Yield the parts of a backup. It is whole and unchanged only if the iterator ends without an error.

    Raises:
        InvalidBackupError: it is no backup, or one that was cut or changed.
    """
    source, number = _Source(chunks), 0
    magic, version = _BEGIN.unpack(await source.take(_BEGIN.size, "the beginning"))
    if magic != _MAGIC:
        raise InvalidBackupError(f"this is not a backup: it begins with {magic!r}, not {_MAGIC!r}")
    if version != FORMAT:
        raise InvalidBackupError(f"the backup has format {version}, and this service reads {FORMAT}; upgrade it")
    while True:
        number += 1
        before = source.digest()
        part = _decoded(await _body(source, number), number)
        if isinstance(part, EndPart):
            break
        yield part
    if part.sha256 != before:
        raise InvalidBackupError("the backup was altered: the SHA-256 at its end does not match")
    if await source.has_more():
        raise InvalidBackupError("the backup was altered: there is data after its end")


async def _body(source: "_Source", number: int) -> bytes:
    length, checksum = _HEAD.unpack(await source.take(_HEAD.size, f"record {number}"))
    if length > LARGEST_RECORD:
        raise InvalidBackupError(f"the backup was altered: record {number} would have {length} bytes")
    body = await source.take(length, f"record {number}")
    if zlib.crc32(body) != checksum:
        raise InvalidBackupError(f"the backup was altered: the checksum of record {number} does not match")
    return body


def _decoded(body: bytes, number: int) -> Part | EndPart:
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InvalidBackupError(f"record {number} of the backup can't be read: {error}") from error


def _record(part: Part | EndPart) -> bytes:
    body = _encoder.encode(part)
    return _HEAD.pack(len(body), zlib.crc32(body)) + body


def tasks_part(block: TaskBlock) -> TasksPart:
    """Return a block of tasks as a part."""
    return TasksPart(block.ids, np.ascontiguousarray(block.references, "<f8").tobytes(), block.tags)


def block_of(part: TasksPart, models: int) -> TaskBlock:
    """Return the block of tasks that a part holds.

    Raises:
        InvalidBackupError: its columns don't fit together.
    """
    count = len(part.ids)
    if len(part.tags) != count or len(part.references) != 8 * count * models:
        raise InvalidBackupError(
            "the backup does not hold together: ids, pass rates and tags of tasks differ in length"
        )
    return TaskBlock(part.ids, np.frombuffer(part.references, "<f8").reshape(count, models), part.tags)


class _Source:
    """Bytes that arrive in chunks, taken by count."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._waiting = bytearray()
        self._hash = hashlib.sha256()

    def digest(self) -> bytes:
        """Return the SHA-256 of all that was taken."""
        return self._hash.digest()

    async def take(self, count: int, what: str) -> bytes:
        """Return the next bytes.

        Raises:
            InvalidBackupError: there are fewer.
        """
        while len(self._waiting) < count:
            chunk = await anext(self._chunks, None)
            if chunk is None:
                raise InvalidBackupError(f"the backup is truncated: it ends within {what}")
            self._waiting += chunk
        taken = bytes(memoryview(self._waiting)[:count])
        del self._waiting[:count]
        self._hash.update(taken)
        return taken

    async def has_more(self) -> bool:
        """Say whether something is left."""
        while not self._waiting:
            chunk = await anext(self._chunks, None)
            if chunk is None:
                return False
            self._waiting += chunk
        return True
