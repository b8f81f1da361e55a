"""Blocks of tasks and journal entries as they stand in SQL."""

import zlib
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from bots_service.core.arrays import Floats, frozen
from bots_service.core.entries import Body, Forget, Fork, Report, Rewind, SettingsChange
from bots_service.core.evidence import Costs, Evidence
from bots_service.core.groups import NO_PARTS, GroupParts
from bots_service.core.run_settings import settings_from
from bots_service.core.walks import Walk, walk_numbers
from bots_service.errors import DamagedStateError, InvalidSettingsError
from bots_service.records import EntryKind, TaskBlock


def encode_block(block: TaskBlock) -> bytes:
    """Return columns `id`, `reference_0`, `reference_1`, ... and `tags` as an Arrow stream."""
    columns = {"id": pa.array(block.ids, pa.string())}
    for model in range(block.references.shape[1]):
        columns[f"reference_{model}"] = pa.array(np.ascontiguousarray(block.references[:, model], np.float64))
    columns["tags"] = pa.array(block.tags, pa.list_(pa.string()))
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def decode_block(body: bytes, expected_checksum: int) -> TaskBlock:
    """Return the block that was encoded.

    Raises:
        DamagedStateError: the bytes don't match their checksum.
    """
    if zlib.crc32(body) != expected_checksum:
        raise DamagedStateError("a block of tasks does not match its checksum: the bytes were altered or truncated")
    with pa.ipc.open_stream(body) as reader:
        batch = reader.read_next_batch()
    models = batch.num_columns - 2
    references = np.empty((batch.num_rows, models))
    for model in range(models):
        references[:, model] = batch.column(f"reference_{model}").to_numpy(zero_copy_only=False)
    return TaskBlock(batch.column("id").to_pylist(), references, _tags(batch.column("tags")))


def _tags(column: pa.ListArray) -> list[tuple[str, ...]]:
    """Return each task's tags; tasks with the same tags share one tuple."""
    words, ends = column.values.to_pylist(), column.offsets.to_pylist()
    seen: dict[tuple[str, ...], tuple[str, ...]] = {}
    tags = []
    for start, end in pairwise(ends):
        own = tuple(words[start:end])
        tags.append(seen.setdefault(own, own))
    return tags


class PartsText(msgspec.Struct, frozen=True, omit_defaults=True):
    """Parts of groups, as parallel lists."""

    tasks: list[int]
    group_size: list[float]
    rollouts: list[float]
    successes: list[float]
    failures: list[float]
    lowest: list[float]
    highest: list[float]


class ReportText(msgspec.Struct, frozen=True, tag_field="kind", tag="report", omit_defaults=True):
    """A report: parallel lists of task indices, counts, and whether the group has a gradient; and a selection's walks.

    walks: part, turn, place and size of each.
    tokens, seconds, aborted, parts, selection, at: as in `Report`.
    """

    tasks: list[int]
    successes: list[float]
    failures: list[float]
    effective: list[bool]
    made_at: int | None
    close: bool | None
    walks: list[tuple[int, int, int, int]] = []
    tokens: float | None = None
    seconds: float | None = None
    aborted: list[int] = []
    parts: PartsText | None = None
    selection: tuple[int, int] | None = None
    at: float | None = None


class SettingsText(msgspec.Struct, frozen=True, tag_field="kind", tag="settings"):
    """A change of settings."""

    settings: dict[str, Any]


class ForgetText(msgspec.Struct, frozen=True, tag_field="kind", tag="forget"):
    """Tasks of which what was known is dropped."""

    tasks: list[int]


class RewindText(msgspec.Struct, frozen=True, tag_field="kind", tag="rewind"):
    """A rewind."""

    to_seq: int
    to_step: int


class ForkText(msgspec.Struct, frozen=True, tag_field="kind", tag="fork"):
    """A fork; the state's bytes are base64."""

    parent: str
    parent_seq: int
    state: bytes


BodyText = ReportText | SettingsText | ForgetText | RewindText | ForkText

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[BodyText] = msgspec.json.Decoder(BodyText)

KINDS: dict[type[Body], EntryKind] = {
    Report: "report",
    SettingsChange: "settings",
    Forget: "forget",
    Rewind: "rewind",
    Fork: "fork",
}


def encode_body(body: Body) -> str:
    """Return the body as JSON.

    Raises:
        ValueError: a count is not finite.
    """
    return _encoder.encode(_text_of(body)).decode()


def decode_body(text: str) -> Body:
    """Return the body that was encoded.

    Raises:
        DamagedStateError: the text is no body of a kind that this version reads.
    """
    try:
        return _body_of(_decoder.decode(text))
    except (msgspec.MsgspecError, InvalidSettingsError, OverflowError, UnicodeError) as error:
        raise DamagedStateError(f"a journal entry can't be read: {error}") from error


def _text_of(body: Body) -> BodyText:
    if isinstance(body, Report):
        return ReportText(
            tasks=body.evidence.tasks.tolist(),
            successes=_finite(body.evidence.successes),
            failures=_finite(body.evidence.failures),
            effective=body.evidence.effective.tolist(),
            made_at=body.made_at,
            close=body.close,
            walks=[walk_numbers(walk) for walk in body.walks],
            tokens=body.costs.tokens or None,
            seconds=body.costs.seconds or None,
            aborted=body.aborted.tolist(),
            parts=_parts_text(body.parts),
            selection=body.selection if any(body.selection) else None,
            at=body.at or None,
        )
    if isinstance(body, SettingsChange):
        return SettingsText(body.values)
    if isinstance(body, Forget):
        return ForgetText(body.tasks.tolist())
    if isinstance(body, Rewind):
        return RewindText(body.to_seq, body.to_step)
    return ForkText(body.parent, body.parent_seq, body.state)


_COUNTS = ("group_size", "rollouts", "successes", "failures", "lowest", "highest")


def _parts_text(parts: GroupParts) -> PartsText | None:
    if not len(parts):
        return None
    return PartsText(parts.tasks.tolist(), *(_finite(getattr(parts, name)) for name in _COUNTS))


def _parts_of(text: PartsText | None) -> GroupParts:
    if text is None:
        return NO_PARTS
    columns = [getattr(text, name) for name in _COUNTS]
    if any(len(column) != len(text.tasks) for column in columns):
        raise DamagedStateError("a journal entry can't be read: its parts of groups differ in length")
    tasks = frozen(np.array(text.tasks, np.int32))
    return GroupParts(tasks, *(frozen(np.array(column, np.float64)) for column in columns))


def _finite(numbers: Floats) -> list[float]:
    if not np.isfinite(numbers).all():
        raise ValueError("a number is not finite")  # JSON would turn it into null
    listed: list[float] = numbers.tolist()
    return listed


def _body_of(text: BodyText) -> Body:
    if isinstance(text, ReportText):
        tasks, aborted = (frozen(np.array(column, np.int32)) for column in (text.tasks, text.aborted))
        successes, failures = (frozen(np.array(column, np.float64)) for column in (text.successes, text.failures))
        return Report(
            Evidence(tasks, successes, failures, frozen(np.array(text.effective, bool))),
            text.made_at,
            text.close,
            tuple(Walk(*numbers) for numbers in text.walks),
            Costs(text.tokens or 0.0, text.seconds or 0.0),
            aborted,
            _parts_of(text.parts),
            text.selection or (0, 0),
            text.at or 0.0,
        )
    if isinstance(text, SettingsText):
        settings_from(text.settings)  # refuses what no version wrote
        values = text.settings.items()
        return SettingsChange({name: tuple(value) if isinstance(value, list) else value for name, value in values})
    if isinstance(text, ForgetText):
        return Forget(frozen(np.array(text.tasks, np.int32)))
    if isinstance(text, RewindText):
        return Rewind(text.to_seq, text.to_step)
    return Fork(text.parent, text.parent_seq, text.state)
