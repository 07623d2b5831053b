"""Reading and counting in several processes: map over shares of the traces, reduce by merge.

Every process reads the same files and takes the traces whose id falls into its share, so a trace is
whole in one of them; each counts its own, and the counts are merged. The result is the one of a
single process, byte for byte, whatever the number of processes. Each holds what one process would:
a batch of traces and bounded counts. Only sources that can share (`Shared`, files) are spread; a
server never does, since it has other things to do with its cores.
"""

import multiprocessing
import os
import pickle
import signal
from asyncio import run, to_thread
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from traceback import format_exception
from typing import Literal, Protocol, Self, runtime_checkable

from configs.settings import ScoreRule
from connectors.traces.reading import Reading
from connectors.traces.shares import CannotShare, joined
from contracts.errors import SourceError, UsageError
from contracts.protocols import TraceSource
from contracts.traces import ReadReport, TraceQuery
from nodes.insights.detect.all import detect
from nodes.insights.detect.faults import Scans
from nodes.insights.tally import Config, Tally

MIN_BYTES = 50_000_000
"""Below this, starting processes costs more than it saves (docs/decisions/0028)."""
MAX_JOBS = 64


@runtime_checkable
class Shared(Protocol):
    """A source of which each process can read a share; picklable, as a spawned process needs."""

    @property
    def name(self) -> str:
        """Of the source, for messages."""
        ...

    def share(self, index: int, of: int) -> "SharedPart":
        """The source with the traces of one of `of` shares only."""
        ...

    def size_bytes(self) -> int:
        """Of what would be read."""
        ...


class SharedPart(TraceSource, Protocol):
    """One share of a source."""

    @property
    def account(self) -> Reading:
        """What the read of it saw."""
        ...


def jobs_for(source: Shared, asked: int | None, cores: int) -> int:
    """How many processes read the source: as many as asked for, else all cores for large input.

    Raises:
        UsageError: nothing there can be read at all.
    """
    if asked is not None:
        return min(asked, MAX_JOBS)
    if cores < 2 or source.size_bytes() <= MIN_BYTES:
        return 1
    return min(cores, MAX_JOBS)


def usable_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


async def tally_shares(
    source: Shared,
    query: TraceQuery,
    config: Config,
    jobs: int,
    scores: tuple[ScoreRule, ...] = (),
) -> tuple[Tally, ReadReport] | None:
    """Read the source in `jobs` processes: the merged counts, and what was read.

    None: it can only be read by one process.

    Raises:
        UsageError: nothing there can be read at all.
        SourceError: the source is unreachable, or a process was ended from outside.
    """
    crew = _Crew()
    try:
        for index in range(jobs):
            mine = source.share(index, jobs)
            crew.start(_Task(source=mine, query=query, config=config, scores=scores))
        counted = await to_thread(crew.results, source.name)
    except CannotShare:
        return None
    finally:
        crew.stop()
    whole = Tally.of(config)
    for one in counted:
        whole.merge(one.tally)
    return whole, joined([one.read for one in counted])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """What one process is given."""

    source: SharedPart
    query: TraceQuery
    config: Config
    scores: tuple[ScoreRule, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted:
    """What one process gives back, once, at its end: as bounded as a tally is."""

    tally: Tally
    read: Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failed:
    """Why a process has nothing to give back, as it can be sent."""

    kind: Literal["usage", "source", "share", "other"]
    text: str
    backend: str = ""
    operation: str = ""
    retryable: bool = False

    @classmethod
    def of(cls, error: Exception) -> Self:
        """What is told of an exception."""
        if isinstance(error, SourceError):
            return cls(
                kind="source", text=str(error), backend=error.backend,
                operation=error.operation, retryable=error.retryable,
            )  # fmt: skip
        if isinstance(error, CannotShare):
            return cls(kind="share", text=str(error))
        if isinstance(error, UsageError):
            return cls(kind="usage", text=str(error))
        return cls(kind="other", text="".join(format_exception(error)))

    def error(self) -> Exception:
        """The exception to raise where the process was started."""
        match self.kind:
            case "usage":
                return UsageError(self.text)
            case "share":
                return CannotShare(self.text)
            case "source":
                return SourceError(
                    self.text, backend=self.backend, operation=self.operation,
                    retryable=self.retryable,
                )  # fmt: skip
            case "other":
                return RuntimeError(f"a reading process failed:\n{self.text}")


class _Crew:
    """Processes at work, ended with whoever started them."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._members: list[tuple[BaseProcess, Connection]] = []

    def start(self, task: _Task) -> None:
        """Start a process on the task."""
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(
            target=_work, args=(task, theirs, os.getpid()), daemon=True, name="tracemend-read"
        )
        with _ctrl_c_is_ours():
            process.start()
        theirs.close()  # else its end would not be seen here
        self._members.append((process, ours))

    def results(self, name: str) -> list[_Counted]:
        """What all give back, in the order in which they were started; raises what one raised."""
        found: dict[Connection, _Counted] = {}
        missing = {pipe: process for process, pipe in self._members}
        while missing:
            for pipe in wait(list(missing)):
                if isinstance(pipe, Connection):
                    found[pipe] = _result(missing.pop(pipe), pipe, name)
        return [found[pipe] for _, pipe in self._members]

    def stop(self) -> None:
        """End every process that is still at work."""
        for process, _ in self._members:
            process.terminate()
        for process, pipe in self._members:
            process.join()
            pipe.close()


def _result(process: BaseProcess, pipe: Connection, name: str) -> _Counted:
    try:
        answer = pickle.loads(pipe.recv_bytes())  # noqa: S301  (of our own process)
    except (EOFError, OSError):
        process.join(5)
        raise SourceError(
            f"{name}: a process that read it was ended (exit {process.exitcode}); with --jobs 1 it "
            "takes less memory",
            backend=name, operation="window",
        ) from None  # fmt: skip
    if isinstance(answer, _Failed):
        raise answer.error()
    if not isinstance(answer, _Counted):
        raise TypeError(f"no answer of a reading process: {type(answer)!r}")
    return answer


@contextmanager
def _ctrl_c_is_ours() -> Iterator[None]:
    """Processes started inside never see Ctrl-C, not even while they begin: we end them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(task: _Task, pipe: Connection, parent: int) -> None:
    """The life of one process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where it could not be kept from us
    answer: _Counted | _Failed
    try:
        answer = run(_count(task, parent))
    except Exception as error:  # noqa: BLE001  (raised again by whoever started it)
        answer = _Failed.of(error)
    with suppress(OSError):
        pipe.send_bytes(pickle.dumps(answer, pickle.HIGHEST_PROTOCOL))


async def _count(task: _Task, parent: int) -> _Counted:
    tally = Tally.of(task.config)
    scans = Scans()
    async for batch in task.source.window(task.query):
        if os.getppid() != parent:
            raise SystemExit(1)  # nobody waits any more
        for trace in batch.traces:
            tally.add(detect(trace, scans, scores=task.scores))
    return _Counted(tally=tally, read=task.source.account)
