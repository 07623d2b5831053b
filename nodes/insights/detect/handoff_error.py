"""Agents that pass a conversation on without anybody working on it.

Meaning: (`ping_pong`) two or more agents give it to each other in turn, with nothing done in
between and no answer; or (`no_answer`) it is given to an agent that never speaks, and the run ends
without an answer. Every step counts as success. Evidence: the hand-overs in order, and what the
instructions of both agents say. The failure begins at the first hand-over back.
Known limits: hand-overs are known by the names of their tools (`transfers`); agents that hand over
by plain words are not seen.
"""

from collections.abc import Iterator, Sequence

from contracts.findings import Symptom
from contracts.json_types import Json
from contracts.traces import Span
from nodes.insights.detect.final import final_of
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.system_text import instructions
from nodes.insights.detect.transfers import Transfer, norm, transfers
from nodes.insights.detect.view import View

KIND = "handoff_error"
PING_PONG, NO_ANSWER = "ping_pong", "no_answer"
LEAST = 3  # hand-overs in a row between the same agents
TEXT = 75


def handoff_error(view: View, symptoms: Sequence[Symptom]) -> Iterator[Hit]:
    """At most one hit a trace."""
    del symptoms
    made = list(transfers(view))
    if not made:
        return
    row = _longest_row(view, made)
    if (
        len(row) >= LEAST
        and _comes_back(row)
        and row[-1] is made[-1]
        and not _worked_after(view, row[-1])
    ):
        yield _ping_pong(view, row)
    elif (lonely := _unanswered(view, made[-1])) is not None:
        yield lonely


def _longest_row(view: View, made: list[Transfer]) -> list[Transfer]:
    """The longest run of hand-overs without any other tool or a word to the user in between."""
    best: list[Transfer] = []
    row: list[Transfer] = []
    wanted = {transfer.span.id: transfer for transfer in made}
    for span in view.trace.spans:
        if span.id in wanted:
            row.append(wanted[span.id])
            best = max(best, row, key=len)
        elif span.id in view.calls or _speaks(span):
            row = []
    return best


def _speaks(span: Span) -> bool:
    return span.kind == "llm" and any(
        m.content.strip() and not m.tool_calls for m in span.messages_out
    )


def _comes_back(row: Sequence[Transfer]) -> bool:
    """Whether some agent got the conversation twice in the row."""
    takers = [transfer.taker for transfer in row]
    return len(set(takers)) < len(takers)


def _worked_after(view: View, last: Transfer) -> bool:
    """Whether an answer came in the end all the same."""
    after = [s for s in view.trace.spans if s.started_at > last.span.started_at]
    return any(_speaks(span) or (span.id in view.calls) for span in after)


def _ping_pong(view: View, row: list[Transfer]) -> Hit:
    back = row[1]
    agents = sorted({transfer.taker for transfer in row})
    way = " > ".join(transfer.taker for transfer in row[:6])
    facts: dict[str, Json] = {"transfers": len(row), "agents": ", ".join(agents)[:120]}
    quotes = []
    for number, transfer in enumerate(row[:2], 1):
        if transfer.asked_at is not None and (text := instructions(transfer.asked_at).strip()):
            short = _part_about(text, transfer.taker)
            facts[f"text_{number}"] = short
            quotes.append(f'"{short}"')
    said = f"{' / '.join(quotes)}: " if quotes else ""
    return Hit(
        kind=KIND,
        span=back.asked_at or back.span,
        message=f"{said}{len(row)} hand-overs and no other work: {way}",
        field="output",
        place="-".join(agents)[:60],
        code=PING_PONG,
        template="agents hand the conversation to each other and nothing else is done",
        shown_at=row[-1].span.id,
        facts=facts,
    )


def _part_about(text: str, taker: str) -> str:
    """The text, or where it is long the sentence that names the other agent."""
    if len(text) <= TEXT:
        return text
    for sentence in text.replace("\n", ". ").split(". "):
        if taker.replace("_", " ") in sentence.lower().replace("_", " "):
            return sentence.strip()[:TEXT]
    return text[:TEXT]


def _unanswered(view: View, last: Transfer) -> Hit | None:
    """The last hand-over, where nobody did anything after it and no answer came."""
    root = view.trace.root
    if root.ended_at is None or root.virtual or last.span.id in view.failed:
        return None
    after = [s for s in view.trace.spans if s.started_at > last.span.started_at]
    if any(span.kind in ("llm", "agent", "tool") for span in after):
        return None
    if any(span.status == "interrupted" for span in view.trace.spans):
        return None
    final = final_of(view)
    said = final.text.strip() if final is not None else ""
    call = view.calls.get(last.span.id)
    told = call.answer.text.strip() if call is not None else ""
    if said and said != told and norm(last.taker) not in norm(said):
        return None
    return Hit(
        kind=KIND,
        span=last.span,
        message=f"handed over to {last.taker}, which never answers; the run ends without an answer",
        field="output",
        place=last.taker,
        code=NO_ANSWER,
        template="handed over to an agent that never answers",
        facts={"agents": last.taker},
    )
