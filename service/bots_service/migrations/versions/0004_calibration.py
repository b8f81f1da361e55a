"""What each closed step showed of the belief's predictions.

Only adds: the replicas of the version before still run on these tables. Steps that closed before have none.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("receipts", sa.Column("calibration", sa.LargeBinary(), nullable=True))


def downgrade() -> None:
    op.drop_column("receipts", "calibration")
