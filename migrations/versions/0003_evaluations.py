"""What trainers measured of their models, and that they ended."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("finished_seq", sa.BigInteger(), nullable=True))
    op.add_column("runs", sa.Column("evaluations", sa.Text(), server_default=sa.text("'{}'"), nullable=False))
    op.add_column("runs", sa.Column("evaluated", sa.Integer(), server_default=sa.text("0"), nullable=False))


def downgrade() -> None:
    for name in ("evaluated", "evaluations", "finished_seq"):
        op.drop_column("runs", name)
