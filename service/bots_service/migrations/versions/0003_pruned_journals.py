"""Journals whose old entries were pruned.

Only adds: the replicas of the version before still run on these tables.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("pruned", sa.BigInteger(), server_default=sa.text("0"), nullable=False))
    op.add_column("receipts", sa.Column("created_at", sa.Double(), nullable=True))


def downgrade() -> None:
    op.drop_column("receipts", "created_at")
    op.drop_column("runs", "pruned")
