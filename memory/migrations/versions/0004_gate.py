"""What the gate needs: the sealed set's manifest and uses, baseline runs, checks of itself."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision: str | None = "0003"


def _project() -> sa.Column[str]:
    return sa.Column("project", sa.String(40), nullable=False)


def _text(name: str, *, null: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.String, nullable=null)


def upgrade() -> None:
    """New tables; the sealed blocks of older gates are entered as uses."""
    op.create_table(
        "sealed_cases", _project(), _text("fingerprint"), _text("case"), _text("family"),
        sa.Column("epoch", sa.Integer, nullable=False), _text("at"),
        _text("retired_at", null=True), _text("why", null=True),
        sa.PrimaryKeyConstraint("project", "fingerprint"),
    )  # fmt: skip
    op.create_table(
        "sealed_uses", _project(), _text("proposal_hash"), _text("case"), _text("fingerprint"),
        _text("family"), _text("at"),
        sa.PrimaryKeyConstraint("project", "proposal_hash", "case"),
    )  # fmt: skip
    # Gates of older releases: their blocks name the case alone, and that use stays spent.
    op.execute(
        'INSERT INTO sealed_uses (project, proposal_hash, "case", fingerprint, family, at) '
        "SELECT project, proposal_hash, \"case\", '', '', min(at) FROM gate_blocks "
        "WHERE phase = 'sealed' GROUP BY project, proposal_hash, \"case\""
    )
    op.create_table(
        "sealed_epochs", _project(), _text("proposal_hash"),
        sa.Column("epoch", sa.Integer, nullable=False), _text("at"),
        sa.PrimaryKeyConstraint("project", "proposal_hash"),
    )  # fmt: skip
    op.create_table(
        "case_runs", _project(), sa.Column("id", sa.String, primary_key=True), _text("source"),
        _text("fingerprint"), _text("revision"), _text("result"),
        sa.Column("body", sa.JSON, nullable=False), _text("at"),
    )  # fmt: skip
    op.create_index("case_runs_by_revision", "case_runs", ["project", "revision", "fingerprint"])
    op.create_table(
        "gate_checks", _project(), sa.Column("id", sa.String, primary_key=True), _text("kind"),
        _text("subject"), sa.Column("ok", sa.Boolean, nullable=False),
        sa.Column("body", sa.JSON, nullable=False), _text("at"),
    )  # fmt: skip
    op.create_index("gate_checks_by_kind", "gate_checks", ["project", "kind", "at"])
