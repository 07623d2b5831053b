"""The lines of a harness file with the release that put each there.

What is told of a release is made of the ledger; the target is only asked for the bytes of now.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from connectors.review.clean import one_line, safe_lines
from contracts.errors import TracemendError, UsageError
from contracts.harness import HarnessSnapshot, Revision
from contracts.proposals import CardKind, Decision, Proposal, Release, ReleaseId
from memory.attribution import Listing, file_bytes, listings
from memory.inbox import decisions_on
from memory.workspace import Workspace
from nodes.attribution.blame import Line, Step, blame
from nodes.ports import open_harness

Source = Literal["target", "ledger"]
"""Where the file's lines are from: the target as it is now, or what a release left."""

By = Literal["release", "hand", "before"]
"""Who put a line there. "hand": somebody did after some release; "before": it was there before the
first release, which Tracemend saw and did not write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine:
    """One line, safe to show."""

    number: int
    """From 1."""
    text: str
    by: By
    release: ReleaseId | None
    """What put it there; None: no release did."""
    restored_by: ReleaseId | None
    """The undo that brought it back."""
    newer_than: ReleaseId | None
    """Of a line by hand: the release after which it came."""
    seen_by: ReleaseId | None
    """Of a line that no release put there: the release that saw it first; None: none has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseNote:
    """What a reader of lines asks of a release."""

    id: ReleaseId
    at: str
    """RFC 3339 UTC."""
    approvers: tuple[str, ...]
    """By seat; who overrode the gate comes last."""
    via: str | None
    proposal: str
    revision: int | None
    finding: str | None
    title: str | None
    author: str | None
    """Who drafted the text."""
    verdict: str | None
    """Of the gate; None: nothing was tested (an undo)."""
    overridden: bool
    """A person applied it although the gate did not accept."""
    report_hash: str | None
    origin: str | None
    """What the target calls the state that the release left: a commit, a version of a prompt."""
    undoes: ReleaseId | None
    undone_by: ReleaseId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A file's lines and the releases that they name."""

    project: str
    file: str
    source: Source
    as_of: ReleaseId | None
    """The release after which the lines are shown; None: as they are now."""
    lines: tuple[HistoryLine, ...]
    releases: Mapping[str, ReleaseNote]
    """By id; those that some line names."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The harness as it is now, or why it could not be read."""

    now: HarnessSnapshot | None
    problem: str | None = None


async def read_target(ws: Workspace) -> Target:
    """The files of now; a target that cannot be reached is said and is no error here."""
    try:
        return Target(now=await open_harness(ws).read())
    except TracemendError as error:
        return Target(now=None, problem=one_line(str(error), 200))


def history_of(
    ws: Workspace, file: str, target: Target | None, *, at: str | None = None
) -> History:
    """Every line of a file with where it comes from.

    Args:
        ws: the project.
        file: its path as the harness names it.
        target: the files of now; None where `at` is given: the target is not asked.
        at: the release after which the file is looked at; None: as it is now.

    Raises:
        UsageError: no such file or release; the message names the nearest known path.
    """
    releases = _up_to(ws, at)
    kept = listings(ws.ledger.db, _revisions(releases))
    now = target.now if target is not None else None
    path = _known(file, releases, kept, target, at=at)
    steps, gaps = _steps(ws, path, releases, kept)
    notes = [*gaps, *_unreached(target, releases)]
    left = steps[-1].after if steps else None
    lines = blame(steps, now.files[path].data if now is not None else left)
    shown = safe_lines([line.text for line in lines])
    told = [
        _line(n, text, line) for n, (text, line) in enumerate(zip(shown, lines, strict=True), 1)
    ]
    named = {
        which
        for line in told
        for which in (line.release, line.restored_by, line.newer_than, line.seen_by)
        if which is not None
    }
    from_ledger, owner = now is None, _owner(ws, path)
    return History(
        project=ws.project, file=one_line(path, 400), source="ledger" if from_ledger else "target",
        as_of=releases[-1].id if from_ledger and releases else None, lines=tuple(told),
        releases={one.id: release_note(ws, one, owner) for one in releases if one.id in named},
        notes=tuple(notes),
    )  # fmt: skip


def release_note(ws: Workspace, release: Release, target: str | None = None) -> ReleaseNote:
    """Who approved a release, for what, and how its gate went; texts are safe to show.

    Args:
        ws: the project.
        release: which.
        target: the target whose `origin` is told; None: of all targets.
    """
    stored = ws.ledger.proposals.by_hash(release.proposal_hash)
    proposal = stored.proposal if stored is not None else None
    said = said_yes(ws, release)
    report = None if release.undoes else ws.ledger.gate.report(release.proposal_hash)
    verdict = report[0].verdict if report is not None else None
    return ReleaseNote(
        id=release.id, at=release.at.isoformat().replace("+00:00", "Z"),
        approvers=tuple(dict.fromkeys(one_line(one.by, 60) for one in said)),
        via=said[-1].via if said else None,
        proposal=release.proposal, revision=proposal.revision if proposal else None,
        finding=proposal.finding_id if proposal else None, title=_title(ws, proposal),
        author=one_line(proposal.draft.author, 80) if proposal else None, verdict=verdict,
        overridden=verdict is not None and verdict != "accept",
        report_hash=report[1] if report is not None else None,
        origin=_origin(release, target), undoes=release.undoes, undone_by=release.undone_by,
    )  # fmt: skip


def said_yes(ws: Workspace, release: Release) -> list[Decision]:
    """The approvals that allowed a release, oldest first."""
    if release.undoes is not None:
        bound: dict[CardKind, str | None] = {"undo": release.undoes}
    else:
        report = ws.ledger.gate.report(release.proposal_hash)
        bound = {"approve": None, "override": report[1] if report is not None else ""}
    return [
        one
        for one in decisions_on(ws.ledger.db, release.proposal)
        if one.type == "approve"
        and one.card in bound
        and one.proposal_hash == release.proposal_hash
        and bound[one.card] in (None, one.binds)
    ]


def _up_to(ws: Workspace, at: str | None) -> list[Release]:
    """The releases of the harness, oldest first, up to one.

    Raises:
        UsageError: this project has no such release.
    """
    releases = ws.ledger.effects.releases()
    if at is None:
        return releases
    last = ws.ledger.effects.release(at).id
    return releases[: [one.id for one in releases].index(last) + 1]


def _revisions(releases: Sequence[Release]) -> set[Revision]:
    return {revision for one in releases for revision in (one.before, one.after)}


def _known(
    file: str,
    releases: Sequence[Release],
    kept: Mapping[Revision, Listing],
    target: Target | None,
    *,
    at: str | None,
) -> str:
    """The path of a file that is there.

    Raises:
        UsageError: it is not; the message says what is nearest, or when it went away.
    """
    path = str(PurePosixPath(file))
    now = target.now if target is not None else None
    last = kept.get(releases[-1].after, {}) if releases else {}
    there = set(now.files) if now is not None else set(last)
    if path in there:
        return path
    when = f"after release {at}" if at is not None else "now"
    ever = [one for one in releases if path in kept.get(one.after, {})]
    if ever:
        raise UsageError(
            f"{one_line(path)}: not in the harness {when}; {ever[-1].id} was the last release with "
            f"it: `tracemend history {one_line(path)} --at {ever[-1].id}`"
        )
    if not there:
        why = target.problem if target is not None and target.problem else "no release was made yet"
        raise UsageError(f"{one_line(path)}: the harness is not known: {why}")
    near = difflib.get_close_matches(path, sorted(there), n=1, cutoff=0.3)
    near = near or [one for one in sorted(there) if one.endswith(PurePosixPath(path).name)][:1]
    hint = f"did you mean {one_line(near[0])}?" if near else f"it has {_some(there)}"
    raise UsageError(f"{one_line(path)}: not in the harness {when}; {hint}")


def _some(paths: set[str]) -> str:
    listed = [one_line(path, 60) for path in sorted(paths)]
    more = f" and {len(listed) - 5} more" if len(listed) > 5 else ""
    return ", ".join(listed[:5]) + more


def _steps(
    ws: Workspace, path: str, releases: Sequence[Release], kept: Mapping[Revision, Listing]
) -> tuple[list[Step], list[str]]:
    """What each release did to the file, and what is said of those whose files were not kept."""
    digests = {digest for one in kept.values() if (digest := one.get(path)) is not None}
    data = file_bytes(ws.ledger.db, digests)
    steps: list[Step] = []
    gaps: list[str] = []
    for one in releases:
        if one.before not in kept or one.after not in kept:
            gaps.append(f"the ledger has no files of {one.id}: its lines are shown as by hand")
            continue
        before, after = kept[one.before].get(path), kept[one.after].get(path)
        steps.append(
            Step(
                release=one.id, before=data[before] if before else None,
                after=data[after] if after else None, undoes=one.undoes,
            )
        )  # fmt: skip
    return steps, gaps


def _unreached(target: Target | None, releases: Sequence[Release]) -> list[str]:
    if target is None or target.problem is None:
        return []
    shown = f"as release {releases[-1].id} left it" if releases else "not at all"
    return [f"the target cannot be read ({target.problem}); the file is shown {shown}"]


def _line(number: int, text: str, line: Line) -> HistoryLine:
    origin = line.origin
    by: By = "release" if origin.release else "hand" if origin.newer_than else "before"
    return HistoryLine(
        number=number, text=text, by=by, release=origin.release, restored_by=origin.restored_by,
        newer_than=origin.newer_than, seen_by=origin.seen_by,
    )  # fmt: skip


def _title(ws: Workspace, proposal: Proposal | None) -> str | None:
    if proposal is None:
        return None
    return one_line(ws.ledger.knowledge.finding(proposal.finding_id).finding.title, 120)


def _origin(release: Release, target: str | None) -> str | None:
    """What the file's target called the state; of an unknown target, what all of them did."""
    told = {one.target: one.origin for one in release.targets if one.origin}
    if target in told:
        return one_line(told[target], 200)
    if target is not None and len(release.targets) > 1:
        return None  # the release did not touch the file's target
    return one_line("; ".join(told.values()), 200) or None


def _owner(ws: Workspace, path: str) -> str | None:
    """The target that a path is written to, by the settings of now; None: they name none."""
    try:
        return open_harness(ws).owner(path).harness.target
    except TracemendError:
        return None
