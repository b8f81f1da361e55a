"""Predictions go: a run's probe stands in its journal."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_column("runs", "predictions")
    op.drop_table("predictions")


def downgrade() -> None:
    op.create_table(
        "predictions",
        sa.Column("dataset_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("levels", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name="fk_predictions_dataset_id_datasets", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("dataset_id", "digest", name="pk_predictions"),
    )
    op.add_column("runs", sa.Column("predictions", sa.Text(), server_default=sa.text("'[]'"), nullable=False))
