"""What the graph server added: due times, groups of alerts, the Agent Protocol, tokens."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision: str | None = "0001"

_INCIDENTS = sa.table(
    "incidents", sa.column("project"), sa.column("thread"), sa.column("kind"),
    sa.column("state"), sa.column("at"), sa.column("fired"), sa.column("due_at"),
)  # fmt: skip
_CARDS = sa.table(
    "cards", sa.column("project"), sa.column("proposal"), sa.column("revision"),
    sa.column("expires_at"),
)  # fmt: skip
_PROPOSALS = sa.table(
    "proposals", sa.column("project"), sa.column("id"), sa.column("revision"),
    sa.column("thread"), sa.column("state"),
)  # fmt: skip


def _project() -> sa.Column[str]:
    return sa.Column("project", sa.String(40), nullable=False)


def _text(name: str, *, null: bool = False, default: str | None = None) -> sa.Column[str]:
    return sa.Column(name, sa.String, nullable=null, server_default=default)


def _number(name: str, default: str | None = None) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, nullable=False, server_default=default)


def _body(name: str = "body", *, null: bool = False) -> sa.Column[object]:
    return sa.Column(name, sa.JSON, nullable=null)


def upgrade() -> None:
    """Change the tables, then bring the rows of runs that are under way up to date."""
    _alerts()
    _incidents()
    _new_tables()
    op.create_index("proposals_by_time", "proposals", ["project", "at", "id"])
    op.create_index("proposals_by_hash", "proposals", ["project", "hash"])
    _runs_under_way()


def _alerts() -> None:
    with op.batch_alter_table("alerts") as batch:
        batch.alter_column("thread", existing_type=sa.String(), nullable=True)
        batch.add_column(_text("kind", default="firing"))
        batch.add_column(_text("group_key", default=""))
        batch.add_column(_text("state", default="started"))
        batch.add_column(_text("note", null=True))
    op.create_index("alerts_by_state", "alerts", ["project", "state", "at"])
    op.create_index("alerts_by_time", "alerts", ["project", "at"])
    op.create_index("alerts_by_thread", "alerts", ["project", "thread", "at"])


def _incidents() -> None:
    # Whether a server of somebody else drove a run is not told by the rows of the first release:
    # all are taken as our own. One that a foreign server drives is found at the same card again,
    # since its steps are in the ledger.
    for column in (
        _text("driver", default="local"), _text("group_key", default=""), _number("fired", "0"),
        _text("recovered_at", null=True), _text("due_at", null=True), _number("tries", "0"),
        _text("problem", null=True),
    ):  # fmt: skip
        op.add_column("incidents", column)
    op.create_index("incidents_by_state", "incidents", ["project", "state", "due_at"])
    op.create_index("incidents_by_group", "incidents", ["project", "group_key", "at"])


def _new_tables() -> None:
    if not sa.inspect(op.get_bind()).has_table("reads"):  # early files of the first release
        op.create_table(
            "reads", _project(), _text("thread"), _text("part"), _text("cursor"), _body(),
            _text("at"), sa.PrimaryKeyConstraint("project", "thread", "part"),
        )  # fmt: skip
    op.create_table(
        "threads", _project(), sa.Column("thread", sa.String, primary_key=True),
        _body("metadata"), _text("at"), _text("updated_at"),
    )  # fmt: skip
    op.create_index("threads_by_time", "threads", ["project", "updated_at"])
    op.create_table(
        "runs", _project(), sa.Column("run", sa.String, primary_key=True), _text("thread"),
        _text("status"), _body(), _text("problem", null=True), _text("at"), _text("updated_at"),
    )  # fmt: skip
    op.create_index("runs_by_thread", "runs", ["project", "thread", "at"])
    op.create_table(
        "trail", _project(), sa.Column("id", sa.String, primary_key=True), _text("proposal"),
        _number("revision"), _text("kind"), _text("by"), _text("via"), _text("text", null=True),
        _text("until", null=True), _text("at"),
    )  # fmt: skip
    op.create_index("trail_by_proposal", "trail", ["project", "proposal", "at"])
    op.create_table(
        "circuits", _project(), _text("backend"), _number("failures"), _body("failed"),
        _text("open_until", null=True), _text("problem", null=True), _text("at"),
        sa.PrimaryKeyConstraint("project", "backend"),
    )  # fmt: skip
    op.create_table(
        "schedules", _project(), _text("name"), _text("slot"), _text("thread", null=True),
        _text("at"), sa.PrimaryKeyConstraint("project", "name"),
    )  # fmt: skip
    op.create_table(
        "tokens", sa.Column("id", sa.String, primary_key=True), _text("name"), _body("roles"),
        _body("projects", null=True), _text("hash"), _text("at"), _text("expires_at", null=True),
        _text("revoked_at", null=True), _text("last_used_at", null=True),
    )  # fmt: skip


def _runs_under_way() -> None:
    bind, run = op.get_bind(), _INCIDENTS.c
    bind.execute(sa.update(_INCIDENTS).where(run.kind == "alert").values(fired=1))
    shown = _CARDS.join(
        _PROPOSALS,
        (_PROPOSALS.c.project == _CARDS.c.project)
        & (_PROPOSALS.c.id == _CARDS.c.proposal)
        & (_PROPOSALS.c.revision == _CARDS.c.revision),
    )
    expiry = (
        sa.select(sa.func.max(_CARDS.c.expires_at))
        .select_from(shown)
        .where(_PROPOSALS.c.project == run.project, _PROPOSALS.c.thread == run.thread)
        .where(_PROPOSALS.c.state != "stale")
        .scalar_subquery()
    )
    bind.execute(sa.update(_INCIDENTS).where(run.state == "waiting").values(due_at=expiry))
    # What waits at a card that is not found this way is looked at once, and then noted anew.
    lost = (run.state == "waiting") & run.due_at.is_(None)
    bind.execute(sa.update(_INCIDENTS).where(lost).values(state="running"))
    threads = sa.table(
        "threads", sa.column("project"), sa.column("thread"), sa.column("metadata", sa.JSON),
        sa.column("at"), sa.column("updated_at"),
    )  # fmt: skip
    for row in bind.execute(sa.select(run.project, run.thread, run.kind, run.at)).all():
        said = {"project": row.project, "kind": row.kind}
        seen = {"project": row.project, "thread": row.thread, "metadata": said}
        bind.execute(threads.insert().values(at=row.at, updated_at=row.at, **seen))
