"""What a commit of ours says of itself, and what the log of a branch says of its commits."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from connectors.harness.git_run import Git
from connectors.review.clean import one_line, safe
from contracts.harness import Effect, HarnessSnapshot, Provenance, TargetChange

EFFECT, PUTS_BACK = "Tracemend-Effect", "Tracemend-Puts-Back"
BASE, RESULT = "Tracemend-Base", "Tracemend-Result"
_TRAILER = re.compile(r"([A-Za-z][A-Za-z-]*): (.*)")
_SKEW = timedelta(days=30)
"""How far the clocks of those who commit on top of us may be behind the one of the decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A commit, as the log tells it."""

    commit: str
    parent: str | None
    at: datetime | None
    by: str
    message: str

    @property
    def trailers(self) -> dict[str, str]:
        """Of the last paragraph; of a word that is there twice the last one."""
        last = self.message.rstrip("\n").rsplit("\n\n", 1)[-1]
        found = (_TRAILER.fullmatch(line) for line in last.split("\n"))
        return {match.group(1): match.group(2) for match in found if match}

    def leads(self, before: HarnessSnapshot, after: HarnessSnapshot) -> bool:
        """Whether it is a change of ours from the one to the other."""
        trailers = self.trailers
        return (trailers.get(BASE), trailers.get(RESULT)) == (before.revision, after.revision)


def message_of(effect: Effect, *, reverts: str | None) -> str:
    """The message of a change's commit: a title, a sentence, and who and what is behind it.

    Args:
        effect: the change.
        reverts: the commit that is taken back, where known.
    """
    about = effect.about
    by = _name(about)
    if effect.kind == "undo":
        title, sentence = "Take back a change of the harness", f"Taken back by Tracemend for {by}."
    else:
        title, sentence = "Change the harness", f"Applied by Tracemend after {by} approved it."
    if reverts is not None:
        sentence += f"\nThis reverts commit {reverts}."
    title = one_line(about.title, 100) if about is not None and about.title.strip() else title
    return f"{title}\n\n{sentence}\n\n{_block(_trailers(effect))}"


def message_of_return(effect: Effect, paths: Sequence[str]) -> str:
    """The message of the commit that puts files back, since others of the change are foreign."""
    listed = "\n".join(one_line(path, 200) for path in paths)
    return (
        f"Put back {len(paths)} file(s) of a change that could not be kept\n\n"
        "Somebody else changed another file of it before it was recorded:\n"
        f"{listed}\n\n{_block([(PUTS_BACK, effect.key)])}"
    )


def _name(about: Provenance | None) -> str:
    return one_line(about.approver, 120) if about is not None else "a person"


def _trailers(effect: Effect) -> Iterator[tuple[str, str]]:
    about = effect.about
    yield EFFECT, effect.key
    if about is not None:
        yield "Tracemend-Finding", about.finding
        yield "Tracemend-Proposal", f"{about.proposal} r{about.revision}"
    yield "Tracemend-Decision", effect.decision_id
    if about is not None:
        yield "Approved-by", _name(about)
        if about.gate_report is not None:
            yield "Tracemend-Gate-Report", about.gate_report
        if about.undoes is not None:
            yield "Tracemend-Undoes", about.undoes
    yield BASE, effect.before
    yield RESULT, effect.after


def _block(trailers: Iterator[tuple[str, str]] | Sequence[tuple[str, str]]) -> str:
    return "".join(f"{word}: {one_line(value, 200)}\n" for word, value in trailers)


def log(git: Git, *args: str, literal: bool = True) -> list[Told]:
    """The commits that `git log` finds with these arguments, as it orders them.

    Raises:
        ConnectorError: git failed.
    """
    form = "--format=%H%x00%P%x00%ct%x00%an%x00%B%x00"
    env = None if literal else {"GIT_LITERAL_PATHSPECS": "0"}
    out = git.must("log", "--no-color", "--encoding=UTF-8", form, *args, env=env).out
    words = out.decode("utf-8", "replace").split("\0")
    return [_told(words[n : n + 5]) for n in range(0, len(words) - 5, 5)]


def _told(words: Sequence[str]) -> Told:
    commit, parents, at, by, message = words
    return Told(
        commit=commit.strip(), parent=parents.split(" ")[0] or None, at=_time(at), by=by,
        message=message,
    )  # fmt: skip


def _time(seconds: str) -> datetime | None:
    """None: a commit may name a moment that no calendar has."""
    try:
        return datetime.fromtimestamp(int(seconds), UTC)
    except (ValueError, OverflowError, OSError):
        return None


def commit_of(git: Git, head: str, effect: Effect) -> Told | None:
    """The newest commit of an effect in the history of `head`, however it came there."""
    since = effect.about.at - _SKEW if effect.about is not None else None
    bound = [f"--since={since.isoformat()}"] if since is not None else []
    return _newest(
        git, f"{EFFECT}: {effect.key}", lambda one: one.trailers.get(EFFECT) == effect.key,
        *bound, head,
    )  # fmt: skip


def commit_that_made(
    git: Git, head: str, before: HarnessSnapshot, after: HarnessSnapshot
) -> Told | None:
    """The newest commit of ours in the history of `head` that led from the one to the other."""
    return _newest(git, f"{RESULT}: {after.revision}", lambda one: one.leads(before, after), head)


def _newest(git: Git, wanted: str, fits: Callable[[Told], bool], *args: str) -> Told | None:
    """The newest commit with this line that fits; the log is walked no further than needed."""
    for limit in (1, 50):
        found = log(git, f"-n{limit}", "--fixed-strings", f"--grep={wanted}", *args, "--")
        told = next((one for one in found if fits(one)), None)
        if told is not None or len(found) < limit:
            return told
    return None


def change_of(told: Told) -> TargetChange:
    """A commit as an entry of the target's history."""
    trailers = told.trailers
    return TargetChange(
        origin=told.commit, at=told.at, by=one_line(told.by, 120) or None,
        message=safe(told.message).strip()[:4000],
        effect=trailers.get(EFFECT) or trailers.get(PUTS_BACK),
    )  # fmt: skip
