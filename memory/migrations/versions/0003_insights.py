"""What insights added: people's choices about findings, vectors, spends, delivery of hand-offs."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision: str | None = "0002"


def _project() -> sa.Column[str]:
    return sa.Column("project", sa.String(40), nullable=False)


def _text(name: str, *, null: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.String, nullable=null)


def upgrade() -> None:
    """New tables, and new columns of hand-offs; no row changes."""
    op.add_column("handoffs", _text("sent_at", null=True))
    op.add_column("handoffs", _text("problem", null=True))
    op.add_column("handoffs", _text("closed_at", null=True))
    op.add_column("findings", _text("unseen_at", null=True))
    tries = sa.Column("tries", sa.Integer, nullable=False, server_default="0")
    op.add_column("handoffs", tries)
    op.add_column("handoffs", _text("tried_at", null=True))
    op.create_table(
        "choices", _project(), sa.Column("id", sa.String, primary_key=True), _text("kind"),
        _text("signature"), sa.Column("body", sa.JSON, nullable=False), _text("by"), _text("at"),
        _text("revoked_at", null=True),
    )  # fmt: skip
    op.create_index("choices_by_time", "choices", ["project", "at"])
    op.create_table(
        "vectors", _project(), _text("kind"), _text("id"), _text("embedder"), _text("text_hash"),
        sa.Column("data", sa.LargeBinary, nullable=False), _text("at"),
        sa.PrimaryKeyConstraint("project", "kind", "id", "embedder"),
    )  # fmt: skip
    op.create_index("vectors_by_time", "vectors", ["project", "kind", "embedder", "at"])
    op.create_index("lessons_by_signature", "lessons", ["project", "signature", "at"])
    op.create_table(
        "spends", _project(), sa.Column("id", sa.String, primary_key=True),
        _text("thread", null=True), _text("purpose"), _text("model"),
        sa.Column("tokens", sa.Integer, nullable=False),
        sa.Column("cost_usd", sa.Float, nullable=True), _text("at"),
    )  # fmt: skip
    op.create_index("spends_by_time", "spends", ["project", "at"])
    op.create_index("spends_by_thread", "spends", ["project", "thread"])
