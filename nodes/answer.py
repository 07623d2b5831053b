"""Answer a question about the traces from what insights just counted."""

import asyncio
from dataclasses import replace
from typing import cast

from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from contracts.codec import from_json
from contracts.context import RunContext
from contracts.json_types import Json, JsonObject
from contracts.traces import TraceQuery
from memory.workspace import Workspace, open_workspace, thread_of
from nodes.ask.facts import Facts, Read, facts_lines
from nodes.ask.gather import facts_of, window_of
from nodes.router import Request
from nodes.status import status_of

SHOWN = 5


class AnswerReads(TypedDict):
    """What answer reads."""

    request: Request
    analysis: dict[str, Json]


class AnswerWrites(TypedDict):
    """What answer writes."""

    reply: str


async def answer(state: AnswerReads, runtime: Runtime[RunContext]) -> AnswerWrites:
    """Say what fits the question, with counts and ids. Reads `request`, `analysis`; no model."""
    ws = await open_workspace(runtime)
    if state["request"].get("about") == "status":
        return {"reply": await asyncio.to_thread(status_of, ws)}
    question, thread = state["request"].get("text", ""), thread_of(runtime)
    return {"reply": await asyncio.to_thread(_reply, ws, thread, question, state["analysis"])}


def _reply(ws: Workspace, thread: str, question: str, analysis: dict[str, Json]) -> str:
    return "\n".join(facts_lines(told(ws, thread, question, analysis), most=SHOWN))


def told(ws: Workspace, thread: str, question: str, analysis: dict[str, Json]) -> Facts:
    """The facts of the analysis that this run made, as it kept them.

    Args:
        ws: the project.
        thread: of the run; its window is in the ledger.
        question: a person's words.
        analysis: the summary that insights wrote to the state.
    """
    listed = analysis.get("findings")
    seen = {str(found) for found in listed} if isinstance(listed, list) else set()
    findings = [s.finding for s in ws.ledger.knowledge.findings() if s.finding.id in seen]
    report = analysis.get("read")
    counted = report if isinstance(report, dict) else {}
    why = counted.get("why")
    read = Read(
        traces=_number(counted.get("traces")), status=str(analysis.get("status", "partial")),
        why=str(why) if why else None, unit=str(analysis.get("unit", "trace")),
        units_total=_number(analysis.get("units_total")),
    )  # fmt: skip
    time = window_of(ws, question, ws.ledger.db.clock())
    kept = ws.ledger.steps.get(thread, "insights.window")
    if kept is not None:
        window = from_json(TraceQuery, cast("JsonObject", kept["window"]))
        start, end = window.start or time.start, window.end or time.end
        time = replace(time, start=start, end=end)
    return facts_of(ws, question, time, read=read, findings=findings, evidence={})


def _number(value: Json) -> int:
    return value if isinstance(value, int) else 0
