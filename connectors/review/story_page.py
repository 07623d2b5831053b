"""A story as sections of facts, in the order in which every skin shows them. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from connectors.review.card import EvidenceLine
from connectors.review.card_files import FileView
from connectors.review.gate_view import Fact, GateTable, usd
from connectors.review.story import (
    CostPart,
    DecisionPart,
    GatePart,
    ReleasePart,
    RevisionPart,
    Story,
    TargetPart,
    WatchPart,
)
from contracts.proposals import CardKind, DecisionType

_CARDS: dict[CardKind, str] = {
    "approve": "", "override": " over the gate's verdict", "undo": ", to take it back",
}  # fmt: skip
_VERBS: dict[DecisionType, str] = {
    "approve": "approved", "reject": "rejected", "edit": "edited", "expired": "let expire",
}  # fmt: skip
_SAW = {
    "fell": "the rate fell",
    "not_fallen": "the rate did not fall",
    "too_few": "too few to tell",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One part of the page."""

    title: str
    facts: tuple[Fact, ...] = ()
    quotes: tuple[EvidenceLine, ...] = ()
    """Trace text: a skin shows it so that nothing in it is read as markup."""
    table: GateTable | None = None
    details: tuple[Fact, ...] = field(default=())
    """What is folded away where a skin can."""
    folded: str = ""
    """What the details are, for the fold."""
    files: tuple[FileView, ...] = ()


def sections(story: Story) -> Iterator[Section]:
    """The page, alert first."""
    yield Section(title="Alert", facts=tuple(_alert(story)))
    yield Section(title="Finding", facts=tuple(_finding(story)))
    if story.evidence:
        yield Section(title="Evidence", quotes=story.evidence)
    yield Section(title="Diagnosis", facts=tuple(_diagnosis(story)))
    yield Section(title="Drafts", facts=tuple(_drafts(story)))
    title = f"Change: {story.lines_added} added, {story.lines_removed} removed"
    yield Section(title=title, facts=tuple(_warnings(story)), files=story.files)
    yield _policy(story)
    yield Section(title="Decisions", facts=tuple(_decisions(story)))
    yield _gate(story.gate)
    yield Section(title="Applied", facts=tuple(_applied(story)))
    yield Section(title="Since then", facts=tuple(_since(story)))
    yield Section(title="Cost", facts=tuple(_cost(story.cost)))


def _alert(story: Story) -> Iterator[Fact]:
    alert = story.alert
    if alert.kind == "alert":
        yield Fact(label="from", text=alert.source or "unknown")
        yield Fact(label="fired", text=alert.what or "its sender gave no title")
        yield Fact(label="deliveries", text=str(alert.fired) if alert.fired else "not counted")
    else:
        yield Fact(label="from", text=f"a person or a schedule ({alert.kind})")
    yield Fact(label="run", text=f"{time(alert.at)}, thread {alert.thread}")
    if alert.window is not None:
        yield Fact(label="window", text=f"{time(alert.window[0])} to {time(alert.window[1])}")
    if alert.recovered_at is not None:
        yield Fact(label="recovered", text=f"{time(alert.recovered_at)}, by its sender's word")


def _finding(story: Story) -> Iterator[Fact]:
    finding = story.finding
    yield Fact(label="finding", text=f"{finding.id}: {finding.title}")
    yield from finding.counted
    yield Fact(label="stands", text=f"{finding.state} now")


def _diagnosis(story: Story) -> Iterator[Fact]:
    found = story.diagnosis
    agreed = "" if found.agreement is None else f", agreement {found.agreement:.0%}"
    yield Fact(label="cause", text=f"{found.cause}: {found.summary}")
    yield Fact(label="sure", text=f"{found.by}, confidence {found.confidence:.0%}{agreed}")
    yield Fact(label="remedy", text=found.remedy)
    yield Fact(label="wrong if", text=found.falsifier)


def _drafts(story: Story) -> Iterator[Fact]:
    for one in story.revisions:
        yield from _draft(one)


def _draft(one: RevisionPart) -> Iterator[Fact]:
    by = f"model-written by {one.author}" if one.model_written else one.author
    size = f"+{one.lines_added} -{one.lines_removed}"
    yield Fact(
        label=f"r{one.revision}",
        text=f"{time(one.at)} by {by}, {size}, hash {one.hash[:12]}: {one.why}",
    )
    yield Fact(label="wrong if", text=one.falsifier)
    if one.evidence:
        yield Fact(label="rests on", text=", ".join(one.evidence))
    for note in one.notes:
        yield Fact(label="note", text=note)
    for other in one.alternatives:
        yield Fact(label=f"beside it {other.label}", text=f"by {other.author}: {other.why}")


def _warnings(story: Story) -> Iterator[Fact]:
    for warning in story.warnings:
        yield Fact(label="warning", text=warning)


def _policy(story: Story) -> Section:
    held = [check for check in story.checks if check.ok]
    facts = [Fact(label="rules", text=f"{len(held)} of {len(story.checks)} hold")]
    facts += [
        Fact(label=f"NOT OK {check.rule}", text=check.detail)
        for check in story.checks
        if not check.ok
    ]
    facts += [Fact(label=f"risk {story.risk}", text=reason) for reason in story.risk_reasons]
    return Section(
        title=f"Policy and risk: {story.risk}", facts=tuple(facts), folded="rules that hold",
        details=tuple(Fact(label=f"ok {check.rule}", text=check.detail) for check in held),
    )  # fmt: skip


def _decisions(story: Story) -> Iterator[Fact]:
    for one in story.decisions:
        yield Fact(label=time(one.at), text=_decision(one))
    if not story.decisions:
        yield Fact(label="none", text="nobody decided on it")
    for remark in story.remarks:
        yield Fact(label=time(remark.at.isoformat()), text=f"{remark.who} {remark.what}")


def _decision(one: DecisionPart) -> str:
    seat = f", seat {one.seat}" if one.seat > 1 else ""
    why = "".join(f"; {said}" for said in (one.reason, one.note) if said)
    said = f"{one.by} {_VERBS[one.type]} r{one.revision}{_CARDS[one.card]}"
    return f"{said} ({one.via}{seat}){why}"


def _gate(gate: GatePart | None) -> Section:
    if gate is None:
        said = Fact(label="none", text="no gate reached a verdict on it")
        return Section(title="Gate", facts=(said,))
    over = f"; overridden by {gate.overridden_by}" if gate.overridden_by else ""
    facts = [Fact(label="verdict", text=f"{gate.verdict}: {gate.reason}{over}")]
    facts += [Fact(label="shown", text=said) for said in gate.in_words]
    facts += [
        Fact(
            label="runs",
            text=f"{gate.runs} of {gate.planned_runs} planned, {usd(gate.spent_usd)}",
        ),
        Fact(label="report", text=gate.report_hash),
    ]
    rest = tuple(one for one in gate.facts if one.label not in ("verdict", "shown"))
    return Section(
        title="Gate", facts=tuple(facts), table=gate.table, details=rest,
        folded="what was tested, and how",
    )  # fmt: skip


def _applied(story: Story) -> Iterator[Fact]:
    if story.release is None:
        yield Fact(label="not applied", text=story.outcome)
    else:
        yield from _release("release", story.release)
    for one in story.targets:
        yield Fact(label=f"{one.kind} {one.state}", text=_target(one))
    if story.undo is not None:
        yield from _release("taken back", story.undo)


def _release(label: str, one: ReleasePart) -> Iterator[Fact]:
    who = " and ".join(one.by) or "unknown"
    yield Fact(label=label, text=f"{one.id}, {time(one.at)}, allowed by {who}")
    yield Fact(label="revision", text=f"{one.before[:12]} to {one.after[:12]}")
    if one.audit_head is not None:
        entry = "no entry of the log" if one.audit_seq is None else f"entry {one.audit_seq}"
        yield Fact(label="audit head", text=f"{one.audit_head} ({entry})")


def _target(one: TargetPart) -> str:
    origin = f", {one.origin}" if one.origin else ""
    reason = f": {one.reason}" if one.reason else ""
    return f"{one.target}{origin}, {one.before[:12]} to {one.after[:12]}{reason}"


def _since(story: Story) -> Iterator[Fact]:
    for one in story.watched:
        yield Fact(label=time(one.at), text=_watched(one))
    if not story.watched and story.release is not None:
        yield Fact(label="watch", text="nobody has looked at production since")
    for lesson in story.lessons:
        yield Fact(label="lesson", text=f"{lesson.id}, {time(lesson.at)}: {lesson.outcome}")
    if not story.lessons:
        yield Fact(label="lesson", text="none kept yet")


def _watched(one: WatchPart) -> str:
    before, after = (f"{bad} of {of} {one.unit}s" for bad, of in (one.before, one.after))
    return f"{_SAW.get(one.watched, one.watched)}: {before} before, {after} after. {one.note}"


def _cost(cost: CostPart) -> Iterator[Fact]:
    if cost.model_calls:
        calls = f"{cost.model_calls} calls, {cost.tokens:,} tokens, {usd(cost.models_usd)}"
    else:
        calls = "no model was asked"
    yield Fact(label="models", text=calls)
    if cost.gate_runs is not None:
        yield Fact(label="gate", text=f"{cost.gate_runs} runs of the agent, {usd(cost.gate_usd)}")
    yield Fact(label="together", text=usd(cost.total_usd))


def time(at: str | None) -> str:
    """An RFC 3339 time to the minute, in UTC as it is kept."""
    return "unknown" if at is None else f"{at[:10]} {at[11:16]}Z"
