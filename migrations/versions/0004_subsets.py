"""Subsets of a dataset's tasks."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "subsets",
        sa.Column("dataset_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("tasks", sa.LargeBinary(), nullable=False),
        sa.Column("kept_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name="fk_subsets_dataset_id_datasets", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("dataset_id", "name", name="pk_subsets"),
    )
