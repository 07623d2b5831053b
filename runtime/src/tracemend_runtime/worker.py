"""The worker loop: requests in, one answer a line out, until stop or the end of stdin."""

import asyncio
import concurrent.futures
import contextlib
import inspect
import queue
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol, TextIO, cast

from tracemend_runtime.records import BadRequestError, RunAnswer, RunRequest, answer_line, parse
from tracemend_runtime.replay import replaying
from tracemend_runtime.streams import protocol_streams

SyncRun = Callable[[RunRequest], RunAnswer]
AsyncRun = Callable[[RunRequest], Awaitable[RunAnswer]]
Done = concurrent.futures.Future[None]
Reply = Callable[[RunRequest, RunAnswer], None]

DRAIN_S = 1.0
"""Beyond the last deadline, how long runs under way are waited for when the loop ends."""


def serve(
    run: SyncRun | AsyncRun,
    *,
    concurrency: int = 1,
    stdin: TextIO | None = None,
    stdout: TextIO | None = None,
) -> None:
    """Answer runs until Tracemend says stop or closes stdin; runs under way are finished first.

    Args:
        run: the agent on one request; an exception it raises becomes the answer's error.
        concurrency: runs at once, told to Tracemend with the first line.
        stdin: where requests come from instead of the process's own stdin.
        stdout: where answers go instead of the process's own stdout.

    Raises:
        ValueError: `concurrency` is below 1.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency: got {concurrency!r}, needs at least 1")
    with (
        protocol_streams(stdin, stdout) as (source, sink),
        contextlib.closing(_runner(run, concurrency)) as runner,
    ):
        _Loop(source=source, sink=sink, runner=runner).serve(concurrency)


def is_async(run: SyncRun | AsyncRun) -> bool:
    """Whether calling it gives something to await."""
    called = getattr(run, "__call__", run)  # noqa: B004  an object with an async __call__
    return inspect.iscoroutinefunction(run) or inspect.iscoroutinefunction(called)


class _Runner(Protocol):
    def submit(self, request: RunRequest, reply: Reply) -> Done: ...

    def close(self) -> None: ...


def _runner(run: SyncRun | AsyncRun, concurrency: int) -> _Runner:
    if is_async(run):
        return _OnLoop(cast("AsyncRun", run), concurrency)
    return _InThreads(cast("SyncRun", run), concurrency)


@dataclass(slots=True, kw_only=True)
class _Loop:
    source: TextIO
    sink: TextIO
    runner: _Runner
    lock: threading.Lock = field(default_factory=threading.Lock)
    last_deadline: float = 0.0

    def serve(self, concurrency: int) -> None:
        self.write(f'{{"op":"ready","v":1,"concurrency":{concurrency}}}\n')
        pending: set[Done] = set()
        for line in iter(self.source.readline, ""):
            if not line.strip():
                continue
            try:
                request = parse(line)
            except BadRequestError as error:
                _log(f"ignored a line of stdin: {error}")
                continue
            if request is None:
                break
            pending = {done for done in pending if not done.done()}
            until = time.monotonic() + request.deadline_s
            self.last_deadline = max(self.last_deadline, until)
            pending.add(self.runner.submit(request, self.reply))
        left_s = max(0.0, self.last_deadline - time.monotonic()) + DRAIN_S
        concurrent.futures.wait(pending, timeout=left_s)

    def reply(self, request: RunRequest, answer: RunAnswer) -> None:
        self.write(answer_line(request.id, answer))

    def write(self, line: str) -> None:
        # Tracemend is gone or takes no more; stdin ends next. A late thread finds a closed sink.
        with self.lock, contextlib.suppress(OSError, ValueError):
            self.sink.write(line)
            self.sink.flush()


class _InThreads:
    """Runs a synchronous agent in as many daemon threads: one that hangs cannot hold the exit."""

    def __init__(self, run: SyncRun, concurrency: int) -> None:
        self._run = run
        self._concurrency = concurrency
        self._jobs: queue.SimpleQueue[tuple[RunRequest, Reply, Done] | None] = queue.SimpleQueue()
        for number in range(concurrency):
            threading.Thread(target=self._work, name=f"run-{number}", daemon=True).start()

    def submit(self, request: RunRequest, reply: Reply) -> Done:
        done = Done()
        self._jobs.put((request, reply, done))
        return done

    def close(self) -> None:
        for _ in range(self._concurrency):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            request, reply, done = job
            try:
                with replaying(request.replay):
                    answer = checked(self._run(request))
            except BaseException as error:  # noqa: BLE001  also `sys.exit()` in an agent is its failure
                answer = failed(error)
            reply(request, answer)
            done.set_result(None)


class _OnLoop:
    """Runs an async agent on one event loop in a thread, and cancels it at its deadline."""

    def __init__(self, run: AsyncRun, concurrency: int) -> None:
        self._run = run
        self._slots = asyncio.Semaphore(concurrency)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="runs", daemon=True)
        self._thread.start()

    def submit(self, request: RunRequest, reply: Reply) -> Done:
        return asyncio.run_coroutine_threadsafe(self._work(request, reply), self._loop)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._cancel_all(), self._loop)
        self._thread.join(timeout=DRAIN_S)
        if not self._thread.is_alive():
            self._loop.close()

    async def _cancel_all(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        self._loop.call_soon(self._loop.stop)

    async def _work(self, request: RunRequest, reply: Reply) -> None:
        async with self._slots:
            deadline = asyncio.timeout(request.deadline_s)
            try:
                async with deadline:
                    with replaying(request.replay):
                        answer = checked(await self._run(request))
            except BaseException as error:  # noqa: BLE001  also `sys.exit()` in an agent is its failure
                answer = RunAnswer(error="timeout") if deadline.expired() else failed(error)
        reply(request, answer)


def checked(answer: object) -> RunAnswer:
    """What `run` returned; something else than an answer is a mistake in the worker."""
    if isinstance(answer, RunAnswer):
        return answer
    return RunAnswer(missing=f"run returned {type(answer).__name__}, not a RunAnswer")


def failed(error: BaseException) -> RunAnswer:
    """What it means that this left `run`."""
    return RunAnswer(error=f"{type(error).__name__}: {error}")


def _log(line: str) -> None:
    print(f"tracemend_runtime: {line}", file=sys.stderr, flush=True)  # noqa: T201  stderr is the log
