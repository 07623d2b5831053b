"""What a repository of LangSmith's hub is to the harness, whatever it holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from connectors.harness.langsmith_calls import HubCalls
from contracts.harness import Effect, TargetChange
from contracts.json_types import Json

Texts = Mapping[str, bytes]
"""Files by their path in the harness."""


class Moved(Exception):
    """Somebody else changed what was about to be changed.

    Attributes:
        paths: of the files that are theirs.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(", ".join(paths))
        self.paths = tuple(paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepoState:
    """What agents read from a repository now."""

    files: Texts
    commit: str | None
    """Its hash; None: the repository is not there, or has no commit."""
    kept: Mapping[str, Json]
    """What stands beside the text of a prompt, by its path."""
    left_out: str | None = None
    """Why nothing of it is part of the harness; None: it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepoChange:
    """The part of a change that lies in one repository. Files that stay are in neither side."""

    effect: Effect
    before: Texts
    after: Texts

    @property
    def paths(self) -> tuple[str, ...]:
        """What changes, sorted."""
        return tuple(sorted({*self.before, *self.after}))

    def foreign(self, now: Texts) -> tuple[str, ...]:
        """Paths that are neither side."""
        return tuple(
            path for path in self.paths
            if now.get(path) not in (self.before.get(path), self.after.get(path))
        )  # fmt: skip

    def done(self, now: Texts) -> bool:
        """Whether all is as it should be afterwards."""
        return all(now.get(path) == self.after.get(path) for path in self.paths)


class Repo(Protocol):
    """One repository."""

    name: str

    async def read(self, calls: HubCalls) -> RepoState:
        """What agents read now.

        Raises:
            ConnectorError: it cannot be read.
        """
        ...

    async def stage(self, calls: HubCalls, change: RepoChange) -> None:
        """Prepare the change where no agent reads it, if there is such a place."""
        ...

    async def is_ours(self, calls: HubCalls, change: RepoChange) -> bool:
        """Whether an earlier call for this effect made what agents read, as far as can be told."""
        ...

    async def switch(self, calls: HubCalls, change: RepoChange) -> bool:
        """Make it what agents read, and read it back. False: it was already; nothing is written.

        Raises:
            Moved: a file is neither side; nothing of ours is visible.
            ConnectorError: not `retryable`: refused.
        """
        ...

    async def history(self, calls: HubCalls, limit: int) -> Sequence[TargetChange]:
        """Its newest commits, newest first."""
        ...
