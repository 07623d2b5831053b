"""Answer a question about the traces from what insights just counted."""

import asyncio

from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from contracts.context import RunContext
from contracts.findings import Finding
from contracts.json_types import Json
from memory.workspace import Workspace, open_workspace
from nodes.router import Request

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
    question = state["request"].get("text", "")
    return {"reply": await asyncio.to_thread(_reply, ws, question, state["analysis"])}


def _reply(ws: Workspace, question: str, analysis: dict[str, Json]) -> str:
    listed = analysis.get("findings")
    seen = {str(found) for found in listed} if isinstance(listed, list) else set()
    findings = [s.finding for s in ws.ledger.knowledge.findings() if s.finding.id in seen]
    return compose(question, findings, str(analysis.get("units_total", 0)))


def compose(question: str, findings: list[Finding], units: str) -> str:
    """The findings that share a word with the question, else the worst ones. A pure function."""
    words = {word.strip("?.,!").lower() for word in question.split() if len(word) > 3}
    about = [f for f in findings if any(w in f"{f.title} {f.signature}".lower() for w in words)]
    chosen = (about or findings)[:SHOWN]
    if not chosen:
        return f"Nothing kept failing in {units} units."
    head = "About your question" if about else "Nothing matches your words; the worst findings are"
    lines = [f"{head} ({units} units read):"]
    lines += [
        f"- {f.title}: {f.units} of {f.units_total} ({f.change}); {f.diagnosis.summary} [{f.id}]"
        for f in chosen
    ]
    return "\n".join(lines)
