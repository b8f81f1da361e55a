"""Appends many drafts to many journals by four statements."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import BigInteger, Connection, Text, TextClause, bindparam, insert, select, text, update

from bots_service.core.entries import Body, Entry, Rewind
from bots_service.errors import BotsError, BusyError, KeyReusedError, StaleEpochError, UnknownRunError
from bots_service.ports.records import Appended, Draft, Once, RunRow
from bots_service.storage.database import SqlRow
from bots_service.storage.entries_codec import KINDS, decode_body, encode_body, own_copy
from bots_service.storage.tables import journal, runs

Item = TypeVar("Item")

# On PostgreSQL the lock makes seqs follow commit order; the order of ids keeps two batches from a deadlock. It lets
# receipts and snapshots refer to the run meanwhile.
_HEADS = (
    select(runs.c.id, runs.c.uid, runs.c.head, runs.c.epoch, runs.c.pruned)
    .where(runs.c.id.in_(bindparam("ids", expanding=True)))
    .order_by(runs.c.id)
    .with_for_update(key_share=True)
)
_INSERT = insert(journal)
_MOVE_HEAD = update(runs).where(runs.c.id == bindparam("run")).values(head=bindparam("to"), epoch=bindparam("now"))


@dataclass(frozen=True, slots=True)
class Encoded:
    """A draft ready to be written; its body can't be changed by anybody else."""

    run: RunRow
    draft: Draft
    body: Body
    text: str


@dataclass(slots=True)
class _Head:
    uid: str
    seq: int
    epoch: int
    pruned: int
    moved: bool = False


_Known = dict[tuple[int, str], tuple[str | None, SqlRow]]


def encoded(run: RunRow, draft: Draft) -> Encoded:
    """Return the draft ready to be written."""
    body = own_copy(draft.body)
    return Encoded(run, draft, body, encode_body(body))


def append_all(connection: Connection, drafts: Sequence[Encoded], now: float) -> list[Appended | BotsError]:
    """Append the drafts in order; return what became of each, or why it was refused."""
    heads = {
        row.id: _Head(row.uid, row.head, row.epoch, row.pruned)
        for row in connection.execute(_HEADS, {"ids": padded(sorted({draft.run.id for draft in drafts}))})
    }
    known = _known(connection, [(item.run.id, item.draft.once.key) for item in drafts if item.draft.once is not None])
    outcomes: list[Appended | BotsError] = []
    rows: list[dict[str, Any]] = []
    for draft in drafts:
        try:
            outcome = _append(draft, heads, known)
        except BotsError as error:
            outcomes.append(error)
            continue
        outcomes.append(outcome)
        if not outcome.duplicate:
            rows.append(_row(draft, outcome.entry, now))
    if rows:
        connection.execute(_INSERT, rows)
        moved = [{"run": run, "to": head.seq, "now": head.epoch} for run, head in heads.items() if head.moved]
        connection.execute(_MOVE_HEAD, moved)
    return outcomes


def entry_under(connection: Connection, run: RunRow, once: Once) -> Entry | None:
    """Return the entry that was appended under this key, None if none was.

    Raises:
        KeyReusedError: the key is known with another fingerprint.
    """
    known = _known(connection, [(run.id, once.key)])
    return _first(known, run, once)


def padded(items: list[Item]) -> list[Item]:
    """Return the items, and the last one again up to a power of two: a few sizes make a few statements to prepare."""
    return items + items[-1:] * ((1 << (len(items) - 1).bit_length()) - len(items))


def entry_of(row: SqlRow) -> Entry:
    """Return the entry that a row of the journal holds.

    Raises:
        DamagedStateError: its body can't be read.
    """
    return Entry(row.seq, row.epoch, row.profiles, decode_body(row.body))


def _known(connection: Connection, keys: Sequence[tuple[int, str]]) -> _Known:
    """Return the entries that have these keys of these runs already."""
    pairs = list(set(keys))
    if not pairs:
        return {}
    values: dict[str, int | str] = {}
    for place, (run_id, key) in enumerate(padded(pairs)):
        values[f"run_{place}"], values[f"key_{place}"] = run_id, key
    rows = connection.execute(_known_statement(len(values) // 2), values)
    return {(row.run_id, row.key): (row.fingerprint, row) for row in rows}


@cache
def _known_statement(pairs: int) -> TextClause:
    """Return the look-up of so many keys. SQLite would scan the whole journal for (run_id, key) IN (...)."""
    wanted = ", ".join(f"(:run_{place}, :key_{place})" for place in range(pairs))
    run_ids = [bindparam(f"run_{place}", type_=BigInteger) for place in range(pairs)]
    keys = [bindparam(f"key_{place}", type_=Text) for place in range(pairs)]
    statement = text(
        f"WITH wanted (run_id, key) AS (VALUES {wanted}) "  # noqa: S608 - names of parameters
        "SELECT j.run_id, j.key, j.fingerprint, j.seq, j.epoch, j.profiles, j.body "
        "FROM wanted JOIN journal j ON j.run_id = wanted.run_id AND j.key = wanted.key"
    )
    return statement.bindparams(*run_ids, *keys)


def _append(item: Encoded, heads: dict[int, _Head], known: _Known) -> Appended:
    run, draft = item.run, item.draft
    head = heads.get(run.id)
    if head is None or head.uid != run.uid:
        raise UnknownRunError(f"run {run.name!r} was deleted or replaced")
    first = None if draft.once is None else _first(known, run, draft.once)
    if first is not None:
        return Appended(first, duplicate=True)
    if draft.epoch is not None and draft.epoch != head.epoch:
        raise StaleEpochError(f"evidence of epoch {draft.epoch}; run {run.name!r} was rewound to epoch {head.epoch}")
    if isinstance(item.body, Rewind) and item.body.to_seq < head.pruned:
        raise BusyError(f"run {run.name!r} was pruned just now; ask again whether step {item.body.to_step} is there")
    head.seq, head.epoch, head.moved = head.seq + 1, head.epoch + isinstance(item.body, Rewind), True
    entry = Entry(head.seq, head.epoch, draft.profiles, item.body)
    if draft.once is not None:
        known[run.id, draft.once.key] = (draft.once.fingerprint, entry)
    return Appended(entry, duplicate=False)


def _first(known: _Known, run: RunRow, once: Once) -> Entry | None:
    """Return the entry that has this key of the run."""
    if (run.id, once.key) not in known:
        return None
    fingerprint, first = known[run.id, once.key]
    if fingerprint != once.fingerprint:
        raise KeyReusedError(f"idempotency key {once.key!r} came with another request before")
    return first if isinstance(first, Entry) else entry_of(first)


def _row(item: Encoded, entry: Entry, now: float) -> dict[str, Any]:
    once = item.draft.once
    return {
        "run_id": item.run.id,
        "seq": entry.seq,
        "epoch": entry.epoch,
        "kind": KINDS[type(entry.body)],
        "profiles": entry.profiles,
        "body": item.text,
        "key": None if once is None else once.key,
        "fingerprint": None if once is None else once.fingerprint,
        "created_at": now,
    }
