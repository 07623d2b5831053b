"""A finding, a proposal and its gate, as the tests of drafting and of the card use them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from connectors.review.card import EvidenceLine, ReviewCard, TrailEntry, build_card
from connectors.review.card_alternatives import SHORT_FOLD
from connectors.review.diff import FileDiff, total, unified
from contracts.findings import Diagnosis, Finding, FindingId, Remedy, Signature
from contracts.gate import CaseId, CaseOutcome, Claim, GatePlan, GateReport, PlannedCase
from contracts.harness import HarnessFile, HarnessSnapshot, Revision
from contracts.json_types import Json, JsonObject
from contracts.proposals import (
    Alternative,
    CardKind,
    DecisionId,
    Draft,
    Operation,
    Proposal,
    ProposalHash,
    ProposalId,
    Release,
    ReleaseId,
)
from contracts.traces import SpanId, TraceId
from nodes.evolution.alternatives import labelled, make_alternative
from nodes.evolution.edits import apply_operations, describe_files
from nodes.evolution.policy import check, risk_of

FIELDCASES = Path(__file__).parent / "data" / "fieldcases"
INCLUDE = ("instructions/*.md", "skills/**")
NOW = datetime(2026, 3, 10, 9, 30, tzinfo=UTC)
MAIN = """# Shop assistant

You help customers with orders.

## Tools

- Look an order up before you talk about it.
- Never promise a delivery date.
"""


def harness(**texts: str | bytes) -> HarnessSnapshot:
    """A harness with `instructions/main.md` (`main=`) and skills (`name=`); bytes stay as given."""
    files: dict[str, HarnessFile] = {}
    for name, text in texts.items():
        path = "instructions/main.md" if name == "main" else f"skills/{name}/SKILL.md"
        data = text if isinstance(text, bytes) else text.encode()
        files[path] = HarnessFile(data=data)
    return HarnessSnapshot(files=files)


def folder(root: Path) -> HarnessSnapshot:
    """All files under a folder."""
    return HarnessSnapshot(
        files={
            p.relative_to(root).as_posix(): HarnessFile(data=p.read_bytes())
            for p in sorted(root.rglob("*"))
            if p.is_file()
        }
    )


def edit(*operations: Operation, author: str = "playbook:tool-timeout-retry") -> Draft:
    return Draft(
        operations=operations, author=author,
        why="The agent gives up on the first answer; the edit bounds and orders the next calls.",
        falsifier="Repeated calls fail as often as first ones.",
    )  # fmt: skip


def replacing(path: str, anchor: str, text: str) -> Operation:
    return Operation(op="replace", path=path, anchor=anchor, text=text)


def inserting(path: str, anchor: str, text: str) -> Operation:
    return Operation(op="insert_after", path=path, anchor=anchor, text=text)


def skill_text(name: str, *lines: str, description: str = "Use when needed.") -> str:
    body = "\n".join(lines)
    return f"---\nname: {name}\ndescription: {description}\n---\n\n# {name}\n\n{body}\n"


def finding(
    cause: str = "tool_timeout",
    remedies: tuple[Remedy, ...] = ("skill", "instructions"),
    *,
    title: str = "payment_api answers 504",
    **parameters: Json,
) -> Finding:
    facts: JsonObject = parameters or {"tool": "payment_api", "status": "504"}
    return Finding(
        id=FindingId("f-3qk7m2xza4"), kind="tool_timeout",
        signature=Signature("tool_timeout:payment_api:504"), title=title,
        units=23, units_total=150, rate=(0.0997, 0.1533, 0.2211),
        baseline_units=0, baseline_total=148, change="new", p_holm=0.0000004,
        severity="high",
        diagnosis=Diagnosis(
            cause=cause, remedies=remedies, confidence=0.85,
            summary="payment_api is slow under load, and the agent gives up on the first answer.",
            falsifier="Second calls of payment_api fail as often as first ones.",
            parameters=facts,
        ),
        actionable=True, why_not=None,
        exemplars=(
            (TraceId("2f45be76294ecd679353d418613f2423"), SpanId("1aba10187bf024db")),
            (TraceId("58961b1d3f181aca998cece744c86406"), SpanId("d2988c055fcd2cbc")),
        ),
        first_seen=datetime(2026, 3, 9, 14, 2, tzinfo=UTC),
        last_seen=datetime(2026, 3, 10, 8, 57, tzinfo=UTC), score=1.5,
    )  # fmt: skip


RETRY = Operation(
    op="add_skill",
    path="skills/retry-payment-api/SKILL.md",
    text=skill_text(
        "retry-payment-api",
        "- If `payment_api` answers with status 504, call it again, at most 3 times.",
        "- When the last call has failed as well, say so plainly.",
        description="Use when payment_api answers with status 504.",
    ),
)


def proposal(
    before: HarnessSnapshot, draft: Draft, *, invariants: Sequence[str] = (), revision: int = 1
) -> tuple[Proposal, HarnessSnapshot]:
    """The proposal that the draft makes on a harness, with its real checks and risk."""
    after = apply_operations(before, draft.operations)
    checks = check(before, after, draft, include=INCLUDE, invariants=invariants)
    risk, reasons = risk_of(before, after, draft)
    lines = total([unified(p, *_sides(before, after, p)) for p in before.changed(after)])
    made = Proposal(
        id=ProposalId("p-4k7q2m6xza"), revision=revision, project="refunds", thread="t-1",
        finding_id=FindingId("f-3qk7m2xza4"), base_revision=before.revision,
        candidate_revision=after.revision, files=describe_files(before, after), draft=draft,
        checks=checks, risk=risk, risk_reasons=reasons, lines_added=lines.added,
        lines_removed=lines.removed, created_at=NOW,
    )  # fmt: skip
    return made, after


def _sides(
    before: HarnessSnapshot, after: HarnessSnapshot, path: str
) -> tuple[bytes | None, bytes | None]:
    old, new = before.files.get(path), after.files.get(path)
    return (old.data if old else None), (new.data if new else None)


def plan(base: str = "0" * 64, candidate: str = "1" * 64) -> GatePlan:
    return GatePlan(
        base=Revision(base), candidate=Revision(candidate),
        targets=tuple(_planned(f"c-target{n}", 5) for n in range(5)),
        sealed=tuple(_planned(f"c-sealed{n:02d}", 1) for n in range(64)),
        alpha=0.05, use=1, uses=1, margin_asked=0.10, margin=0.11, discordance=0.10,
        looks=((64, 0.05),), seed=20260310, max_runs=400, max_usd=5.0, max_seconds=1800,
        deadline_s=30, agent_model="offline/instruction-follower-1",
        notes=("L2 (does no harm): 64 sealed cases can prove a margin of 0.11 at power 0.80.",),
    )  # fmt: skip


def _planned(case: str, repeats: int) -> PlannedCase:
    return PlannedCase(case=CaseId(case), family=case, fingerprint="f" * 64, repeats=repeats)


def report() -> GateReport:
    """An inconclusive gate: fixed, but harm is not excluded."""
    return GateReport(
        verdict="inconclusive", reason="harm not excluded",
        claims=(
            Claim(name="L1", state="held", p=0.00002, level=0.05, detail="2 of 25, then 22 of 25"),
            Claim(name="L2", state="unknown", p=0.21, level=0.05, detail="3 better, 4 worse of 64"),
            Claim(name="G", state="not_asked", p=None, level=None, detail="no protected case"),
            Claim(name="K", state="held", p=None, level=None, detail="1.04, at most 1.12"),
        ),
        plan_hash="a" * 64, runs=178, planned_runs=178, target_passes=(2, 22, 25),
        sealed=(3, 4, 64), sealed_passes=(46, 45), sealed_interval=(-0.10, 0.07),
        proven_margin=0.13, cost_ratio=(1.04, 1.12), spent_usd=0.84,
        worse=("c-target3", "9f3c1d0a77b2"), needed="about 40 more sealed cases",
        cost_per_pass=(0.0041, 0.00426), latency_p95=(1.21, 1.34), spent_seconds=212.4,
        in_words=("Fixes the 5 known cases: 2 of 25 runs passed before, 22 of 25 after.",
                  "On 64 unseen cases only harm above 13 points can be excluded."),
        not_tested=("Cases unlike those in the sealed set.",),
        cases=(CaseOutcome(name="c-target3", phase="target", before=(2, 5), after=(1, 5),
                           state="worse"),),
    )  # fmt: skip


def release(before: str, after: str) -> Release:
    return Release(
        id=ReleaseId("r-2mzq6tq3da"), proposal=ProposalId("p-4k7q2m6xza"),
        proposal_hash=ProposalHash("c" * 64), decision_id=DecisionId("d-1"),
        target="directory:.", before=Revision(before), after=Revision(after), at=NOW,
    )  # fmt: skip


QUOTES = (
    EvidenceLine(
        trace_id="2f45be76294ecd679353d418613f2423", span_id="1aba10187bf024db",
        quote='payment_api: 504 Gateway Timeout {"order": "A-1042"}',
    ),
    EvidenceLine(
        trace_id="7b1f0f6c2f7be2c1a0f3f1d5a9c0e4b2", span_id="0c11aa22bb33dd44",
        quote="payment_api: refunded", failed=False,
    ),
)  # fmt: skip
TRAIL = (TrailEntry(at=NOW, who="tracemend", what="proposed r1 (playbook:tool-timeout-retry)"),)


def _alternative(base: HarnessSnapshot, draft: Draft) -> Alternative:
    after = apply_operations(base, draft.operations)
    checks = check(base, after, draft, include=INCLUDE, invariants=())
    return make_alternative(base, after, draft, checks=checks, rejected=())


def _short(base: HarnessSnapshot, draft: Draft) -> list[FileDiff]:
    after = apply_operations(base, draft.operations)
    paths = base.changed(after)
    return [unified(p, *_sides(base, after, p), fold=SHORT_FOLD) for p in paths]


def card(
    kind: CardKind = "approve",
    *,
    draft: Draft | None = None,
    before: HarnessSnapshot | None = None,
    about: Finding | None = None,
    evidence: Sequence[EvidenceLine] = QUOTES,
    trail: Sequence[TrailEntry] = TRAIL,
    warnings: Sequence[str] = (),
    others: Sequence[Draft] = (),
) -> ReviewCard:
    """A card of the kind, built from real operations, checks and diffs."""
    base = before or harness(main=MAIN)
    made, after = proposal(base, draft or edit(RETRY))
    made = replace(made, alternatives=labelled([_alternative(base, one) for one in others]))
    old, new = (after, base) if kind == "undo" else (base, after)
    diffs = [unified(p, *_sides(old, new, p)) for p in base.changed(after)]
    return build_card(
        kind=kind, proposal=made, finding=about or finding(), diffs=diffs,
        plan=plan(base.revision, after.revision),
        report=report() if kind == "override" else None,
        trail=trail, expires_at=datetime(2026, 3, 17, 9, 30, tzinfo=UTC), now=NOW,
        alternatives=[(one, _short(base, theirs))
                      for one, theirs in zip(made.alternatives, others, strict=True)],
        release=release(base.revision, after.revision) if kind == "undo" else None,
        evidence=evidence, warnings=warnings,
    )  # fmt: skip
