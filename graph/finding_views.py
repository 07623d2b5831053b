"""Findings as documents: in a list, and one with everything that is known of it."""

from collections.abc import Mapping, Sequence
from typing import cast

from contracts.findings import Finding
from contracts.json_types import Json, JsonObject
from graph.findings import resolve, standing, title_of
from memory.choices import Choice
from memory.handoffs import Ticket
from memory.knowledge import StoredFinding
from memory.workspace import Workspace
from nodes.insights.choices import Choices
from nodes.insights.report import finding_json


def list_document(ws: Workspace, *, every: bool = False) -> list[dict[str, Json]]:
    """Findings, worst first: those seen in the latest analysis, then the others.

    Closed ones, and those put into others, only with `every`; they come last.
    """
    choices = standing(ws)
    known = [s for s in ws.ledger.knowledge.findings() if every or s.state != "closed"]
    known.sort(key=lambda s: (s.state == "closed", s.unseen_at is not None))
    return [in_short(stored, choices) for stored in known]


def in_short(stored: StoredFinding, choices: Choices) -> dict[str, Json]:
    """FINDING of docs/cli.md, and where it stands."""
    finding = stored.finding
    taken = choices.merged.get(finding.signature)
    closed = choices.closed.get(finding.signature)
    return {
        **finding_json(finding),
        "title": title_of(finding, choices),
        "state": stored.state,
        "opened_at": stored.opened_at,
        "unseen_since": stored.unseen_at,
        "merged_into": None if taken is None else {"signature": taken.into, "by": taken.by},
        "closed": None if closed is None or stored.state != "closed" else {
            "by": closed.by, "at": closed.at, "reason": closed.reason,
            "units": closed.units, "units_total": closed.units_total,
        },
    }  # fmt: skip


def show_document(ws: Workspace, named: str) -> dict[str, Json]:
    """One finding with evidence, what was tried, what people said, and its hand-off.

    Raises:
        UsageError: there is no such finding.
    """
    stored = resolve(ws, named)
    finding = stored.finding
    kept = ws.ledger.knowledge.evidence(finding.id)
    return {
        **in_short(stored, standing(ws)),
        "diagnosed_by": finding.diagnosis.by,
        "remedies": [*finding.diagnosis.remedies],
        "read": kept.get("read"),
        "unit": kept.get("unit"),
        "evidence": kept.get("evidence") or [],
        "wordings": kept.get("wordings") or [],
        "reach": kept.get("reach") or [],
        "cases_left_out": kept.get("cases") or [],
        "tried": tried(ws, finding),
        "proposals": proposals(ws, finding),
        "said": [choice_json(one) for one in about(ws, finding)],
        "handoff": handoff_json(ws.ledger.handoffs.get(finding.id)),
    }


def tried(ws: Workspace, finding: Finding) -> list[Json]:
    """Lessons of the finding and of what was put into it, oldest first."""
    signatures = {finding.signature, *(one.signature for one in finding.merged)}
    return [
        {
            "at": lesson.at.isoformat(), "edit": lesson.edit, "decision": lesson.decision,
            "reason": lesson.reason, "outcome": lesson.outcome,
        }
        for lesson in ws.ledger.knowledge.lessons()
        if lesson.signature in signatures
    ]  # fmt: skip


def proposals(ws: Workspace, finding: Finding) -> list[Json]:
    """The newest revision of each proposal for it."""
    return [
        {"id": s.proposal.id, "revision": s.proposal.revision, "state": s.state}
        for s in ws.ledger.proposals.all_latest()
        if s.proposal.finding_id == finding.id
    ]


def about(ws: Workspace, finding: Finding) -> list[Choice]:
    """Choices of the finding, and those that put others into it or keep them out."""

    def concerns(one: Choice) -> bool:
        other = one.body.get("into") or one.body.get("from")
        return finding.signature in (one.signature, other)

    return [one for one in ws.ledger.choices.listed() if concerns(one)]


def choice_json(choice: Choice) -> dict[str, Json]:
    """One choice."""
    return {
        "id": choice.id, "kind": choice.kind, "signature": choice.signature,
        "by": choice.by, "at": choice.at, **choice.body,
    }  # fmt: skip


def handoff_json(ticket: Ticket | None) -> dict[str, Json] | None:
    """Where a hand-off stands; None: there is none."""
    if ticket is None:
        return None
    return {
        "finding": ticket.finding, "state": ticket.state, "title": _text(ticket.body, "title"),
        "where": _text(ticket.body, "where"), "filed_at": ticket.at, "sent_at": ticket.sent_at,
        "problem": ticket.problem, "tries": ticket.tries, "tried_at": ticket.tried_at,
        "closed_at": ticket.closed_at, "closed": ticket.body.get("closed"),
    }  # fmt: skip


def _text(body: JsonObject, key: str) -> str:
    value = body.get(key)
    return value if isinstance(value, str) else ""


def objects(value: Json) -> Sequence[Mapping[str, Json]]:
    """The objects of a JSON list; empty for anything else."""
    listed = value if isinstance(value, list) else []
    return [cast("Mapping[str, Json]", one) for one in listed if isinstance(one, dict)]
