"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "answers",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("result", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "key", name="pk_answers"),
    )
    op.create_table(
        "datasets",
        sa.Column("id", _number, nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("retired", sa.Integer(), nullable=False),
        sa.Column("retired_tasks", sa.LargeBinary(), nullable=True),
        sa.Column("facts", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_datasets"),
        sa.UniqueConstraint("name", name="uq_datasets_name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "predictions",
        sa.Column("dataset_id", _number, nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("levels", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name="fk_predictions_dataset_id_datasets", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("dataset_id", "digest", name="pk_predictions"),
    )
    op.create_table(
        "runs",
        sa.Column("id", _number, nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("dataset_id", _number, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("parent", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("predictions", sa.Text(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("refused", sa.Text(), nullable=True),
        sa.Column("refused_seq", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name="fk_runs_dataset_id_datasets", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sa.UniqueConstraint("dataset_id", "name", name="uq_runs_dataset_id_name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "task_blocks",
        sa.Column("dataset_id", _number, nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name="fk_task_blocks_dataset_id_datasets", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("dataset_id", "position", name="pk_task_blocks"),
    )
    op.create_table(
        "journal",
        sa.Column("run_id", _number, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("profiles", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=True),
        sa.Column("fingerprint", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("hidden", sa.Boolean(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("closed", sa.Boolean(), nullable=False),
        sa.Column("strategy", sa.Text(), nullable=False),
        sa.Column("reported", sa.Integer(), nullable=False),
        sa.Column("effective", sa.Integer(), nullable=False),
        sa.Column("all_solved", sa.Integer(), nullable=False),
        sa.Column("rollouts", sa.Double(), nullable=False),
        sa.Column("successes", sa.Double(), nullable=False),
        sa.Column("capability", sa.Double(), nullable=True),
        sa.Column("late", sa.Integer(), nullable=False),
        sa.Column("expired", sa.Integer(), nullable=False),
        sa.Column("brier", sa.Double(), nullable=True),
        sa.Column("log_loss", sa.Double(), nullable=True),
        sa.Column("calibration", sa.LargeBinary(), nullable=True),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("new_tasks", sa.Integer(), nullable=False),
        sa.Column("distinct_tasks", sa.Integer(), nullable=False),
        sa.Column("tokens", sa.Double(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("total_reported", sa.BigInteger(), nullable=False),
        sa.Column("total_effective", sa.BigInteger(), nullable=False),
        sa.Column("total_rollouts", sa.Double(), nullable=False),
        sa.Column("uniform", sa.Double(), nullable=True),
        sa.Column("expected", sa.Double(), nullable=True),
        sa.Column("distribution", sa.LargeBinary(), nullable=True),
        sa.Column("findings", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_journal_run_id_runs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "seq", name="pk_journal"),
        sa.UniqueConstraint("run_id", "key", name="uq_journal_run_id_key"),
    )
    op.create_index(
        "ix_journal_marks",
        "journal",
        ["run_id", "seq"],
        unique=False,
        sqlite_where=sa.text("kind <> 'report'"),
        postgresql_where=sa.text("kind <> 'report'"),
    )
    op.create_index(
        "ix_journal_steps",
        "journal",
        ["run_id", "step"],
        unique=False,
        sqlite_where=sa.text("closed AND NOT hidden"),
        postgresql_where=sa.text("closed AND NOT hidden"),
    )
    op.create_table(
        "snapshots",
        sa.Column("run_id", _number, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("blob", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_snapshots_run_id_runs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "seq", name="pk_snapshots"),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("datasets", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=True),
        sa.Column("revoked_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
    )
    op.create_table(
        "subsets",
        sa.Column("dataset_id", _number, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("tasks", sa.LargeBinary(), nullable=False),
        sa.Column("kept_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name="fk_subsets_dataset_id_datasets", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("dataset_id", "name", name="pk_subsets"),
    )


def downgrade() -> None:
    op.drop_table("subsets")
    op.drop_table("api_keys")
    op.drop_table("snapshots")
    op.drop_table("journal")
    op.drop_table("task_blocks")
    op.drop_table("runs")
    op.drop_table("datasets")
    op.drop_table("answers")
