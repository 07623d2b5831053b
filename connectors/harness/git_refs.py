"""Names of commits: branches that are moved by compare-and-swap, and names that keep what waits."""

from dataclasses import dataclass

from connectors.harness.git_log import Told
from connectors.harness.git_run import Git, failed
from contracts.harness import Effect, HarnessSnapshot

PINS = "refs/tracemend"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A commit that an effect staged or switched to, until it is discarded."""

    name: str
    told: Told


def head_of(git: Git, ref: str) -> str | None:
    """The commit that a name stands for; None when there is no such name."""
    ran = git.run("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    return ran.text if ran.code == 0 else None


def contains(git: Git, head: str, commit: str) -> bool:
    """Whether a commit is in the history of another."""
    return git.run("merge-base", "--is-ancestor", commit, head).code == 0


def names_like(git: Git, *patterns: str, without: str | None = None) -> list[tuple[str, str]]:
    """Names and commits; `without`: only those that are not in this commit's history."""
    less = [f"--no-merged={without}"] if without is not None else []
    form = "--format=%(refname) %(objectname)"
    out = git.must("for-each-ref", form, *less, *patterns).text
    return [(line.split(" ")[0], line.split(" ")[1]) for line in out.splitlines()]


def move(git: Git, ref: str, new: str, old: str | None, *, why: str) -> bool:
    """Let a name stand for `new`, if it still stands for `old` (None: for nothing).

    Returns:
        Whether it did; False: somebody else moved it meanwhile, and nothing was written.

    Raises:
        ConnectorError: git could not, for another reason.
    """
    expected = old or "0" * len(new)
    ran = git.run("update-ref", "-m", why, ref, new, expected)
    if ran.code == 0:
        return True
    if head_of(git, ref) != old:
        return False
    raise failed("switch", f"{ref} could not be moved: {ran.said}", retryable=True)


def pin_name(effect: Effect) -> str:
    """The name that keeps the effect's commit from `git gc`."""
    return f"{PINS}/{effect.key[:32]}"


def pin(git: Git, effect: Effect, commit: str) -> None:
    """Keep the commit."""
    git.must("update-ref", pin_name(effect), commit)


def unpin(git: Git, effect: Effect) -> None:
    """Keep it no longer. Idempotent."""
    git.must("update-ref", "-d", pin_name(effect))


def pins(git: Git) -> list[Pin]:
    """All that are kept."""
    form = "--format=%(refname)%00%(objectname)%00%(contents)%00"
    words = git.must("for-each-ref", form, PINS).out.decode("utf-8", "replace").split("\0")
    return [
        Pin(
            name=words[n].strip(),
            told=Told(commit=words[n + 1], parent=None, at=None, by="", message=words[n + 2]),
        )
        for n in range(0, len(words) - 3, 3)
    ]


def unfinished(git: Git, head: str, before: HarnessSnapshot, after: HarnessSnapshot) -> bool:
    """Whether a change that `head` has was not finished: its work tree may not follow yet."""
    return any(
        one.told.leads(before, after) and contains(git, head, one.told.commit) for one in pins(git)
    )
