"""The tables of the first release, in which every run was started by a person's command."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision: str | None = None


def _project() -> sa.Column[str]:
    return sa.Column("project", sa.String(40), nullable=False)


def _text(name: str, *, null: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.String, nullable=null)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, nullable=False)


def _body(name: str = "body") -> sa.Column[object]:
    return sa.Column(name, sa.JSON, nullable=False)


def upgrade() -> None:
    """Make them."""
    op.create_table("meta", sa.Column("key", sa.String, primary_key=True), _text("value"))
    _runs()
    _proposals()
    _gates()
    _effects()
    _knowledge()
    _rest()


def _runs() -> None:
    op.create_table(
        "alerts", _project(), _text("source"), _text("key"), _text("thread"), _body(),
        _text("at"), sa.PrimaryKeyConstraint("project", "source", "key"),
    )  # fmt: skip
    op.create_table(
        "incidents", _project(), sa.Column("thread", sa.String, primary_key=True),
        _text("kind"), _text("key"), _body("request"), _text("state"), _text("at"),
    )  # fmt: skip
    op.create_table(
        "steps", _project(), _text("thread"), _text("step"), _body(), _text("at"),
        sa.PrimaryKeyConstraint("project", "thread", "step"),
    )  # fmt: skip
    op.create_table(
        "reads", _project(), _text("thread"), _text("part"), _text("cursor"), _body(),
        _text("at"), sa.PrimaryKeyConstraint("project", "thread", "part"),
    )  # fmt: skip


def _proposals() -> None:
    op.create_table(
        "proposals", _project(), _text("id"), _number("revision"), _text("thread"),
        _text("finding"), _text("hash", null=True), _text("state"), _body(), _text("at"),
        sa.PrimaryKeyConstraint("project", "id", "revision"),
    )  # fmt: skip
    op.create_table(
        "cards", _project(), _text("proposal"), _number("revision"), _text("kind"),
        _text("proposal_hash"), _body(), _text("at"), _text("expires_at"),
        sa.PrimaryKeyConstraint("project", "proposal", "revision", "kind"),
    )  # fmt: skip
    op.create_table(
        "decisions", _project(), sa.Column("id", sa.String, primary_key=True),
        _text("proposal"), _number("revision"), _text("proposal_hash"), _text("card"),
        _number("seat"), _text("type"), _body(), _text("at"),
        sa.UniqueConstraint("project", "proposal", "revision", "card", "seat"),
    )  # fmt: skip


def _gates() -> None:
    op.create_table(
        "gate_openings", _project(), _text("proposal_hash"), _text("finding"), _number("use"),
        _number("issue_use"), sa.Column("alpha", sa.Float, nullable=False),
        sa.Column("use_taken", sa.Boolean, nullable=False), _text("at"),
        sa.PrimaryKeyConstraint("project", "proposal_hash"),
    )  # fmt: skip
    op.create_table(
        "gate_blocks", _project(), _text("proposal_hash"), _text("phase"), _text("case"),
        _number("idx"), _number("attempt"), _body(), _number("seq"), _text("at"),
        sa.PrimaryKeyConstraint("project", "proposal_hash", "phase", "case", "idx", "attempt"),
    )  # fmt: skip
    op.create_table(
        "gate_reports", _project(), _text("proposal_hash"), _text("verdict"), _text("hash"),
        _body(), _text("at"), sa.PrimaryKeyConstraint("project", "proposal_hash"),
    )  # fmt: skip


def _effects() -> None:
    op.create_table(
        "effects", _project(), sa.Column("key", sa.String, primary_key=True), _text("kind"),
        _text("proposal_hash"), _text("decision_id"), _text("target"), _text("before"),
        _text("after"), _text("state"), _text("reason", null=True), _text("owner", null=True),
        _number("fence"), _text("updated_at"),
    )  # fmt: skip
    applies = sa.text("kind = 'apply'")
    undoes = sa.text("kind = 'undo' AND state IN ('intended', 'done')")
    for name, which in (("one_apply", applies), ("one_undo", undoes)):
        op.create_index(
            name, "effects", ["project", "proposal_hash", "target"], unique=True,
            sqlite_where=which, postgresql_where=which,
        )  # fmt: skip
    op.create_table(
        "releases", _project(), sa.Column("id", sa.String, primary_key=True), _text("proposal"),
        _text("proposal_hash"), _text("undoes", null=True), _text("audit_head"), _body(),
        _text("at"),
    )  # fmt: skip


def _knowledge() -> None:
    op.create_table(
        "findings", _project(), _text("id"), _text("signature"), _text("state"), _body(),
        sa.Column("evidence", sa.JSON, nullable=True), _text("ready_at", null=True),
        _text("at"), sa.PrimaryKeyConstraint("project", "id"),
    )  # fmt: skip
    op.create_table(
        "handoffs", _project(), _text("finding"), _text("state"), _body(), _text("at"),
        sa.PrimaryKeyConstraint("project", "finding"),
    )  # fmt: skip
    op.create_table(
        "lessons", _project(), sa.Column("id", sa.String, primary_key=True),
        _text("signature"), _body(), _text("at"),
    )  # fmt: skip
    op.create_table(
        "cases", _project(), _text("id"), _text("finding"), _text("tag"), _body(), _text("at"),
        sa.PrimaryKeyConstraint("project", "finding", "id"),
    )  # fmt: skip


def _rest() -> None:
    op.create_table(
        "artifacts", _project(), _text("sha256"), _text("kind"), _number("size"),
        sa.Column("truncated", sa.Boolean, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("project", "sha256", "kind"),
    )  # fmt: skip
    op.create_table(
        "leases", _project(), _text("name"), _text("owner", null=True), _number("fence"),
        sa.Column("expires_at", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("project", "name"),
    )  # fmt: skip
    op.create_table(
        "audit", _project(), _number("seq"), _text("event"), _body(), _text("at"),
        _text("previous"), _text("hash"), sa.PrimaryKeyConstraint("project", "seq"),
    )  # fmt: skip
    op.create_table(
        "audit_heads", sa.Column("project", sa.String(40), primary_key=True), _number("seq"),
        _text("hash"),
    )  # fmt: skip
