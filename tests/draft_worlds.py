"""A project with a finding, its quotes and an editor that reads a script, as drafting meets it."""

import asyncio
from dataclasses import replace
from pathlib import Path

from contracts.findings import Finding, FindingId, Signature
from contracts.json_types import Json, JsonObject
from contracts.proposals import Alternative, Proposal
from memory.workspace import Workspace
from nodes.evolution.node import _keep, _task
from nodes.evolution.offers import Offers, Task, offers
from nodes.ports import open_harness
from nodes.showing import evidence_json
from tests.card_worlds import MAIN, QUOTES, finding
from tests.model_worlds import T1, script, workspace

EDITOR = "editor.jsonl"
RULE = "- Call `payment_api` again after a 504, at most 3 times, before you give up."
CARRIER = "- Say which carrier brings the order, so that nobody has to ask."
ANCHOR = "- Never promise a delivery date."

BOOK = """\
id: {id}
when: {{cause: tool_timeout, remedy: [instructions]}}
needs: {{tool: evidence.tool}}
why: The agent gives up at once ({id}).
falsifier: It fails as before.
edit:
  - {{op: insert_after, file: "{{instructions}}", text: "{text}"}}
"""


def project(
    root: Path, *answers: JsonObject, alternatives: int = 1, editor: bool = True,
    books: dict[str, str] | None = None, budget: dict[str, Json] | None = None,
) -> Workspace:  # fmt: skip
    """The project; `books`: playbooks of the operator's own, id to the line that they add."""
    (root / "instructions").mkdir()
    (root / "instructions" / "main.md").write_text(MAIN, "utf-8")
    (root / "books").mkdir()
    for name, text in (books or {}).items():
        (root / "books" / f"{name}.yaml").write_text(BOOK.format(id=name, text=text), "utf-8")
    sections: dict[str, Json] = {
        "models": {"editor": f"scripted:{EDITOR}" if editor else None},
        "drafting": {"alternatives": alternatives}, "budget": budget or {},
        "playbooks": ["books"] if books else [],
    }  # fmt: skip
    ws = workspace(root, **sections)  # type: ignore[arg-type]  # a list among the sections
    script(ws, EDITOR, *answers)
    enter(ws, finding())
    return ws


def enter(ws: Workspace, found: Finding) -> None:
    """Enter a finding with its quotes."""
    with ws.ledger.db.write() as tx:
        ws.ledger.knowledge.put_finding(tx, found)
        ws.ledger.knowledge.put_evidence(
            tx, found.id, {"unit": "trace", "evidence": evidence_json(QUOTES)}
        )


def elsewhere(tool: str = "payment_api", place: str = "payment_api") -> Finding:
    """Another finding."""
    return replace(
        finding(tool=tool), id=FindingId(f"f-{tool}-{place}"[:12]),
        signature=Signature(f"tool_error:{place}:500"),
    )  # fmt: skip


def says(
    text: str = RULE, *, evidence: tuple[str, ...] = ("e1",), cost: float | None = 0.01,
    tokens: Json = (900, 100), **changes: Json,
) -> JsonObject:  # fmt: skip
    """One line of a script: an edit of the instructions."""
    operation: JsonObject = {
        "op": "insert_after", "path": "instructions/main.md", "anchor": ANCHOR, "text": text,
        **changes,
    }  # fmt: skip
    said: JsonObject = {
        "operations": [operation], "why": f"One idea: {text[:30]}",
        "falsifier": "It fails as often.", "evidence": list(evidence),
    }  # fmt: skip
    priced: JsonObject = {} if cost is None else {"cost": cost}
    return {"answer": said, "tokens": tokens, **priced}


def task_of(ws: Workspace, *, thread: str = T1, about: str | None = None) -> Task:
    """The step of drafting that is to be done now."""
    snapshot = asyncio.run(open_harness(ws).read())
    task = _task(ws, thread, about or finding().id, snapshot)
    assert isinstance(task, Task)
    return task


def drafted(ws: Workspace, *, thread: str = T1) -> Offers:
    """What is offered."""
    return asyncio.run(offers(ws, task_of(ws, thread=thread)))


def proposed(ws: Workspace, *, thread: str = T1) -> Proposal:
    """The revision that drafting leaves in the ledger."""
    task = task_of(ws, thread=thread)
    written = _keep(ws, task, asyncio.run(offers(ws, task)))
    assert written["drafted"], written
    return ws.ledger.proposals.latest(task.which.id).proposal


def texts(ws: Workspace, one: Proposal | Alternative) -> str:
    """The instructions with one of the drafts."""
    files = ws.ledger.artifacts.snapshot(one.candidate_revision).files
    return files["instructions/main.md"].data.decode()
