"""A small agent with its cases, and the real graph on it from a draft on: a gate in a second.

The agent is a worker of thirty lines that does what its one instruction file says. Nothing of it is
random but the seed of a run, so that a story has one end.
"""

import hashlib
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from sqlalchemy import Connection

from contracts.harness import HarnessFile, HarnessSnapshot
from contracts.json_types import Json, JsonObject, content_id
from contracts.proposals import Draft, Operation, OperationName, Proposal, ProposalId
from graph.drive import LocalDriver, local_driver
from graph.outcomes import Outcome
from graph.service import Service
from memory.workspace import Workspace, open_project, register
from nodes.decide import Person
from nodes.evolution.alternatives import make_alternative
from nodes.evolution.edits import apply_operations
from nodes.evolution.revise import Revising, checked, make_revision
from nodes.showing import newest_card
from tests.card_worlds import finding

Say = Callable[[JsonObject], None]

PROJECT = "small"
THREAD = "t-small"
ANN = Person(name="ann", via="cli", authenticated=True)
MAIN = "instructions/main.md"
BEFORE = "# Assistant\n\n- Answer every request.\n"
GOOD = "- Ask the payment service once more.\n"
NOTHING = "- Stay calm.\n"
CLOSED = "- Ask the payment service once more.\n- Send nobody anything on Mondays.\n"
HARMFUL = "- Ask the payment service once more.\n- Answer in Latin.\n"

AGENT = """
import hashlib, json, os, sys, time
from pathlib import Path

root = Path(sys.argv[1])
print(json.dumps({"op": "ready", "v": 1, "concurrency": 8}), flush=True)
for line in sys.stdin:
    told = json.loads(line)
    if told["op"] == "stop":
        break
    text = Path(told["harness"], "instructions", "main.md").read_text("utf-8")
    kind, number = told["input"]["kind"], told["input"]["number"]
    mode = (root / "mode").read_text("utf-8")
    edited = "Ask the payment" in text
    with (root / "runs.log").open("a") as log:
        print(hashlib.sha256(text.encode()).hexdigest(), kind, number, file=log)
    if mode == "crash" and edited:
        os._exit(3)
    if mode == "slow":
        time.sleep(0.3)
    holds = edited if kind == "target" else number % 5 != 0
    if kind == "ordinary" and "Latin" in text:
        holds = number % 2 == 1
    if kind == "monday":
        holds = "Mondays" not in text
    cost = None if mode == "unpriced" else 0.001
    usage = {"input_tokens": 9, "output_tokens": 3, "cost_usd": cost}
    answer = {"id": told["id"], "output": "done" if holds else "sorry", "error": None}
    print(json.dumps({**answer, "missing": None, "usage": usage, "spans": None}), flush=True)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Small:
    """A project of the small agent, its proposal planned; the graph waits for a person."""

    ws: Workspace
    driver: LocalDriver
    service: Service
    proposal: str
    events: list[JsonObject] = field(default_factory=list)
    hooks: list[Say] = field(default_factory=list)
    """Called with each event of a run, as it happens."""

    def latest(self) -> Proposal:
        return self.ws.ledger.proposals.latest(self.proposal).proposal

    def state(self) -> str:
        return self.ws.ledger.proposals.latest(self.proposal).state

    def notes(self) -> str:
        return "\n".join(str(note) for note in plan_of(self.latest())["notes"])

    async def next(self, added: str, thread: str) -> str:
        """Another proposal for the same finding, at its card."""
        proposal = ready(self.ws, added, thread=thread)
        await self.service.advance(thread)
        return proposal.id

    async def approve(self) -> Outcome:
        return await self.service.decide(self.proposal, {"type": "approve"}, ANN)

    def card(self) -> JsonObject:
        """What the newest card shows."""
        return newest_card(self.ws, self.proposal).view

    def ran(self) -> list[tuple[str, str]]:
        """(SHA-256 of the instructions, kind of case) of every run of the agent so far."""
        log = self.ws.root / "runs.log"
        lines = log.read_text("utf-8").splitlines() if log.exists() else []
        return [(line.split()[0], line.split()[1]) for line in lines]

    def mode(self, name: str) -> None:
        """Change how the agent behaves from now on."""
        (self.ws.root / "mode").write_text(name, "utf-8")


def plan_of(proposal: Proposal) -> dict[str, Any]:
    return dict(proposal.plan)


def text_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def case_of(kind: str, number: int, tag: str, **more: Json) -> dict[str, Json]:
    """A case as a file holds it; each is a family of its own."""
    return {
        "id": f"{tag}-{number}", "input": {"kind": kind, "number": number},
        "tags": [tag], "family": f"{tag} {number}", "assert": [{"contains": "done"}], **more,
    }  # fmt: skip


def cases(*, targets: int = 5, sealed: int = 34) -> list[dict[str, Json]]:
    return [
        *(case_of("target", n, "target") for n in range(targets)),
        *(case_of("ordinary", n, "sealed") for n in range(sealed)),
    ]


def write_project(root: Path, listed: list[dict[str, Json]], **gate: Json) -> None:
    """The operator's repository: agent, instructions, cases, settings."""
    (root / "instructions").mkdir(parents=True)
    (root / "cases").mkdir()
    (root / MAIN).write_text(BEFORE, "utf-8")
    (root / "agent.py").write_text(AGENT, "utf-8")
    (root / "mode").write_text("", "utf-8")
    write_cases(root, listed)
    settings = {
        "version": 1, "project": PROJECT, "cases": ["cases/*.yaml"],
        "harness": {"kind": "directory", "root": ".", "include": ["instructions/*.md"]},
        "probe": {
            "kind": "worker", "command": [sys.executable, str(root / "agent.py"), str(root)],
            "concurrency": 4, "timeout_s": 20,
        },
        "gate": {"uses": 1, **gate},
    }  # fmt: skip
    (root / "tracemend.yaml").write_text(yaml.safe_dump(settings), "utf-8")


def write_cases(root: Path, listed: list[dict[str, Json]]) -> None:
    (root / "cases" / "all.yaml").write_text(yaml.safe_dump(listed, sort_keys=False), "utf-8")


def change_settings(root: Path, **sections: dict[str, Json]) -> None:
    """Change keys of sections of the settings."""
    file = root / "tracemend.yaml"
    settings = yaml.safe_load(file.read_text("utf-8"))
    for section, values in sections.items():
        settings[section] = {**settings[section], **values}
    file.write_text(yaml.safe_dump(settings), "utf-8")


def ready(
    ws: Workspace, added: str, *, thread: str = THREAD, others: Sequence[str] = ()
) -> Proposal:
    """A run that is about to plan: the ledger says that analysis and draft are done already."""
    proposal = draft_in(ws, added, thread=thread, others=others)
    request: JsonObject = {"kind": "improve", "finding": proposal.finding_id}
    ws.ledger.incidents.open(thread, kind="improve", key=thread, request=request, driver="local")
    done: dict[str, dict[str, Json]] = {
        "insights": {"next": "evolution", "finding": proposal.finding_id},
        "evolution:0": {"drafted": True, "proposal": proposal.id},
    }
    for step, written in done.items():
        ws.ledger.steps.once(thread, step, partial(_said, written))
    return proposal


def _said(written: dict[str, Json], _: Connection) -> dict[str, Json]:
    return written


def draft_in(ws: Workspace, added: str, *, thread: str, others: Sequence[str] = ()) -> Proposal:
    """A drafted revision that adds lines to the instructions, as evolution leaves it.

    `others`: what its alternatives add instead.
    """
    data = (ws.root / MAIN).read_bytes()
    before = HarnessSnapshot(files={MAIN: HarnessFile(data=data)})
    found = finding()
    proposal_id = ProposalId(content_id("p-", thread, found.id, "0"))
    which = Revising(id=proposal_id, revision=1, thread=thread, finding=found.id)
    drafts = [_drafted(data, one) for one in (added, *others)]
    afters = [apply_operations(before, draft.operations) for draft in drafts]
    checks = [checked(ws, before, *made, ()) for made in zip(afters, drafts, strict=True)]
    alternatives = [
        make_alternative(before, after, draft, checks=theirs, rejected=())
        for after, draft, theirs in zip(afters[1:], drafts[1:], checks[1:], strict=True)
    ]
    proposal = make_revision(
        ws, which, before, afters[0], drafts[0], checks=checks[0], rejected=(),
        alternatives=alternatives,
    )  # fmt: skip
    with ws.ledger.db.write() as tx:
        ws.ledger.knowledge.put_finding(tx, found)
        for snapshot in (before, *afters):
            ws.ledger.artifacts.put_snapshot(tx, snapshot)
        ws.ledger.proposals.insert(tx, proposal, state="drafting")
    return proposal


def _drafted(data: bytes, added: str) -> Draft:
    """The edit that adds these lines; nothing to add: that takes the last line out."""
    line = data.decode().splitlines()[-1]
    op: OperationName = "insert_after" if added else "remove"
    return Draft(
        operations=(Operation(op=op, path=MAIN, anchor=line, text=added),),
        why="It gives up too soon.", falsifier="It fails as before.", author="playbook:small",
    )  # fmt: skip


@asynccontextmanager
async def opened(
    home: Path,
    *,
    before: Callable[[Workspace], None] = lambda _: None,
    added: str = GOOD,
    others: Sequence[str] = (),
) -> AsyncIterator[Small]:
    """The graph on a project that `write_project` wrote, at the card of the edit `added`.

    `others`: what the alternatives on the card add.
    """
    ws = open_project(home, PROJECT)
    events: list[JsonObject] = []
    hooks: list[Say] = []

    def heard(event: JsonObject) -> None:
        events.append(event)
        for hook in hooks:
            hook(event)

    async with local_driver(home / "checkpoints.sqlite", ws.ledger) as driver:
        before(ws)
        service = Service(ws, driver, heard)
        proposal = ready(ws, added, others=others)
        await service.advance(THREAD)
        yield Small(
            ws=ws, driver=driver, service=service, proposal=proposal.id, events=events, hooks=hooks
        )
    ws.ledger.close()


def enter(root: Path) -> Path:
    """Enter the project into an installation of its own; its home."""
    home = root / ".tracemend"
    register(home, PROJECT, root)
    return home
