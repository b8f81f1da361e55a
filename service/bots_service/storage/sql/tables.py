"""The tables, portable between SQLite and PostgreSQL. Changing one here needs a migration; `make check` compares.

Times are seconds since 1970, UTC.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping
from types import NoneType
from typing import Any, get_args

import msgspec
import numpy as np
from msgspec import structs
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    ScalarSelect,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    func,
    select,
    text,
)

from bots_service.core.arrays import Tasks, frozen, last_of
from bots_service.core.receipt import BINS, Calibration, Receipt, TagCounts
from bots_service.core.run_settings import StrategyName, settings_from
from bots_service.core.summary import RunFindings
from bots_service.errors import DamagedStateError
from bots_service.keys import Scope
from bots_service.records import DatasetFacts, Evaluations, Parent, RefusedReports

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class _AsText(TypeDecorator[Any]):
    """Values that stand as text. write, read: make text of a value, and a value of text; None stays None."""

    impl: Any = Text
    cache_ok = True

    def __init__(self, write: Callable[[Any], Any], read: Callable[[Any], Any]) -> None:
        super().__init__()
        self.write, self.read = write, read

    def process_bind_param(self, value: Any, dialect: object) -> Any:  # noqa: ARG002
        return None if value is None else self.write(value)

    def process_result_value(self, value: Any, dialect: object) -> Any:  # noqa: ARG002
        return None if value is None else self.read(value)


class _AsBytes(_AsText):
    """Values that stand as bytes."""

    impl = LargeBinary
    cache_ok = True


def _json(kind: Any) -> _AsText:
    return _AsText(lambda value: msgspec.json.encode(value).decode(), msgspec.json.Decoder(kind).decode)


_settings = _AsText(
    lambda settings: msgspec.json.encode(settings).decode(),  # defaults too: one may change, a run must not
    lambda line: settings_from(msgspec.json.decode(line)),
)


def _bits_of(tasks: Tasks) -> bytes:
    """Return sorted tasks as bytes: half of a million tasks take about 125 kB, all of them 1 kB."""
    included = np.zeros(last_of(tasks) + 1, bool)
    included[tasks] = True
    return zlib.compress(np.packbits(included).tobytes(), 1)


def _tasks_in(content: bytes) -> Tasks:
    try:
        bits = np.frombuffer(zlib.decompress(content), np.uint8)
    except zlib.error as error:  # it has a checksum
        raise DamagedStateError(f"a set of tasks can't be read: {error}") from error
    return frozen(np.flatnonzero(np.unpackbits(bits)).astype(np.int32))


_tasks = _AsBytes(_bits_of, _tasks_in)


def calibration_in(blobs: bytes) -> Calibration:
    """Return the sums of the calibrations whose bytes stand one behind the other."""
    return Calibration(*map(tuple, np.frombuffer(blobs, "<f8").reshape(-1, 3, BINS).sum(axis=0).tolist()))


_calibration = _AsBytes(lambda shown: np.array(shown, "<f8").tobytes(), calibration_in)
_shares = _AsBytes(
    lambda shares: np.array(shares, "<f4").tobytes(), lambda blob: tuple(np.frombuffer(blob, "<f4").tolist())
)

# Only a column of type INTEGER numbers its rows automatically on SQLite.
_Number = BigInteger().with_variant(Integer, "sqlite")


def _of_dataset(*, primary_key: bool = False) -> Column[int]:
    return Column(
        "dataset_id", _Number, ForeignKey("datasets.id", ondelete="CASCADE"), nullable=False, primary_key=primary_key
    )


def _of_run(*, primary_key: bool = False) -> Column[int]:
    return Column("run_id", _Number, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False, primary_key=primary_key)


# A dataset without a name is a stage: blocks are on their way.
datasets = Table(
    "datasets",
    metadata,
    Column("id", _Number, primary_key=True),
    Column("name", Text, unique=True),
    Column("version", Integer, nullable=False),
    Column("retired", Integer, nullable=False),
    Column("retired_tasks", _tasks),
    Column("facts", _json(DatasetFacts)),
    Column("created_at", Double, nullable=False),
    sqlite_autoincrement=True,  # an id is never given out again, or an old row could be taken for a new one
)

task_blocks = Table(
    "task_blocks",
    metadata,
    _of_dataset(primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("count", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

# Some of a dataset's tasks, named by their digest.
subsets = Table(
    "subsets",
    metadata,
    _of_dataset(primary_key=True),
    Column("name", Text, primary_key=True),
    Column("tasks", _tasks, nullable=False),
    Column("kept_at", Double, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("id", _Number, primary_key=True),
    Column("uid", Text, nullable=False),
    _of_dataset(),
    Column("name", Text, nullable=False),
    Column("settings", _settings, nullable=False),
    Column("parent", _json(Parent)),
    Column("created_at", Double, nullable=False),
    Column("refused", _json(RefusedReports)),
    Column("refused_seq", BigInteger),  # the run's head when the last report was refused
    Column("finished_seq", BigInteger),  # the run's head when its trainer said that training ended
    # Not in the journal: neither beliefs nor selections depend on them. `evaluated`: how often some came.
    Column("evaluations", _json(Evaluations), nullable=False, server_default=text("'{}'")),
    Column("evaluated", Integer, nullable=False, server_default=text("0")),
    UniqueConstraint("dataset_id", "name"),
    sqlite_autoincrement=True,
)

_OF_KINDS: dict[Any, Any] = {
    int: Integer,
    bool: Boolean,
    float: Double,
    StrategyName: Text,
    Calibration: _calibration,
    Mapping[str, TagCounts]: _json(dict[str, TagCounts]),
}


def _of_receipt() -> Iterator[Column[Any]]:
    """Yield a column for each field of a receipt but its place, which every entry has."""
    for field in structs.fields(Receipt):
        is_optional = NoneType in get_args(field.type)
        kind = _OF_KINDS[get_args(field.type)[0] if is_optional else field.type]
        if field.name in ("step", "total_reported", "total_effective"):  # callers may ask for a step beyond 2**31
            kind = BigInteger
        if field.name not in ("seq", "epoch"):
            yield Column(field.name, kind, nullable=is_optional)


# Entries, each with what folding it did.
journal = Table(
    "journal",
    metadata,
    _of_run(primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("epoch", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("profiles", Integer, nullable=False),
    Column("body", Text, nullable=False),
    Column("key", Text),
    Column("fingerprint", Text),
    Column("created_at", Double, nullable=False),
    Column("hidden", Boolean, nullable=False),  # a rewind undid it
    *_of_receipt(),
    # Of uniform sampling: the last estimate of its effective task ratio, and how many effective tasks it would have
    # found in as many, by the estimates of the time; null before the first. Where the service looked: the share of the
    # pool by expected success probability, one a bin.
    Column("uniform", Double),
    Column("expected", Double),
    Column("distribution", _shares),
    Column("findings", _json(RunFindings)),  # where the service looked
    UniqueConstraint("run_id", "key"),
)
_last = journal.alias("last")


def of_last_entry(name: str) -> ScalarSelect[Any]:
    """Return a column of the last entry of a run, for statements that select from `runs`; null without entries."""
    column = select(_last.c[name]).where(_last.c.run_id == runs.c.id).order_by(_last.c.seq.desc()).limit(1)
    return column.correlate(runs).scalar_subquery()


# A run stands where its journal ends. Whoever changes a run by what it reads here locks its row first, in a statement
# of its own: PostgreSQL would read the locked row again after a wait, and not its journal.
HEAD = func.coalesce(of_last_entry("seq"), 0).label("head")
EPOCH = func.coalesce(of_last_entry("epoch"), 0).label("epoch")
RUNS = select(runs, HEAD, EPOCH)

# Nearly all entries are reports; without this index, finding the others would read all of them. SQLite uses an index
# for a statement with its very condition, and not where another one implies it.
IS_MARK = "kind <> 'report'"
Index("ix_journal_marks", journal.c.run_id, journal.c.seq, sqlite_where=text(IS_MARK), postgresql_where=text(IS_MARK))
IS_STEP = "closed AND NOT hidden"  # closed a step of the present history
Index("ix_journal_steps", journal.c.run_id, journal.c.step, sqlite_where=text(IS_STEP), postgresql_where=text(IS_STEP))

snapshots = Table(
    "snapshots",
    metadata,
    _of_run(primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("blob", LargeBinary, nullable=False),
)

answers = Table(
    "answers",
    metadata,
    Column("scope", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("fingerprint", Text, nullable=False),
    Column("result", Text, nullable=False),
    Column("created_at", Double, nullable=False),
)

# A key can't be read from here: `digest` is its sha256.
api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("scopes", _json(frozenset[Scope]), nullable=False),
    Column("datasets", _json(tuple[str, ...]), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double),
    Column("revoked_at", Double),
)
