"""The promises between the parts. Each has a contract suite under `tests/contract/`."""

from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Protocol, Self

from contracts.harness import Effect, HarnessSnapshot, Observation, Standing, TargetChange
from contracts.json_types import Json
from contracts.traces import SourceInfo, Trace, TraceBatch, TraceId, TraceQuery


class TraceSource(Protocol):
    """Read-only view of recorded traces."""

    name: str

    async def check(self) -> SourceInfo:
        """Say whether the source can be read, and by which reader. Never raises for the outside."""
        ...

    def window(self, query: TraceQuery) -> AsyncIterator[TraceBatch]:
        """Yield whole traces that start in the window, in bounded memory.

        Own probe runs are left out and counted. The last batch (possibly without traces) carries
        the final report; a reader that breaks off half-way yields what it has, with `partial`.

        Raises:
            UsageError: nothing there can be read at all (missing, empty, no known format).
            SourceError: the backend is unreachable.
        """
        ...

    async def trace(self, trace_id: TraceId) -> Trace:
        """One whole trace, payloads capped and marked.

        Raises:
            SourceError: there is no such trace.
        """
        ...


class Harness(Protocol):
    """The editable text of the agent, where it lives."""

    target: str
    """Stable name of the place, such as `directory:/srv/agent`; part of every effect's key."""

    async def read(self) -> HarnessSnapshot:
        """All files as they are now, exact bytes and modes; `origin` is what the place calls it.

        Raises:
            ConnectorError: the place cannot be reached; `retryable` says whether to try again.
        """
        ...

    async def stage(self, effect: Effect, before: HarnessSnapshot, after: HarnessSnapshot) -> None:
        """Prepare `after` where no reader of the harness sees it. Idempotent by `effect.key`."""
        ...

    async def switch(self, effect: Effect, before: HarnessSnapshot, after: HarnessSnapshot) -> None:
        """Make what was staged visible, file by file, each compared with its before first.

        Continues where an earlier, killed call stopped: files that are already their after are
        left alone.

        Raises:
            ForeignChange: some file is neither its before nor its after. That file is left as it
                is, and files switched by this effect are put back to their before.
            ConnectorError: the place could not be reached or did not answer; what happened there
                is not known. A later call with the same effect looks first, so that nothing is
                written twice. Not `retryable`: the place refused the change.
        """
        ...

    async def standing(self, before: HarnessSnapshot, after: HarnessSnapshot) -> Standing:
        """Where the target stands between the two."""
        ...

    async def discard(self, effect: Effect) -> None:
        """Remove what was staged for the effect. Idempotent."""
        ...

    async def history(self, limit: int = 50) -> Sequence[TargetChange]:
        """The newest changes that the place itself remembers, newest first.

        A plain folder remembers none. Entries of our effects carry the effect's key.
        """
        ...


class Probe(Protocol):
    """Runs the operator's agent on one input with a given harness. Observes, does not grade.

    An async context manager: workers start on entry or on first use and are gone on exit, with
    their whole process group.
    """

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    async def run(
        self, case_input: Json, harness: HarnessSnapshot, *, seed: int, deadline_s: float
    ) -> Observation:
        """Run once. Several calls may be under way at once, up to the configured concurrency.

        A run past its deadline is the agent's `error` "timeout". An agent that dies, or says what
        the protocol does not allow, gives an observation with `missing` set, and is started anew;
        neither raises.

        Raises:
            ProbeError: the worker cannot be started at all, or never says that it is ready.
        """
        ...


class Embedder(Protocol):
    """Texts to vectors whose dot product says how alike they are."""

    name: str
    """With version and size, such as `hash-3-5-512`; vectors of two names are never compared."""
    dim: int

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One unit vector of `dim` numbers a text, in order; equal texts give equal vectors.

        Works without a network. A text without a single word gives the zero vector.
        """
        ...
