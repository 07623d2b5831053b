"""The probe of kind "worker": a process of the operator's that runs the agent on request."""

import asyncio
import os
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from connectors.probe.environment import worker_environment
from connectors.probe.folders import HarnessFolders
from connectors.probe.process import Spawn, WorkerProcess
from connectors.probe.spans import ReadSpans, read_trace
from connectors.probe.wire import Answer, WireId, run_line
from contracts.errors import ProbeError
from contracts.harness import HarnessSnapshot, Observation
from contracts.json_types import Json
from contracts.traces import Trace

OUTPUT_CAP_BYTES = 4 * 1024 * 1024
GRACE_S = 2.0
"""Beyond a run's deadline, how long its answer is waited for before the worker is killed."""


class WorkerProbe:
    """Implements `contracts.protocols.Probe` over the worker protocol.

    One process serves all runs. It starts on the first run, starts again after it broke the
    protocol, died or was killed, and is gone on exit with everything it started.
    """

    def __init__(
        self,
        *,
        command: Sequence[str],
        cwd: Path,
        work: Path,
        concurrency: int,
        timeout_s: float,
        env: Mapping[str, str],
        pass_env: Sequence[str],
        read_spans: ReadSpans,
        output_cap_bytes: int = OUTPUT_CAP_BYTES,
        start_timeout_s: float = 60.0,
        grace_s: float = GRACE_S,
    ) -> None:
        """Start nothing yet.

        Args:
            command: program and arguments of the worker, without a shell.
            cwd: where it runs.
            work: our folder for harness snapshots.
            concurrency: runs at once; the worker may take fewer.
            timeout_s: upper bound of a run's deadline.
            env: variables given to the worker.
            pass_env: names of the operator's variables let through; few others are.
            read_spans: turns a file of spans into a trace.
            output_cap_bytes: longest line the worker may print.
            start_timeout_s: how long it may take to say ready.
            grace_s: beyond a run's deadline, how long its answer is waited for.
        """
        self._command = tuple(command)
        self._cwd = cwd
        self._env = dict(env)
        self._pass_env = tuple(pass_env)
        self._concurrency = concurrency
        self._timeout_s = timeout_s
        self._grace_s = grace_s
        self._output_cap_bytes = output_cap_bytes
        self._start_timeout_s = start_timeout_s
        self._read_spans = read_spans
        self._work = work
        self._folders = HarnessFolders(work)
        self._slots = asyncio.Semaphore(concurrency)
        self._starting = asyncio.Lock()
        self._worker: WorkerProcess | None = None

    async def __aenter__(self) -> Self:
        """The worker itself starts with the first run."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the worker with everything it started."""
        async with self._starting:
            worker, self._worker = self._worker, None
            if worker is not None:
                await asyncio.shield(worker.close())

    async def run(
        self, case_input: Json, harness: HarnessSnapshot, *, seed: int, deadline_s: float
    ) -> Observation:
        """Run once; see the protocol for what is an error, what is missing and what is raised."""
        limit_s = min(deadline_s, self._timeout_s)
        wire_id = WireId(secrets.token_hex(16))
        async with self._slots:
            opened = await asyncio.to_thread(self._folders.open, harness)
            line = run_line(
                wire_id, case_input=case_input, harness=str(opened.path), seed=seed,
                deadline_s=limit_s,
            )  # fmt: skip
            answer, seconds = await self._ask(wire_id, line, limit_s)
            if not await asyncio.to_thread(self._folders.intact, opened):
                return Observation(missing="harness changed", seconds=seconds)
            spans = answer.spans
            trace = None if spans is None else await asyncio.to_thread(self._trace, spans)
        return Observation(
            output=answer.output, error=answer.error, missing=answer.missing, usage=answer.usage,
            trace=trace, seconds=seconds,
        )  # fmt: skip

    async def _ask(self, wire_id: WireId, line: bytes, limit_s: float) -> tuple[Answer, float]:
        while True:
            worker = await self._running()
            async with worker.slots:
                # It may have gone while this run waited for a slot.
                if worker.gone is None:
                    return await worker.ask(
                        wire_id, line, deadline_s=limit_s, grace_s=self._grace_s
                    )

    async def _running(self) -> WorkerProcess:
        """The worker, started when there is none or the last one is gone."""
        async with self._starting:
            if self._worker is not None and self._worker.gone is None:
                return self._worker
            if self._worker is not None:
                last, self._worker = self._worker, None
                await asyncio.shield(last.close())
            if not self._command:
                raise ProbeError("probe.command: empty", backend="worker", operation="run")
            run_id = secrets.token_hex(16)
            env = worker_environment(
                os.environ, names=self._pass_env, extra=self._env, run_id=run_id
            )
            spawn = Spawn(
                command=self._command, cwd=self._cwd, env=env, run_id=run_id,
                line_cap_bytes=self._output_cap_bytes, start_timeout_s=self._start_timeout_s,
            )  # fmt: skip
            self._worker = await WorkerProcess.start(spawn, concurrency=self._concurrency)
            return self._worker

    def _trace(self, name: str) -> Trace | None:
        temporary = Path(self._env.get("TMPDIR") or tempfile.gettempdir())
        allowed = (self._work, self._cwd, temporary)
        return read_trace(name, allowed=allowed, read_spans=self._read_spans)
