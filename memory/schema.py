"""Tables of the ledger. Every table has `project`; times are RFC 3339 UTC text, bodies are JSON.

A change here is a new `SCHEMA_VERSION` and a step in `migrations/versions`; a test compares the
tables that the steps make with these.
"""

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    UniqueConstraint,
    text,
)

from memory.columns import Text

SCHEMA_VERSION = 4
metadata = MetaData()


def _project() -> Column[str]:
    return Column("project", String(40), nullable=False)


def _text(name: str, *, null: bool = False, default: str | None = None) -> Column[str]:
    return Column(name, Text, nullable=null, default=default)


meta = Table("meta", metadata, Column("key", Text, primary_key=True), _text("value"))
"""One row, `schema_version`; the only table that speaks of the whole file and not of a project."""

alerts = Table(
    "alerts", metadata, _project(), _text("source"), _text("key"),
    _text("thread", null=True), Column("body", JSON, nullable=False), _text("at"),
    Column("kind", Text, nullable=False, server_default="firing"),
    Column("group_key", Text, nullable=False, server_default=""),
    Column("state", Text, nullable=False, server_default="started"),
    _text("note", null=True),
    PrimaryKeyConstraint("project", "source", "key"),
    Index("alerts_by_state", "project", "state", "at"),
    Index("alerts_by_time", "project", "at"), Index("alerts_by_thread", "project", "thread", "at"),
)  # fmt: skip
"""What came in, one row a delivery. Kinds: firing, recovered, note. States: new (accepted, not
looked at yet), started, joined (an incident of its group was open), recovered, ignored, noted."""

incidents = Table(
    "incidents", metadata, _project(), Column("thread", Text, primary_key=True),
    _text("kind"), _text("key"), Column("request", JSON, nullable=False),
    _text("state"), _text("at"),
    Column("driver", Text, nullable=False, server_default="local"),
    Column("group_key", Text, nullable=False, server_default=""),
    Column("fired", Integer, nullable=False, server_default="0"),
    _text("recovered_at", null=True), _text("due_at", null=True),
    Column("tries", Integer, nullable=False, server_default="0"),
    _text("problem", null=True),
    Index("incidents_by_state", "project", "state", "due_at"),
    Index("incidents_by_group", "project", "group_key", "at"),
)  # fmt: skip
"""One run for one alert: binds a thread to its project. States: running (there is something to do
now, or from `due_at` on), waiting (for a person, until `due_at`), quarantined (failed too often: a
person must look), closed. `driver`: `local` (our own checkpointer) or `foreign` (a server drives
it, and only through that server may it be driven)."""

steps = Table(
    "steps", metadata, _project(), _text("thread"), _text("step"),
    Column("body", JSON, nullable=False), _text("at"),
    PrimaryKeyConstraint("project", "thread", "step"),
)  # fmt: skip
"""What a node has done already: a node that runs again returns the body and changes nothing."""

reads = Table(
    "reads", metadata, _project(), _text("thread"), _text("part"), _text("cursor"),
    Column("body", JSON, nullable=False), _text("at"),
    PrimaryKeyConstraint("project", "thread", "part"),
)  # fmt: skip
"""Where an unfinished read of traces stands; gone when its analysis is in the ledger."""

findings = Table(
    "findings", metadata, _project(), _text("id"), _text("signature"), _text("state"),
    Column("body", JSON, nullable=False), Column("evidence", JSON, nullable=True),
    _text("ready_at", null=True), _text("at"), _text("unseen_at", null=True),
    PrimaryKeyConstraint("project", "id"),
)  # fmt: skip
"""States: open, ready, watching, closed, reopened. `unseen_at`: the first analysis since when no
unit had it; NULL: the latest analysis counted it."""

proposals = Table(
    "proposals", metadata, _project(), _text("id"), Column("revision", Integer, nullable=False),
    _text("thread"), _text("finding"), _text("hash", null=True), _text("state"),
    Column("body", JSON, nullable=False), _text("at"),
    PrimaryKeyConstraint("project", "id", "revision"),
    Index("proposals_by_time", "project", "at", "id"),
    Index("proposals_by_hash", "project", "hash"),
)  # fmt: skip
cards = Table(
    "cards", metadata, _project(), _text("proposal"), Column("revision", Integer, nullable=False),
    _text("kind"), _text("proposal_hash"), Column("body", JSON, nullable=False), _text("at"),
    _text("expires_at"),
    PrimaryKeyConstraint("project", "proposal", "revision", "kind"),
)  # fmt: skip
decisions = Table(
    "decisions", metadata, _project(), Column("id", Text, primary_key=True),
    _text("proposal"), Column("revision", Integer, nullable=False), _text("proposal_hash"),
    _text("card"), Column("seat", Integer, nullable=False), _text("type"),
    Column("body", JSON, nullable=False), _text("at"),
    UniqueConstraint("project", "proposal", "revision", "card", "seat"),
)  # fmt: skip
openings = Table(
    "gate_openings", metadata, _project(), _text("proposal_hash"), _text("finding"),
    Column("use", Integer, nullable=False), Column("issue_use", Integer, nullable=False),
    Column("alpha", Float, nullable=False), Column("use_taken", Boolean, nullable=False),
    _text("at"),
    PrimaryKeyConstraint("project", "proposal_hash"),
)  # fmt: skip
blocks = Table(
    "gate_blocks", metadata, _project(), _text("proposal_hash"), _text("phase"), _text("case"),
    Column("idx", Integer, nullable=False), Column("attempt", Integer, nullable=False),
    Column("body", JSON, nullable=False), Column("seq", Integer, nullable=False), _text("at"),
    PrimaryKeyConstraint("project", "proposal_hash", "phase", "case", "idx", "attempt"),
)  # fmt: skip
reports = Table(
    "gate_reports", metadata, _project(), _text("proposal_hash"), _text("verdict"), _text("hash"),
    Column("body", JSON, nullable=False), _text("at"),
    PrimaryKeyConstraint("project", "proposal_hash"),
)  # fmt: skip
sealed_cases = Table(
    "sealed_cases", metadata, _project(), _text("fingerprint"), _text("case"), _text("family"),
    Column("epoch", Integer, nullable=False), _text("at"), _text("retired_at", null=True),
    _text("why", null=True),
    PrimaryKeyConstraint("project", "fingerprint"),
)  # fmt: skip
"""The manifest of the sealed set."""

sealed_uses = Table(
    "sealed_uses", metadata, _project(), _text("proposal_hash"), _text("case"),
    _text("fingerprint"), _text("family"), _text("at"),
    PrimaryKeyConstraint("project", "proposal_hash", "case"),
)  # fmt: skip
sealed_epochs = Table(
    "sealed_epochs", metadata, _project(), _text("proposal_hash"),
    Column("epoch", Integer, nullable=False), _text("at"),
    PrimaryKeyConstraint("project", "proposal_hash"),
)  # fmt: skip
"""Epochs that an accept ended."""

case_runs = Table(
    "case_runs", metadata, _project(), Column("id", Text, primary_key=True), _text("source"),
    _text("fingerprint"), _text("revision"), _text("result"),
    Column("body", JSON, nullable=False), _text("at"),
    Index("case_runs_by_revision", "project", "revision", "fingerprint"),
)  # fmt: skip
gate_checks = Table(
    "gate_checks", metadata, _project(), Column("id", Text, primary_key=True), _text("kind"),
    _text("subject"), Column("ok", Boolean, nullable=False), Column("body", JSON, nullable=False),
    _text("at"), Index("gate_checks_by_kind", "project", "kind", "at"),
)  # fmt: skip
effects = Table(
    "effects", metadata, _project(), Column("key", Text, primary_key=True), _text("kind"),
    _text("proposal_hash"), _text("decision_id"), _text("target"), _text("before"), _text("after"),
    _text("state"), _text("reason", null=True), _text("owner", null=True),
    Column("fence", Integer, nullable=False, default=0), _text("updated_at"),
)  # fmt: skip
"""One change of one target. The two indexes below are promise 3 in the database itself."""

_applies = text("kind = 'apply'")
_undoes = text("kind = 'undo' AND state IN ('intended', 'done')")
Index(
    "one_apply", effects.c.project, effects.c.proposal_hash, effects.c.target,
    unique=True, sqlite_where=_applies, postgresql_where=_applies,
)  # fmt: skip
Index(
    "one_undo", effects.c.project, effects.c.proposal_hash, effects.c.target,
    unique=True, sqlite_where=_undoes, postgresql_where=_undoes,
)  # fmt: skip
# An undo that was refused since somebody had changed the files may be asked for again.

releases = Table(
    "releases", metadata, _project(), Column("id", Text, primary_key=True), _text("proposal"),
    _text("proposal_hash"), _text("undoes", null=True), _text("audit_head"),
    Column("body", JSON, nullable=False), _text("at"),
)  # fmt: skip
handoffs = Table(
    "handoffs", metadata, _project(), _text("finding"), _text("state"),
    Column("body", JSON, nullable=False), _text("at"),
    _text("sent_at", null=True), _text("problem", null=True), _text("closed_at", null=True),
    Column("tries", Integer, nullable=False, server_default="0"), _text("tried_at", null=True),
    PrimaryKeyConstraint("project", "finding"),
)  # fmt: skip
"""Tickets. States: open, closed (its rate fell, or a person said so). `sent_at`: when the webhook
took it; `problem`: why it did not, last time, which was at `tried_at`; `tries`: failed in a row."""

choices = Table(
    "choices", metadata, _project(), Column("id", Text, primary_key=True), _text("kind"),
    _text("signature"), Column("body", JSON, nullable=False), _text("by"), _text("at"),
    _text("revoked_at", null=True),
    Index("choices_by_time", "project", "at"),
)  # fmt: skip
"""What people said of findings: merge, split, rename, close, reopen. Outlasts every analysis."""

vectors = Table(
    "vectors", metadata, _project(), _text("kind"), _text("id"), _text("embedder"),
    _text("text_hash"), Column("data", LargeBinary, nullable=False), _text("at"),
    PrimaryKeyConstraint("project", "kind", "id", "embedder"),
    Index("vectors_by_time", "project", "kind", "embedder", "at"),
)  # fmt: skip
"""Unit vectors (float32, little endian) of lessons and findings. Chroma is an index over these."""

spends = Table(
    "spends", metadata, _project(), Column("id", Text, primary_key=True),
    _text("thread", null=True), _text("purpose"), _text("model"),
    Column("tokens", Integer, nullable=False), Column("cost_usd", Float, nullable=True),
    _text("at"),
    Index("spends_by_time", "project", "at"), Index("spends_by_thread", "project", "thread"),
)  # fmt: skip
"""Calls of models: tokens (input and output) and cost; NULL is unknown, never zero. Purposes:
diagnose, screen, triage, ask, draft, judge."""

lessons = Table(
    "lessons", metadata, _project(), Column("id", Text, primary_key=True), _text("signature"),
    Column("body", JSON, nullable=False), _text("at"),
    Index("lessons_by_signature", "project", "signature", "at"),
)  # fmt: skip
cases = Table(
    "cases", metadata, _project(), _text("id"), _text("finding"), _text("tag"),
    Column("body", JSON, nullable=False), _text("at"),
    PrimaryKeyConstraint("project", "finding", "id"),
)  # fmt: skip
"""Cases mined from traces. Cases in the operator's files are read from there."""

artifacts = Table(
    "artifacts", metadata, _project(), _text("sha256"), _text("kind"),
    Column("size", Integer, nullable=False), Column("truncated", Boolean, nullable=False),
    Column("data", LargeBinary, nullable=False),
    PrimaryKeyConstraint("project", "sha256", "kind"),
)  # fmt: skip
leases = Table(
    "leases", metadata, _project(), _text("name"), _text("owner", null=True),
    Column("fence", Integer, nullable=False), Column("expires_at", Float, nullable=False),
    PrimaryKeyConstraint("project", "name"),
)  # fmt: skip
audit = Table(
    "audit", metadata, _project(), Column("seq", Integer, nullable=False), _text("event"),
    Column("body", JSON, nullable=False), _text("at"), _text("previous"), _text("hash"),
    PrimaryKeyConstraint("project", "seq"),
)  # fmt: skip
threads = Table(
    "threads", metadata, _project(), Column("thread", Text, primary_key=True),
    Column("metadata", JSON, nullable=False), _text("at"), _text("updated_at"),
    Index("threads_by_time", "project", "updated_at"),
)  # fmt: skip
"""What clients of the Agent Protocol said of a thread. Where it stands is its incident's state.
Whose it is, is said by its incident too: who had named the id before loses it to the run."""

runs = Table(
    "runs", metadata, _project(), Column("run", Text, primary_key=True), _text("thread"),
    _text("status"), Column("body", JSON, nullable=False), _text("problem", null=True),
    _text("at"), _text("updated_at"),
    Index("runs_by_thread", "project", "thread", "at"),
)  # fmt: skip
"""Runs of the Agent Protocol: pending, running, success, interrupted, error, cancelled."""

trail = Table(
    "trail", metadata, _project(), Column("id", Text, primary_key=True), _text("proposal"),
    Column("revision", Integer, nullable=False), _text("kind"), _text("by"), _text("via"),
    _text("text", null=True), _text("until", null=True), _text("at"),
    Index("trail_by_proposal", "project", "proposal", "at"),
)  # fmt: skip
"""What people said to a proposal that is no decision: ask, defer."""

circuits = Table(
    "circuits", metadata, _project(), _text("backend"),
    Column("failures", Integer, nullable=False), Column("failed", JSON, nullable=False),
    _text("open_until", null=True), _text("problem", null=True), _text("at"),
    PrimaryKeyConstraint("project", "backend"),
)  # fmt: skip
"""Failures in a row of one backend, across runs; while `open_until` is ahead, runs wait."""

schedules = Table(
    "schedules", metadata, _project(), _text("name"), _text("slot"), _text("thread", null=True),
    _text("at"),
    PrimaryKeyConstraint("project", "name"),
)  # fmt: skip
"""The last slot of each schedule that a run was started for."""

tokens = Table(
    "tokens", metadata, Column("id", Text, primary_key=True), _text("name"),
    Column("roles", JSON, nullable=False), Column("projects", JSON, nullable=True),
    _text("hash"), _text("at"), _text("expires_at", null=True), _text("revoked_at", null=True),
    _text("last_used_at", null=True),
)  # fmt: skip
"""Who may call the server. They belong to the installation; `projects` (NULL: all) bounds one."""

audit_heads = Table(
    "audit_heads", metadata, Column("project", String(40), primary_key=True),
    Column("seq", Integer, nullable=False), _text("hash"),
)  # fmt: skip
"""Where each chain ends, so that entries cut off its end are missed."""
