"""Which branch a change goes to: the one that is read, or a new one that somebody merges later."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from connectors.harness.git_log import EFFECT, Told, commit_of, commit_that_made, log
from connectors.harness.git_place import any_of, fill
from connectors.harness.git_refs import contains, head_of, names_like, unfinished
from connectors.harness.git_run import Git, failed
from contracts.harness import Effect, HarnessSnapshot, Standing

Read = Callable[[str], HarnessSnapshot]
"""The harness files of a commit."""
UNDO = "-undo"
"""Ends the name of the branch that takes back what was merged already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The branch that an effect's commit goes to, as it is now."""

    ref: str
    head: str
    """The commit that the next one is made on."""
    old: str | None
    """What the branch stands for now; None: it is not there yet."""
    mine: Told | None
    """The effect's own commit, when it is there already."""


def side(now: HarnessSnapshot, before: HarnessSnapshot, after: HarnessSnapshot) -> Standing:
    """Where a state is between two others."""
    of_before, of_after = set(now.changed(before)), set(now.changed(after))
    if of_before & of_after:
        return "foreign"
    if not of_before:
        return "before"
    return "mixed" if of_after else "after"


class Lines(Protocol):
    """Where commits go."""

    @property
    def ref(self) -> str:
        """The branch that is read."""
        ...

    def line(self, effect: Effect, before: HarnessSnapshot, after: HarnessSnapshot) -> Line:
        """The branch for this effect.

        Raises:
            ConnectorError: there is no branch that it could go to.
        """
        ...

    def standing(self, before: HarnessSnapshot, after: HarnessSnapshot) -> Standing:
        """Where the place is between the two; "mixed" also where a change was not finished."""
        ...

    def tips(self) -> list[str]:
        """The commits whose history tells of our changes."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OneBranch:
    """Commits go to the branch that is read."""

    git: Git
    ref: str
    read: Read

    def line(self, effect: Effect, before: HarnessSnapshot, after: HarnessSnapshot) -> Line:
        del before, after
        head = tip(self.git, self.ref)
        mine = commit_of(self.git, head, effect)
        return Line(ref=self.ref, head=head, old=head, mine=mine)

    def standing(self, before: HarnessSnapshot, after: HarnessSnapshot) -> Standing:
        return _finished(self.git, tip(self.git, self.ref), self.read, before, after)

    def tips(self) -> list[str]:
        return [tip(self.git, self.ref)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBranch:
    """Commits go to a branch of their own; the one that is read moves when somebody merges it.

    A change is in place once its branch has it. It is taken back on its branch while that is not
    merged, and on one more branch, whose name ends in `-undo`, after it was.
    """

    git: Git
    ref: str
    read: Read
    pattern: str

    def line(self, effect: Effect, before: HarnessSnapshot, after: HarnessSnapshot) -> Line:
        base = tip(self.git, self.ref)
        ours = self._name(effect)
        for ref in (self.ref, ours, ours + UNDO):
            head = head_of(self.git, ref)
            mine = commit_of(self.git, head, effect) if head is not None else None
            if head is not None and mine is not None:
                return Line(ref=ref, head=head, old=head, mine=mine)
        merged = side(self.read(base), before, after)
        if effect.kind == "undo" and (merged == "before" or self._unmerged(base, ours) is None):
            ours += UNDO
        old = head_of(self.git, ours)
        unmerged = self._unmerged(base, ours)
        if unmerged is None:
            return Line(ref=ours, head=base, old=old, mine=None)
        if effect.kind == "apply" and side(self.read(unmerged), before, after) == "foreign":
            name = ours.removeprefix("refs/heads/")
            raise failed(
                "switch",
                f"the branch {name} of {self.git.folder} holds other changes that are not merged; "
                "merge or delete it, then run `tracemend resume`",
                retryable=True,
            )
        return Line(ref=ours, head=unmerged, old=old, mine=None)

    def standing(self, before: HarnessSnapshot, after: HarnessSnapshot) -> Standing:
        base = tip(self.git, self.ref)
        back: Standing | None = None
        for head, newest in self._open(base, before, after):
            found = side(self.read(head), before, after)
            if newest.leads(before, after):
                if found == "after":
                    return _finished(self.git, head, self.read, before, after)
                back = back or found
            elif found != "after" and not self._taken_back(base, newest, before, after):
                back = back or found
        return back or side(self.read(base), before, after)

    def _taken_back(
        self, base: str, change: Told, before: HarnessSnapshot, after: HarnessSnapshot
    ) -> bool:
        """Whether a change of an open branch was merged otherwise (squashed) and then undone."""
        undone = commit_that_made(self.git, base, before, after)
        if undone is None or undone.at is None or change.at is None:
            return False
        return undone.at >= change.at

    def tips(self) -> list[str]:
        base = tip(self.git, self.ref)
        return [base, *(head for _, head in self._names(base))]

    def _name(self, effect: Effect) -> str:
        about = effect.about
        finding = about.finding if about is not None else effect.key[:12]
        proposal = about.proposal if about is not None else effect.key[:12]
        return f"refs/heads/{fill(self.pattern, finding=finding, proposal=proposal)}"

    def _unmerged(self, base: str, ref: str) -> str | None:
        """The branch's commit; None: there is no such branch, or all of it is merged."""
        head = head_of(self.git, ref)
        return head if head is not None and not contains(self.git, base, head) else None

    def _names(self, base: str) -> list[tuple[str, str]]:
        """Branches of changes that are not merged, and their commits."""
        pattern = f"refs/heads/{any_of(self.pattern)}"
        return names_like(self.git, pattern, pattern + UNDO, without=base)

    def _open(
        self, base: str, before: HarnessSnapshot, after: HarnessSnapshot
    ) -> Iterator[tuple[str, Told]]:
        """Those that hold a change between the two, either way, and its newest commit there."""
        for _, head in self._names(base):
            told = log(
                self.git, "-n", "100", "--fixed-strings", f"--grep={EFFECT}: ", f"{base}..{head}",
                "--",
            )  # fmt: skip
            ours = (one for one in told if one.leads(before, after) or one.leads(after, before))
            newest = next(ours, None)
            if newest is not None:
                yield head, newest


def tip(git: Git, ref: str) -> str:
    """The commit of a branch.

    Raises:
        ConnectorError: it has none.
    """
    head = head_of(git, ref)
    if head is None:
        raise failed(
            "read",
            f"{git.folder} has no commit on the branch {ref.removeprefix('refs/heads/')}; "
            "make a first one, or name another `branch`",
            retryable=True,
        )
    return head


def _finished(
    git: Git, head: str, read: Read, before: HarnessSnapshot, after: HarnessSnapshot
) -> Standing:
    found = side(read(head), before, after)
    return "mixed" if found == "after" and unfinished(git, head, before, after) else found
