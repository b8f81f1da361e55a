"""Why the fold skipped an entry."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("receipts", sa.Column("skipped", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("receipts", "skipped")
