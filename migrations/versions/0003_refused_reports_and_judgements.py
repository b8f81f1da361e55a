"""Reports that were refused, counted with their run; and what a run's journal says against it."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("refused_reports", sa.Integer(), server_default=sa.text("0"), nullable=False))
    op.add_column("runs", sa.Column("refused_seq", sa.BigInteger(), nullable=True))
    op.add_column("runs", sa.Column("refused_at", sa.Double(), nullable=True))
    op.add_column("runs", sa.Column("refused_reason", sa.Text(), nullable=True))
    op.create_table(
        "judgements",
        sa.Column("run_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("dataset_version", sa.Integer(), nullable=False),
        sa.Column("findings", sa.Text(), nullable=False),
        sa.Column("made_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_judgements_run_id_runs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", name="pk_judgements"),
    )
