"""File a ticket for a finding that text cannot fix: evidence, place in the stack, suggestion.

The suggestion is words for whoever owns that place; nothing of it is ever applied.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NotRequired, cast

from langgraph.runtime import Runtime
from sqlalchemy import Connection
from typing_extensions import TypedDict

from contracts.context import RunContext
from contracts.findings import Finding, Remedy
from contracts.json_types import Json, JsonObject
from memory.handoffs import Ticket
from memory.ledger import Ledger
from memory.workspace import Workspace, open_workspace, thread_of
from nodes.gate.stats import recurrence_p
from nodes.insights.compare import rate_interval, risen_p
from nodes.insights.signature import clean

FELL = 0.05
"""Exact one-sided p from which a ticket's rate is taken to have fallen. A wrong close costs little:
the ticket is filed again when the rate rises."""
ROSE = 0.01
"""And to have risen again. Smaller, since it is asked at every analysis."""
RECURRED_UNITS = 2
"""Units from which a failure that was gone is back; one may be chance, as for new findings."""

ELSEWHERE = "elsewhere"
"""Under which evolution keeps, beside a finding's evidence, what steers it outside the harness."""

_SUGGESTIONS: Mapping[Remedy, str] = {
    "instructions": "Say in the agent's instructions what to do in this case, at the step named.",
    "skill": "Give the agent a skill for this step, with the order of calls that works.",
    "tool": "Look at the tool's code, its parameters and what it answers when it fails; let it "
    "fail with a status and a message that says what to do.",
    "retrieval": "Look at what the index holds for these requests and how it is asked.",
    "model": "Try another model or other sampling settings on the exemplars, or give it more room.",
    "infrastructure": "Look at the service's health, limits, time-outs and credentials at the "
    "times shown.",
    "data": "Look at the records that the exemplars name.",
    "none": "Nothing to change was found; look at the exemplars before anything is done.",
}  # fmt: skip


class HandoffReads(TypedDict):
    """What handoff reads."""

    finding: str
    why: NotRequired[str | None]


class HandoffWrites(TypedDict):
    """What handoff writes."""

    handoff: str


def ticket(
    finding: Finding,
    why: str,
    evidence: Sequence[JsonObject] = (),
    steered_by: JsonObject | None = None,
) -> dict[str, Json]:
    """What the owner of the code or the infrastructure needs to start. A pure function.

    Args:
        finding: what keeps failing.
        why: why no edit of text is drafted for it.
        evidence: `{trace_id, span_id, quote, failed}` of its spans, masked and cut.
        steered_by: `{suggestion, places: [{path, line, end_line, name}], prompt}` where the text
            that steers it stands outside the harness; None: it does not, as far as known.
    """
    own = steered_by.get("suggestion") if steered_by is not None else None
    _, place, _ = (*finding.signature.partition("~")[0].split(":"), "", "")[:3]
    return {
        "title": finding.title,
        "where": finding.remedy,
        "place": place,
        "why": why,
        "cause": finding.diagnosis.summary,
        "falsifier": finding.diagnosis.falsifier,
        "suggestion": own if isinstance(own, str) else _SUGGESTIONS[finding.remedy],
        **({} if steered_by is None else {"steered_by": dict(steered_by)}),
        "signature": finding.signature,
        "severity": finding.severity,
        "counts": {"units": finding.units, "units_total": finding.units_total},
        "rate": [*finding.rate],
        "change": finding.change,
        "contrasts": [one.sentence for one in finding.contrasts],
        "evidence": [dict(line) for line in evidence],
        "exemplars": [[trace, span] for trace, span in finding.exemplars],
        "first_seen": finding.first_seen.isoformat() if finding.first_seen else None,
        "last_seen": finding.last_seen.isoformat() if finding.last_seen else None,
    }


def ticket_text(ticket_body: Mapping[str, Json]) -> str:
    """The ticket as a few lines of Markdown that a tracker can take as they are."""
    counts = cast("Mapping[str, Json]", ticket_body.get("counts") or {})
    lines = [
        f"**{ticket_body.get('title')}** ({ticket_body.get('severity')})",
        "",
        f"Where: {ticket_body.get('where')}, at `{ticket_body.get('place')}`. "
        f"{ticket_body.get('why')}",
        *_steered(ticket_body),
        f"Counted: {counts.get('units')} of {counts.get('units_total')}, "
        f"{ticket_body.get('change')}; seen {_span(ticket_body)}.",
        f"Cause, as far as known: {ticket_body.get('cause')}",
        f"It would be wrong if: {ticket_body.get('falsifier')}",
        f"Suggestion (nothing was applied): {ticket_body.get('suggestion')}",
    ]
    lines += [f"- {sentence}" for sentence in _list(ticket_body, "contrasts")]
    lines += ["", "Evidence (quoted from traces):"]
    for line in _list(ticket_body, "evidence"):
        if isinstance(line, Mapping):
            quote = clean(str(line.get("quote")), 300).replace("`", "'")
            lines.append(f"- trace {line.get('trace_id')}, span {line.get('span_id')}: `{quote}`")
    return "\n".join(lines)


def _steered(ticket_body: Mapping[str, Json]) -> Sequence[str]:
    """The places in code that steer it, one a line."""
    found = ticket_body.get("steered_by")
    lines: list[str] = []
    for place in _list(found, "places") if isinstance(found, Mapping) else ():
        if isinstance(place, Mapping):
            path = clean(str(place.get("path")), 300).replace("`", "'")
            name = clean(str(place.get("name") or ""), 80).replace("`", "'")
            first, last = place.get("line"), place.get("end_line")
            at = f"line {first}" if first == last else f"lines {first}-{last}"
            lines.append(f"Steered by: `{path}`, {at}{f', `{name}`' if name else ''}")
    return lines


def _span(ticket_body: Mapping[str, Json]) -> str:
    first, last = ticket_body.get("first_seen"), ticket_body.get("last_seen")
    return f"{first} to {last}" if first and last else "at times that were not recorded"


def _list(ticket_body: Mapping[str, Json], key: str) -> Sequence[Json]:
    value = ticket_body.get(key)
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


def why_text_cannot(finding: Finding) -> str:
    """The sentence of a ticket for a finding whose remedy is not text."""
    return f"The fix belongs to the {finding.remedy}, which Tracemend advises on and never edits."


def file_ticket(
    ledger: Ledger,
    tx: Connection,
    finding: Finding,
    why: str,
    evidence: Sequence[JsonObject] = (),
    *,
    steered_by: JsonObject | None = None,
) -> None:
    """File it, bring an open one up to date, or open a closed one again when its rate rose.

    A closed ticket whose finding is merely still there stays closed.
    """
    known = ledger.handoffs.get_in(tx, finding.id)
    body = ticket(finding, why, evidence, steered_by)
    if known is None:
        filed: dict[str, Json] = {"units": finding.units, "units_total": finding.units_total}
        ledger.handoffs.file(tx, finding.id, {**body, "filing": 1, "filed": filed})
    elif known.state == "open":
        kept = {key: known.body[key] for key in ("filing", "filed") if key in known.body}
        ledger.handoffs.file(tx, finding.id, {**body, **kept})
    elif is_back(known.body, finding.units, finding.units_total):
        filing = known.body.get("filing")
        again: dict[str, Json] = {
            "filing": (filing if isinstance(filing, int) else 1) + 1,
            "filed": {"units": finding.units, "units_total": finding.units_total},
        }
        ledger.handoffs.file_again(tx, finding.id, {**body, **again})


def fell(body: Mapping[str, Json], units: int, units_total: int) -> dict[str, Json] | None:
    """The numbers that close a ticket, when its rate fell since it was filed; None: it did not.

    Exact, given both counts together: not seen at all in few units is no fall.
    """
    before, total = _counts(body.get("filed") or body.get("counts"))
    if not total or not units_total:
        return None
    p = recurrence_p(before, float(total), units, float(units_total))
    if p > FELL:
        return None
    now = rate_interval(units, units_total)
    return {
        "reason": "rate_fell", "p": p, "units": units, "units_total": units_total,
        "rate": [*now], "filed": {"units": before, "units_total": total},
    }  # fmt: skip


def is_back(body: Mapping[str, Json], units: int, units_total: int) -> bool:
    """Whether the failure of a closed ticket is back: more often than when it was closed."""
    closed = body.get("closed")
    before, total = _counts(closed if isinstance(closed, Mapping) else body.get("counts"))
    return rose(before, total, units, units_total)


def rose(before: int, before_total: int, units: int, units_total: int) -> bool:
    """Whether a failure is more frequent than it was when somebody closed it.

    What was gone is back with two units; else by the exact test, at level `ROSE`.
    """
    if not units or not units_total:
        return False
    if not before or not before_total:
        return units >= RECURRED_UNITS
    return risen_p(before, float(before_total), units, float(units_total)) <= ROSE


def close_fallen(
    ledger: Ledger, tx: Connection, known: Ticket, units: int, units_total: int
) -> bool:
    """Close an open ticket whose rate fell, with the numbers."""
    numbers = fell(known.body, units, units_total)
    if known.state != "open" or numbers is None:
        return False
    return ledger.handoffs.close(
        tx, known.finding, {**known.body, "closed": numbers}, by="tracemend"
    )


def _counts(value: Json) -> tuple[int, int]:
    if not isinstance(value, Mapping):
        return 0, 0
    units, total = value.get("units"), value.get("units_total")
    return (units if isinstance(units, int) else 0, total if isinstance(total, int) else 0)


async def handoff(state: HandoffReads, runtime: Runtime[RunContext]) -> HandoffWrites:
    """File the ticket, once. Reads `finding` and `why`, writes the ledger and `handoff`.

    It is delivered afterwards, by whoever drives the run: a webhook that is down stops nothing.
    """
    ws = await open_workspace(runtime)
    await asyncio.to_thread(_file, ws, thread_of(runtime), state["finding"], state.get("why"))
    return {"handoff": state["finding"]}


def _file(ws: Workspace, thread: str, finding_id: str, why: str | None) -> None:
    finding = ws.ledger.knowledge.finding(finding_id).finding
    kept = ws.ledger.knowledge.evidence(finding_id)
    lines, steered_by = kept.get("evidence"), kept.get(ELSEWHERE)
    quoted = [one for one in lines if isinstance(one, Mapping)] if isinstance(lines, list) else []

    def write(tx: Connection) -> dict[str, Json]:
        file_ticket(
            ws.ledger, tx, finding, why or why_text_cannot(finding), quoted,
            steered_by=steered_by if isinstance(steered_by, Mapping) else None,
        )  # fmt: skip
        return {"finding": finding.id}

    ws.ledger.steps.once(thread, f"handoff:{finding_id}", write)
