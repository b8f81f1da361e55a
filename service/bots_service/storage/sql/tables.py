"""The tables, portable between SQLite and PostgreSQL. Changing one here needs a migration; `make check` compares.

Times are seconds since 1970, UTC.
"""

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
    Table,
    Text,
    UniqueConstraint,
    text,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# Only a column of type INTEGER numbers its rows automatically on SQLite.
_Number = BigInteger().with_variant(Integer, "sqlite")


def _of_dataset(*, primary_key: bool = False) -> Column[int]:
    return Column(
        "dataset_id", _Number, ForeignKey("datasets.id", ondelete="CASCADE"), nullable=False, primary_key=primary_key
    )


def _of_run(*, primary_key: bool = False) -> Column[int]:
    return Column("run_id", _Number, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False, primary_key=primary_key)


# A dataset without a name is a stage: blocks are on their way. `facts` is JSON of DatasetFacts.
datasets = Table(
    "datasets",
    metadata,
    Column("id", _Number, primary_key=True),
    Column("name", Text, unique=True),
    Column("version", Integer, nullable=False),
    Column("retired", Integer, nullable=False),
    Column("facts", Text),
    Column("created_at", Double, nullable=False),
    sqlite_autoincrement=True,  # an id is never given out again, or an old row could be taken for a new one
)

task_blocks = Table(
    "task_blocks",
    metadata,
    _of_dataset(primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("first", Integer, nullable=False),
    Column("count", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)

# One row a dataset, not one a task: retiring a million tasks must not hold up the writer.
retired_tasks = Table(
    "retired_tasks",
    metadata,
    _of_dataset(primary_key=True),
    Column("tasks", LargeBinary, nullable=False),
)

# Some of a dataset's tasks, named by their digest: one bit a task, compressed.
subsets = Table(
    "subsets",
    metadata,
    _of_dataset(primary_key=True),
    Column("name", Text, primary_key=True),
    Column("tasks", LargeBinary, nullable=False),
    Column("kept_at", Double, nullable=False),
)

# What new runs see, and what some run knows; the dataset's facts and the runs' rows say which. Nothing changes a row.
predictions = Table(
    "predictions",
    metadata,
    _of_dataset(primary_key=True),
    Column("digest", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("id", _Number, primary_key=True),
    Column("uid", Text, nullable=False),
    _of_dataset(),
    Column("name", Text, nullable=False),
    Column("settings", Text, nullable=False),
    Column("head", BigInteger, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("parent_run", Text),
    Column("parent_step", Integer),
    Column("parent_seq", BigInteger),
    Column("created_at", Double, nullable=False),
    Column("pruned", BigInteger, nullable=False, server_default=text("0")),  # entries up to this seq are gone
    Column("predictions", Text, nullable=False, server_default=text("'[]'")),  # JSON: names and digests
    # Reports that were refused as invalid: how many, and of the last one the run's head then, its time, and why.
    Column("refused_reports", Integer, nullable=False, server_default=text("0")),
    Column("refused_seq", BigInteger),
    Column("refused_at", Double),
    Column("refused_reason", Text),
    UniqueConstraint("dataset_id", "name"),
    sqlite_autoincrement=True,
)

# Entries, each with what folding it did. Only a stage has entries that are not folded yet: the columns from `step` on
# are null there. Of pruned entries the body is gone.
journal = Table(
    "journal",
    metadata,
    _of_run(primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("epoch", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("profiles", Integer, nullable=False),
    Column("body", Text),
    Column("key", Text),
    Column("fingerprint", Text),
    Column("created_at", Double, nullable=False),
    Column("hidden", Boolean, nullable=False),  # a rewind undid it
    Column("step", Integer),
    Column("closed", Boolean),
    Column("strategy", Text),
    Column("reported", Integer),
    Column("effective", Integer),
    Column("all_solved", Integer),
    Column("none_solved", Integer),
    Column("rollouts", Double),
    Column("successes", Double),
    Column("mean_pass_rate", Double),
    Column("capability", Double),
    Column("late", Integer),
    Column("expired", Integer),
    Column("brier", Double),
    Column("log_loss", Double),
    Column("calibration", LargeBinary),  # little-endian doubles: rollouts, predicted and solved, by bins
    Column("tags", Text),  # JSON of TagCounts by tag
    Column("new_tasks", Integer),
    Column("distinct_tasks", Integer),
    Column("tokens", Double),
    Column("seconds", Double),
    # Sums over the steps that had closed by then.
    Column("total_reported", BigInteger),
    Column("total_effective", BigInteger),
    Column("total_rollouts", Double),
    # Of uniform sampling: the last estimate of its effective task ratio, and how many effective tasks it would have
    # found in as many, by the estimates of the time; null before the first. Little-endian floats, one a bin, where the
    # service looked: the share of the pool by expected success probability.
    Column("uniform", Double),
    Column("expected", Double),
    Column("distribution", LargeBinary),
    Column("findings", Text),  # JSON of RunFindings, where the service looked
    UniqueConstraint("run_id", "key"),
)
# Nearly all entries are reports; without this index, finding the others would read all of them. SQLite uses an index
# for a statement with its very condition, and not where another one implies it.
IS_MARK = "kind <> 'report'"
Index(
    "ix_journal_marks",
    journal.c.run_id,
    journal.c.seq,
    sqlite_where=text(IS_MARK),
    postgresql_where=text(IS_MARK),
)
IS_STEP = "closed AND NOT hidden"  # closed a step of the present history
Index(
    "ix_journal_steps",
    journal.c.run_id,
    journal.c.step,
    sqlite_where=text(IS_STEP),
    postgresql_where=text(IS_STEP),
)

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

# A key can't be read from here: `digest` is its sha256. `scopes` and `datasets` are words apart by blanks.
api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("datasets", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double),
    Column("revoked_at", Double),
)

# One row, written again and again: whether that goes well tells whether reports can be written.
write_probe = Table(
    "write_probe",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("written_at", Double, nullable=False),
)
