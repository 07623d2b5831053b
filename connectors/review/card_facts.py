"""The sections of a card that are labelled texts: why, counts, rollback, answers. Pure."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from connectors.review.clean import one_line
from connectors.review.diff import DiffStats, FileDiff
from connectors.review.gate_view import Fact
from contracts.findings import Finding
from contracts.proposals import REJECT_REASONS, CardKind, Draft, Proposal, Release


def size_words(diffs: Sequence[FileDiff], lines: DiffStats) -> str:
    """Which files an edit changes, and by how many lines."""
    files = f"{len(diffs)} file{'' if len(diffs) == 1 else 's'}"
    return f"{one_line(_target(diffs), 60)} · +{lines.added} -{lines.removed} in {files}"


def standing(kind: CardKind, release: Release | None) -> str:
    """What the card waits for."""
    if kind == "undo":
        return f"undo of {release.id}" if release is not None else "undo"
    return "waits for you" if kind == "approve" else "gate inconclusive"


def _target(diffs: Sequence[FileDiff]) -> str:
    paths = [d.path.removesuffix("/SKILL.md") for d in diffs]
    return paths[0] if len(paths) == 1 else f"{len(paths)} files"


def expires_words(left: timedelta) -> str:
    """How long it still waits."""
    seconds = int(left.total_seconds())
    if seconds <= 0:
        return "expired"
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"expires in {seconds // size} {name}"
    return "expires in less than a minute"


def question_of(kind: CardKind, release: Release | None) -> str:
    """What a yes means, on the card of this kind."""
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


def why_of(draft: Draft, finding: Finding, unit: str) -> tuple[Fact, ...]:
    """What was seen, its cause, and what the author of the edit says."""
    diagnosis = finding.diagnosis
    agreed = diagnosis.agreement
    by = f"{diagnosis.by}, confidence {diagnosis.confidence:.0%}" + (
        f", agreement {agreed:.0%}" if agreed is not None else ""
    )
    seen = f"{finding.title} ({finding.units} of {finding.units_total} {unit}s)"
    return (
        Fact(label="observed", text=one_line(seen, 300)),
        Fact(label="cause", text=one_line(f"{diagnosis.summary} ({diagnosis.cause}; {by})", 500)),
        Fact(label="edit", text=one_line(draft.why, 500)),
        *draft_facts(draft),
    )


def draft_facts(draft: Draft) -> Iterator[Fact]:
    """What the author says beside the reason."""
    author = draft.author if not draft.model_written else f"model-written by {draft.author}"
    if draft.evidence:
        yield Fact(label="rests on", text=one_line(", ".join(draft.evidence), 300))
    yield Fact(label="wrong if", text=one_line(draft.falsifier, 300))
    yield Fact(label="author", text=one_line(author, 100))
    yield from (Fact(label="note", text=one_line(note, 300)) for note in draft.notes)


def counts_of(finding: Finding, unit: str) -> tuple[Fact, ...]:
    """How often it fails, compared with before, and where it was seen."""
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


def rollback_of(kind: CardKind, proposal: Proposal, release: Release | None) -> tuple[Fact, ...]:
    """How the edit, or the undo, is taken back."""
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


def answers_of(
    kind: CardKind, proposal: Proposal, release: Release | None, people: int | None
) -> tuple[Fact, ...]:
    """What a person can say, how, and what silence means."""
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
        if proposal.alternatives:
            labels = " or ".join(one.label for one in proposal.alternatives)
            answers.append(
                Fact(label="pick", text=f"tracemend pick {proposal.id} LABEL --as NAME ({labels})")
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
