"""What a reviewer is shown, as one frozen value without any rendering.

Terminal, Markdown, web and the interrupt all show this object. Every text in it that comes from a
trace, a model or the harness is cleaned and redacted here, so that no skin can forget it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from connectors.review.clean import is_hidden, one_line, safe
from connectors.review.diff import DiffStats, FileDiff, FileStatus, total
from connectors.review.gate_view import (
    Fact,
    GateTable,
    cost_facts,
    plan_facts,
    plan_table,
    report_facts,
    report_table,
)
from contracts.findings import Finding
from contracts.gate import GatePlan, GateReport
from contracts.proposals import (
    REJECT_REASONS,
    CardKind,
    Check,
    Proposal,
    Release,
    Risk,
)

_KEY_BEGINS, _KEY_ENDS = "-----BEGIN", "-----END"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceLine:
    """A quote from one span. `failed` is False for the one that shows how it goes well."""

    trace_id: str
    span_id: str
    quote: str
    failed: bool = True
    link: str | None = None
    """Only to a configured trace host; never from trace text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailEntry:
    """Who did what to the proposal, and when."""

    at: datetime
    who: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileView:
    """One file's diff, safe to show. `added` and `removed` count the whole diff."""

    path: str
    status: FileStatus
    added: int | None
    """None: no lines to count, since a side is no text."""
    removed: int | None
    lines: tuple[str, ...]
    folded_added: int
    folded_removed: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewCard:
    """The view model of a card, in the order in which every skin shows it."""

    schema: Literal[1] = 1
    kind: CardKind
    proposal_id: str
    revision: int
    proposal_hash: str
    """What an answer binds to."""
    base_revision: str
    candidate_revision: str
    finding_id: str
    headline: str
    question: str
    why: tuple[Fact, ...]
    counts: tuple[Fact, ...]
    evidence: tuple[EvidenceLine, ...]
    files: tuple[FileView, ...]
    lines_added: int
    lines_removed: int
    warnings: tuple[str, ...]
    checks: tuple[Check, ...]
    gate_table: GateTable | None
    gate_facts: tuple[Fact, ...]
    cost: tuple[Fact, ...]
    risk: Risk
    risk_reasons: tuple[str, ...]
    rollback: tuple[Fact, ...]
    trail: tuple[TrailEntry, ...]
    answers: tuple[Fact, ...]
    expires_at: datetime | None
    built_at: datetime


def build_card(
    *,
    kind: CardKind,
    proposal: Proposal,
    finding: Finding,
    diffs: Sequence[FileDiff],
    plan: GatePlan | None,
    report: GateReport | None,
    sealed_shown: bool = False,
    trail: Sequence[TrailEntry],
    expires_at: datetime | None,
    now: datetime,
    release: Release | None = None,
    evidence: Sequence[EvidenceLine],
    unit: Literal["session", "trace"] = "trace",
    people: int | None = None,
    warnings: Sequence[str] = (),
) -> ReviewCard:
    """The card of one proposal revision.

    Args:
        kind: "approve" shows the gate's plan, "override" its report, "undo" what undoing changes.
        proposal: the revision that an answer binds to.
        finding: what the edit is for.
        diffs: what a yes would change; for an undo, from the released files back.
        plan: the approved part of the gate plan.
        report: what the gate found, once it ran.
        sealed_shown: whether sealed cases were opened for this card.
        trail: what happened so far, oldest first.
        expires_at: when the card counts as rejected.
        now: when the card is made.
        release: what is to be undone.
        evidence: quotes of failing spans, and of one that did not fail.
        unit: what the finding counts.
        warnings: what a person must know first, such as traces that were read in part.
        people: how many must approve; None: two where the risk is high, else one.
    """
    lines = total(diffs)
    ahead = None if kind == "undo" else plan
    return ReviewCard(
        kind=kind,
        proposal_id=proposal.id,
        revision=proposal.revision,
        proposal_hash=proposal.hash,
        base_revision=proposal.base_revision,
        candidate_revision=proposal.candidate_revision,
        finding_id=finding.id,
        headline=" · ".join(
            [
                f"{proposal.id} r{proposal.revision}",
                _size(diffs, lines),
                f"risk {proposal.risk}",
                _standing(kind, release),
                *([] if expires_at is None else [_expires(expires_at - now)]),
            ]
        ),
        question=_question(kind, release),
        why=_why(proposal, finding, unit),
        counts=_counts(finding, unit),
        evidence=tuple(map(_safe_evidence, evidence)),
        files=tuple(map(_file_view, diffs)),
        lines_added=lines.added,
        lines_removed=lines.removed,
        warnings=(*(one_line(warning, 300) for warning in warnings), *_warnings(diffs)),
        checks=tuple(map(_safe_check, proposal.checks)),
        gate_table=(
            report_table(plan, report) if report else plan_table(ahead) if ahead else None
        ),
        gate_facts=(
            report_facts(report, sealed_shown=sealed_shown, plan=plan) if report
            else plan_facts(ahead, sealed_shown=sealed_shown) if ahead else ()
        ),
        cost=cost_facts(report) if report else (),
        risk=proposal.risk,
        risk_reasons=tuple(one_line(reason, 300) for reason in proposal.risk_reasons),
        rollback=_rollback(kind, proposal, release),
        trail=tuple(
            TrailEntry(at=t.at, who=one_line(t.who), what=one_line(t.what, 300)) for t in trail
        ),
        answers=_answers(kind, proposal, release, people),
        expires_at=expires_at,
        built_at=now,
    )  # fmt: skip


def _size(diffs: Sequence[FileDiff], lines: DiffStats) -> str:
    files = f"{len(diffs)} file{'' if len(diffs) == 1 else 's'}"
    return f"{one_line(_target(diffs), 60)} · +{lines.added} -{lines.removed} in {files}"


def _standing(kind: CardKind, release: Release | None) -> str:
    if kind == "undo":
        return f"undo of {release.id}" if release is not None else "undo"
    return "waits for you" if kind == "approve" else "gate inconclusive"


def _target(diffs: Sequence[FileDiff]) -> str:
    paths = [d.path.removesuffix("/SKILL.md") for d in diffs]
    return paths[0] if len(paths) == 1 else f"{len(paths)} files"


def _expires(left: timedelta) -> str:
    seconds = int(left.total_seconds())
    if seconds <= 0:
        return "expired"
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"expires in {seconds // size} {name}"
    return "expires in less than a minute"


def _question(kind: CardKind, release: Release | None) -> str:
    if kind == "override":
        return (
            "The gate could not prove this edit. Apply it all the same? "
            "A yes here overrides the gate and is recorded as that."
        )
    if kind == "undo":
        which = f" {release.id}" if release is not None else ""
        return f"Undo release{which}? A yes puts the exact bytes back that were there before it."
    return (
        "May the gate test this edit, and apply it if it accepts? Nothing is changed before that."
    )


def _why(proposal: Proposal, finding: Finding, unit: str) -> tuple[Fact, ...]:
    diagnosis, draft = finding.diagnosis, proposal.draft
    agreed = diagnosis.agreement
    by = f"{diagnosis.by}, confidence {diagnosis.confidence:.0%}" + (
        f", agreement {agreed:.0%}" if agreed is not None else ""
    )
    author = draft.author if not draft.model_written else f"model-written by {draft.author}"
    seen = f"{finding.title} ({finding.units} of {finding.units_total} {unit}s)"
    return (
        Fact(label="observed", text=one_line(seen, 300)),
        Fact(label="cause", text=one_line(f"{diagnosis.summary} ({diagnosis.cause}; {by})", 500)),
        Fact(label="edit", text=one_line(draft.why, 500)),
        Fact(label="wrong if", text=one_line(draft.falsifier, 300)),
        Fact(label="author", text=one_line(author, 100)),
    )


def _counts(finding: Finding, unit: str) -> tuple[Fact, ...]:
    low, middle, high = finding.rate
    failing = (
        f"{finding.units} of {finding.units_total} {unit}s: {middle:.1%}, "
        f"95 % interval {low:.1%} to {high:.1%}"
    )
    if finding.baseline_units is None or finding.baseline_total is None:
        before = "no window before this one to compare with"
    else:
        before = f"{finding.baseline_units} of {finding.baseline_total} {unit}s before"
    p = "" if finding.p_holm is None else f", p {_p(finding.p_holm)} (exact, Holm)"
    ids = ", ".join(f"{trace}/{span}" for trace, span in finding.exemplars[:5])
    return (
        Fact(label="failing", text=failing),
        Fact(label="compared", text=f"{finding.change}: {before}{p}"),
        Fact(label="signature", text=one_line(f"{finding.signature}, {finding.severity}")),
        Fact(label="seen", text=f"{_time(finding.first_seen)} to {_time(finding.last_seen)}"),
        Fact(label="traces", text=one_line(ids, 400) or "none kept"),
    )


def _p(value: float) -> str:
    return "< .001" if value < 0.001 else f"{value:.3f}"


def _time(at: datetime | None) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%SZ") if at else "unknown"


def _safe_check(check: Check) -> Check:
    return Check(rule=check.rule, ok=check.ok, detail=one_line(check.detail, 500))


def _safe_evidence(line: EvidenceLine) -> EvidenceLine:
    link = line.link if line.link and not any(is_hidden(c) or c == " " for c in line.link) else None
    return EvidenceLine(
        trace_id=one_line(line.trace_id), span_id=one_line(line.span_id),
        quote=one_line(line.quote, 240), failed=line.failed, link=link,
    )  # fmt: skip


def _file_view(diff: FileDiff) -> FileView:
    return FileView(
        path=one_line(diff.path, 300), status=diff.status,
        added=diff.stats.added if diff.stats else None,
        removed=diff.stats.removed if diff.stats else None,
        lines=_safe_lines(diff.lines),
        folded_added=diff.folded.added, folded_removed=diff.folded.removed,
        notes=tuple(one_line(note) for note in diff.notes),
    )  # fmt: skip


def _safe_lines(lines: Sequence[str]) -> tuple[str, ...]:
    """Safe diff lines; a private key spans several and is masked as a whole, sign by sign."""
    shown: list[str] = []
    inside = False
    for line in lines:
        begins = _KEY_BEGINS in line and "PRIVATE KEY" in line
        inside = inside or begins
        shown.append(f"{line[:1]}[private key]" if inside else safe(line))
        inside = inside and _KEY_ENDS not in line
    return tuple(shown)


def _warnings(diffs: Sequence[FileDiff]) -> tuple[str, ...]:
    found: list[str] = []
    for diff in diffs:
        texts = [line[1:].removeprefix("\ufeff") for line in diff.lines]
        hidden = sorted({c for text in (*texts, diff.path) for c in text if is_hidden(c)})
        if hidden:
            codes = ", ".join(f"U+{ord(c):04X}" for c in hidden)
            found.append(f"{one_line(diff.path)} holds hidden characters, marked here: {codes}")
    return tuple(found)


def _rollback(kind: CardKind, proposal: Proposal, release: Release | None) -> tuple[Fact, ...]:
    if kind == "undo" and release is not None:
        return (
            Fact(label="release", text=f"{release.id}, applied {_time(release.at)}"),
            Fact(label="back to", text=f"revision {release.before[:12]} from {release.after[:12]}"),
            Fact(label="refused if", text="a file is no longer what the release wrote"),
        )
    return (
        Fact(label="base", text=f"revision {proposal.base_revision[:12]}; nothing changed so far"),
        Fact(
            label="undo",
            text="tracemend undo RELEASE restores these bytes; applying prints the release id",
        ),
        Fact(label="on harm", text="nothing is undone by itself; the command above takes it back"),
    )


def _answers(
    kind: CardKind, proposal: Proposal, release: Release | None, people: int | None
) -> tuple[Fact, ...]:
    if kind == "undo" and release is not None:
        return (
            Fact(label="yes", text=f"tracemend undo {release.id} --as NAME"),
            Fact(label="no", text="leave it: the release stays, and this card expires as a no"),
        )
    answers = [
        Fact(label="yes", text=f"tracemend approve {proposal.id} --as NAME"),
        Fact(label="no", text=f"tracemend reject {proposal.id} --as NAME --reason REASON"),
        Fact(label="reasons", text=", ".join(REJECT_REASONS)),
    ]
    if kind == "approve":
        answers.append(
            Fact(label="edit", text=f"new text becomes r{proposal.revision + 1}, with its own card")
        )
    binds = f"this revision only, hash {proposal.hash[:12]}"
    answers.append(Fact(label="binds to", text=binds))
    needed = people or (2 if proposal.risk == "high" else 1)
    if proposal.risk != "low" or needed > 1:
        who = "two signed-in people" if needed > 1 else "a signed-in person"
        answers.append(
            Fact(label="who", text=f"risk {proposal.risk}: {who}, not who wrote the text")
        )
    answers.append(Fact(label="silence", text="no answer is never a yes; it expires as a no"))
    return tuple(answers)
