"""Edits whose verdict is known, on the example agent: through the card, the gate, and to the end.

The drafted edit stands for the good one. A person writes the other two on its card. Each gate is
then run on as if no stop had come early: the same verdict, for more runs.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

import pytest
import yaml

from contracts.codec import from_json
from contracts.gate import Block, GatePlan, GateReport, Graded
from contracts.json_types import JsonObject
from graph.drive import local_driver
from graph.service import Service
from memory.workspace import Workspace, open_project
from nodes.casebook import read_casebook
from nodes.decide import Person
from nodes.gate.run_one import run_one
from nodes.gate.schedule import _to_run
from nodes.gate.sizes import planned_runs
from nodes.gate.tally import Place, places_of, tally
from nodes.gate.verdict import report
from nodes.ports import open_probe
from tests.story.worlds import PROJECT, Waiting

pytestmark = [pytest.mark.story, pytest.mark.servers]

ANN = Person(name="ann", via="cli", authenticated=True)
Change = Literal["none", "harm", "little harm", "dear"]
FORBIDDEN: Mapping[Change, tuple[str, ...]] = {
    "harm": ("create_return_label", "shipping_status", "loyalty_points"),
    "little harm": ("create_return_label",),
}
DEAR = """
- Call `shipping_status` before `get_order`.
- Call `create_return_label` before `payment_api`.
- Call `verify_address` before `create_return_label`.
"""
LABEL = {
    "id": "c-label",
    "input": {"message": "A return label for A-9335, please.", "customer": "C-5624"},
    "tags": ["critical"], "assert": [{"tool_called": {"name": "create_return_label"}}],
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A gate that was decided, and what the rest of its plan would have said."""

    ws: Workspace
    report: GateReport
    plan: GatePlan
    state: str
    whole: GateReport
    """On every planned block."""

    @property
    def saved(self) -> str:
        """Runs of the whole plan and of the gate, for people who read the log of a test."""
        return f"{self.report.runs} of {planned_runs(self.plan)} planned runs"


@asynccontextmanager
async def _tested(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch, change: Change | None
) -> AsyncIterator[Decided]:
    """Approve the card, edited first where a `change` is planted, and run its plan to the end."""
    home = waiting.world.root / ".tracemend"
    monkeypatch.setenv("TRACEMEND_HOME", str(home))
    ws = open_project(home, PROJECT)
    async with local_driver(home / "checkpoints.sqlite", ws.ledger) as driver:
        service = Service(ws, driver)
        if change is not None:
            edited = await service.decide(waiting.proposal, _edit(ws, waiting, change), ANN)
            assert (edited.state, edited.proposal.revision) == ("waiting", 2), edited
        outcome = await service.decide(waiting.proposal, {"type": "approve"}, ANN)
        assert outcome.report is not None
        proposal = ws.ledger.proposals.latest(waiting.proposal).proposal
        plan = from_json(GatePlan, proposal.plan)
        blocks = ws.ledger.gate.blocks(proposal.hash)
        whole = report(plan, [*blocks, *await _rest(ws, plan, blocks)])
        yield Decided(ws=ws, report=outcome.report[0], plan=plan, state=outcome.state, whole=whole)
    ws.ledger.close()


def _edit(ws: Workspace, waiting: Waiting, change: Change) -> JsonObject:
    latest = ws.ledger.proposals.latest(waiting.proposal).proposal
    card = ws.ledger.proposals.card(latest.id, latest.revision, "approve")
    assert card is not None
    payload: Any = card.payload
    args = dict(payload["action_requests"][0]["args"])
    key = next(key for key in args if key.startswith("text:skills/"))
    head, _, _ = str(args[key]).partition("\n# ")
    kept = f"{head}\n# Payments\n\n- A payment takes a moment. Stay friendly.\n"
    harm = "".join(f"\n- Never use `{tool}`.\n" for tool in FORBIDDEN.get(change, ()))
    harm += DEAR if change == "dear" else ""
    args[key] = kept if change == "none" else str(args[key]) + harm
    return {"type": "edit", "edited_action": {"name": "apply_proposal", "args": args}}


async def _rest(ws: Workspace, plan: GatePlan, stored: Sequence[Block]) -> list[Block]:
    """The blocks of targets and sealed cases that an early stop left out."""
    counted = tally(plan, stored)
    cases = {case.id: case for case in read_casebook(ws).cases}
    cases |= {case.id: case for _, _, case in ws.ledger.knowledge.mined()}
    arms = {
        "B": ws.ledger.artifacts.snapshot(plan.base),
        "C": ws.ledger.artifacts.snapshot(plan.candidate),
    }
    found = []
    async with open_probe(ws) as probe:

        async def run(place: Place, arm: str, seed: int) -> Graded:
            case = cases[place.case.case]
            return await run_one(ws, probe, case, arms[arm], seed=seed, deadline_s=plan.deadline_s)

        for phase in ("target", "sealed"):
            for place in counted.open(tuple(places_of(plan, phase))):
                todo = _to_run(counted, place)
                runs = {arm: await run(place, arm, todo.seed) for arm in todo.arms}
                found.append(
                    Block(
                        phase=todo.phase, case=todo.case, index=todo.index, attempt=todo.attempt,
                        first=todo.first, baseline=runs["B"], candidate=runs["C"],
                    )
                )  # fmt: skip
    return found


async def test_the_good_edit_is_accepted_for_fewer_runs_than_planned(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _tested(waiting, monkeypatch, None) as gate:
        assert gate.report.verdict == gate.whole.verdict == "accept", gate.report.reason
        assert gate.report.runs < planned_runs(gate.plan), gate.saved
        print("good:", gate.saved)  # noqa: T201  # a figure of docs/gate.md


async def test_an_edit_without_effect_stops_after_half_the_rounds(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = waiting.world.harness()
    async with _tested(waiting, monkeypatch, "none") as gate:
        assert (gate.report.verdict, gate.report.reason) == ("inconclusive", "not fixed")
        assert gate.whole.verdict == "inconclusive"
        rounds = max(case.repeats for case in gate.plan.targets)
        assert gate.report.runs <= 2 * len(gate.plan.targets) * (rounds // 2 + 1), gate.saved
        assert gate.report.sealed == (0, 0, 0), "no use of the sealed set is spent"
        print("no effect:", gate.saved)  # noqa: T201
    assert waiting.world.harness() == before


async def test_an_edit_that_breaks_ordinary_requests_is_not_accepted_and_says_why(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It mends the payments, and forbids three tools that other requests need."""
    before = waiting.world.harness()
    async with _tested(waiting, monkeypatch, "harm") as gate:
        for found in (gate.report, gate.whole):
            assert found.verdict in ("reject", "inconclusive"), found.reason
            assert found.reason.startswith("harm "), found.reason
        assert {c.name: c.state for c in gate.report.claims}["L1"] == "held"
        lost = gate.report.sealed[1]
        assert lost >= 5
        assert len([name for name in gate.report.worse if len(name) == 64]) == lost
        assert gate.report.in_words
        print("harmful:", gate.report.verdict, gate.saved)  # noqa: T201
    assert waiting.world.harness() == before


async def test_harm_below_the_margin_is_rejected_where_a_critical_case_sees_it(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of 34 sealed requests need a label: less than so few cases can exclude."""
    before = waiting.world.harness()
    file = waiting.world.root / "cases" / "critical.yaml"
    file.write_text(yaml.safe_dump([LABEL]), "utf-8")
    async with _tested(waiting, monkeypatch, "little harm") as gate:
        assert gate.report.verdict == "reject", gate.report.reason
        assert "critical" in gate.report.reason
        failed = [one.name for one in gate.report.cases if one.state == "failed"]
        assert failed == ["c-label"]
        assert {c.name: c.state for c in gate.report.claims}["L2"] == "held"
        print("harmful, critical:", gate.saved)  # noqa: T201
    assert waiting.world.harness() == before


async def test_an_edit_that_mends_but_makes_every_run_dearer_is_rejected(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It mends the payments, and asks three more tools on the way."""
    before = waiting.world.harness()
    async with _tested(waiting, monkeypatch, "dear") as gate:
        assert (gate.report.verdict, gate.whole.verdict) == ("reject", "reject")
        assert gate.report.reason.startswith("cost above what is allowed"), gate.report.reason
        assert {c.name: c.state for c in gate.report.claims}["L1"] == "held"
        assert any("times at least" in said for said in gate.report.in_words)
        print("dear:", gate.saved)  # noqa: T201
    assert waiting.world.harness() == before
