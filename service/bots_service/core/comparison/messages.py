"""What a comparison tells the process that computes it, and what it hears, as checksummed blocks of bytes."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from bots_service.core.arrays import frozen
from bots_service.core.checks import Arrays
from bots_service.core.codec import pack, unpack
from bots_service.core.comparison.refold import Scores
from bots_service.core.entries import Body, Entry, Forget, Report, Rewind, SettingsChange
from bots_service.core.evidence import Evidence
from bots_service.core.groups import GroupParts
from bots_service.core.guard.watched_tags import ROW
from bots_service.core.pool import Pool
from bots_service.core.walks import Walk, walk_numbers

_EVIDENCE = ("successes", "failures", "tasks", "effective")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a comparison is. folded: entries; scores: of all steps, None before the end."""

    folded: int
    scores: Scores | None = None


def pack_pool(pool: Pool) -> bytes:
    """Return what a fold reads of a pool: not who is retired, and only the tags that the verifier guard watches."""
    watched = pool.watched_tags
    rows = {f"watched_{row}": carried for row, carried in enumerate(watched.carried)}
    return pack(
        {
            "watched": watched.names,
            "offset_tags": pool.offset_tags,
            "prediction_names": pool.prediction_names,
        },
        {
            "references": pool.references,
            "predictions": pool.predictions,
            "carried": pool.carried.astype(np.uint64),
            "profile_of": pool.profile_of,
            **rows,
        },
    )


def unpack_pool(blob: bytes) -> Pool:
    """Return the pool that was packed."""
    header, arrays = unpack(blob)
    carried = frozen(arrays["carried"].astype(np.uint32))
    tags = {}
    for number, tag in enumerate(header["watched"]):
        row, bit = divmod(number, ROW)
        carries = arrays[f"watched_{row}"] & np.uint64(1 << bit)
        tags[tag] = frozen(np.flatnonzero(carries).astype(np.int32))
    return Pool(
        arrays["references"],
        arrays["profile_of"],
        tags,
        offset_tags=tuple(header["offset_tags"]),
        carried=carried,
        prediction_names=tuple(header["prediction_names"]),
        predictions=arrays["predictions"],
    )


def pack_entry(entry: Entry) -> bytes:
    """Return an entry that changes a run: any but a fork.

    Raises:
        ValueError: it is another one.
    """
    body, arrays = _packed_body(entry)
    return pack({"seq": entry.seq, "epoch": entry.epoch, "profiles": entry.profiles, **body}, arrays)


def _packed_body(entry: Entry) -> tuple[dict[str, Any], Arrays]:
    body = entry.body
    if isinstance(body, Report):
        evidence = {name: getattr(body.evidence, name) for name in _EVIDENCE}
        parts = {f"parts_{one.name}": getattr(body.parts, one.name) for one in fields(GroupParts)}
        header = {
            "kind": "report",
            "made_at": body.made_at,
            "close": body.close,
            "walks": [walk_numbers(walk) for walk in body.walks],
            "selection": body.selection,
            "at": body.at,
        }
        return header, {**evidence, **parts, "aborted": body.aborted}
    if isinstance(body, SettingsChange):
        return {"kind": "settings", "values": body.values}, {}
    if isinstance(body, Rewind):
        return {"kind": "rewind", "to_seq": body.to_seq, "to_step": body.to_step}, {}
    if isinstance(body, Forget):
        return {"kind": "forget"}, {"tasks": body.tasks}
    raise ValueError(f"entry {entry.seq} begins with a stored state")


def unpack_entry(blob: bytes) -> Entry:
    """Return the entry that was packed."""
    header, arrays = unpack(blob)
    body: Body
    if header["kind"] == "report":
        walks = tuple(Walk(*numbers) for numbers in header["walks"])
        parts = GroupParts(*(arrays[f"parts_{one.name}"] for one in fields(GroupParts)))
        body = Report(
            _evidence_of(arrays),
            header["made_at"],
            header["close"],
            walks,
            aborted=arrays["aborted"],
            parts=parts,
            selection=tuple(header["selection"]),
            at=header["at"],
        )
    elif header["kind"] == "settings":
        body = SettingsChange(header["values"])
    elif header["kind"] == "forget":
        body = Forget(arrays["tasks"])
    else:
        body = Rewind(header["to_seq"], header["to_step"])
    return Entry(header["seq"], header["epoch"], header["profiles"], body)


def _evidence_of(arrays: Arrays) -> Evidence:
    return Evidence(**{name: arrays[name] for name in _EVIDENCE})


def pack_progress(progress: Progress) -> bytes:
    """Return how far a comparison is."""
    scores = progress.scores
    if scores is None:
        return pack({"folded": progress.folded}, {})
    numbers = {name: getattr(scores, name) for name in ("rollouts", "log_loss", "brier", "sums")}
    return pack({"folded": progress.folded, "steps": scores.steps.tolist()}, numbers)


def unpack_progress(blob: bytes) -> Progress:
    """Return how far a comparison is."""
    header, arrays = unpack(blob)
    if "steps" not in header:
        return Progress(header["folded"])
    return Progress(header["folded"], Scores(frozen(np.array(header["steps"], np.int64)), **arrays))
