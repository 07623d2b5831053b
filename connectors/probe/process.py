"""One worker process: its pipes, its runs under way, and its end with everything it started."""

import asyncio
import contextlib
import os
import shlex
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import PIPE
from typing import cast

from connectors.probe.wire import (
    STOP_LINE,
    Answer,
    ProtocolBreachError,
    WireId,
    clean,
    parse_answer,
    parse_ready,
)
from contracts.errors import ProbeError

STDERR_BYTES = 8 * 1024
SETTLE_S = 1.0
"""How long a process may take to exit after it closed stdout, or was told to stop."""
REAP_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawn:
    """How to start a worker."""

    command: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    run_id: str
    line_cap_bytes: int
    start_timeout_s: float

    @property
    def shown(self) -> str:
        """The command for a message."""
        return clean(shlex.join(self.command), 200)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flight:
    """One run under way."""

    reply: asyncio.Future[tuple[Answer, float]]
    """The answer, and the seconds it took."""
    since: float
    deadline_s: float


class WorkerProcess(asyncio.SubprocessProtocol):
    """Speaks the worker protocol with one process; the first breach ends the process.

    Attributes:
        gone: why the process takes no more runs; None while it does.
        slots: as many as the process and the configuration allow at once.
    """

    def __init__(self, spawn: Spawn) -> None:
        loop = asyncio.get_running_loop()
        self.gone: str | None = None
        self.slots = asyncio.Semaphore(1)
        self._spawn = spawn
        self._ready: asyncio.Future[int | None] = loop.create_future()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._flights: dict[WireId, _Flight] = {}
        self._line = bytearray()
        self._stderr = bytearray()
        self._transport: asyncio.SubprocessTransport | None = None
        self._reaped = False

    @classmethod
    async def start(cls, spawn: Spawn, *, concurrency: int) -> "WorkerProcess":
        """A process that said ready.

        Raises:
            ProbeError: it cannot be started, or did not say ready in time.
        """
        worker = cls(spawn)
        try:
            await asyncio.get_running_loop().subprocess_exec(
                lambda: worker, *spawn.command, cwd=str(spawn.cwd), env=dict(spawn.env),
                stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            raise worker.failure(f"cannot be started: {error}") from None
        try:
            async with asyncio.timeout(spawn.start_timeout_s):
                takes = await worker._ready
        except TimeoutError:
            worker.end(f"did not say ready within {spawn.start_timeout_s:g} s")
            takes = None
        except BaseException:
            worker.end("not waited for")
            await asyncio.shield(worker.close())
            raise
        if takes is None:
            await worker.close()
            raise worker.failure(worker.gone or "ended")
        worker.slots = asyncio.Semaphore(min(concurrency, takes))
        return worker

    def failure(self, what: str) -> ProbeError:
        """The error with the command, what happened, and the last line of stderr."""
        lines = [
            line for line in self._stderr.decode("utf-8", "replace").splitlines() if line.strip()
        ]
        said = f"; stderr: {clean(lines[-1], 200)}" if lines else ""
        message = f"probe: the worker `{self._spawn.shown}` {clean(what, 300)}{said}"
        return ProbeError(message, backend="worker", operation="run")

    async def ask(
        self, wire_id: WireId, line: bytes, *, deadline_s: float, grace_s: float
    ) -> tuple[Answer, float]:
        """The answer to one run and its seconds; a worker that keeps silent is ended."""
        flight = _Flight(
            reply=asyncio.get_running_loop().create_future(), since=time.monotonic(),
            deadline_s=deadline_s,
        )  # fmt: skip
        self._flights[wire_id] = flight
        self._write(line)
        try:
            await asyncio.wait((flight.reply,), timeout=deadline_s + grace_s)
            if not flight.reply.done():
                self.end("worker killed")
            return flight.reply.result()
        except asyncio.CancelledError:
            # Nobody waits for the run any more, and only the process's end stops it.
            self.end("worker killed")
            raise

    def end(self, reason: str) -> None:
        """Kill the process group and settle every run under way."""
        if self.gone is not None:
            return
        self.gone = reason
        self._kill_group()
        if not self._ready.done():
            self._ready.set_result(None)
        now = time.monotonic()
        for wire_id, flight in self._flights.items():
            seconds = now - flight.since
            # Over its own deadline a run is the agent's failure, whoever was noticed first.
            if reason == "worker killed" and seconds >= flight.deadline_s:
                answer = Answer(id=wire_id, error="timeout")
            else:
                answer = Answer(id=wire_id, missing=reason)
            if not flight.reply.done():
                flight.reply.set_result((answer, seconds))
        self._flights.clear()

    async def close(self) -> None:
        """End the process and all it started, also children that left its process group."""
        if self._transport is None:
            return
        if self.gone is None:
            self.gone = "closed"
            self._write(STOP_LINE)
            await asyncio.wait((self._ended,), timeout=SETTLE_S)
        self._kill_group()
        await asyncio.to_thread(_kill_strays, self._spawn.run_id)
        await asyncio.wait((self._ended,), timeout=REAP_S)
        self._transport.close()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._stderr += data
            del self._stderr[:-STDERR_BYTES]
        elif self.gone is None:
            self._line += data
            self._read_lines()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            # Most often the process is about to exit, and its exit code says more.
            self._later("protocol: stdout closed")

    def process_exited(self) -> None:
        self._kill_group()  # children it left behind; later its number may be somebody else's
        self._reaped = True
        self._later(self._exit())

    def connection_lost(self, exc: Exception | None) -> None:
        # Called when the process has exited and all it wrote was read.
        self.end(self._exit())
        if not self._ended.done():
            self._ended.set_result(None)

    def _exit(self) -> str:
        code = self._transport.get_returncode() if self._transport else None
        return f"worker died (exit {code})"

    def _later(self, reason: str) -> None:
        asyncio.get_running_loop().call_later(SETTLE_S, self.end, reason)

    def _read_lines(self) -> None:
        """Read every whole line before any run is settled: a second answer may be among them."""
        *lines, rest = self._line.split(b"\n")
        self._line = rest
        if any(len(line) > self._spawn.line_cap_bytes for line in (*lines, rest)):
            self.end(f"protocol: a line over {self._spawn.line_cap_bytes} bytes")
            return
        answers: dict[WireId, Answer] = {}
        try:
            for line in lines:
                self._read_line(bytes(line), answers)
        except ProtocolBreachError as breach:
            self.end(f"protocol: {breach}")
            return
        for answer in answers.values():
            self._settle(answer)

    def _settle(self, answer: Answer) -> None:
        flight = self._flights.pop(answer.id)
        seconds = time.monotonic() - flight.since
        if seconds > flight.deadline_s and answer.missing is None:
            answer = replace(answer, output=None, error="timeout")
        if not flight.reply.done():
            flight.reply.set_result((answer, seconds))

    def _read_line(self, line: bytes, answers: dict[WireId, Answer]) -> None:
        if not line.strip():
            return
        if not self._ready.done():
            self._ready.set_result(parse_ready(line))
            return
        answer = parse_answer(line)
        if answer.id in answers:
            raise ProtocolBreachError("a second answer")
        if answer.id not in self._flights:
            raise ProtocolBreachError("an answer to no run under way")
        answers[answer.id] = answer

    def _write(self, line: bytes) -> None:
        pipe = self._transport.get_pipe_transport(0) if self._transport else None
        if pipe is not None and not pipe.is_closing():
            cast("asyncio.WriteTransport", pipe).write(line)

    def _kill_group(self) -> None:
        if self._transport is not None and not self._reaped:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._transport.get_pid(), signal.SIGKILL)


def _kill_strays(run_id: str) -> None:
    """Kill processes that carry the worker's unguessable run id though they left its group."""
    for _ in range(3):  # one of them may have started another meanwhile
        strays = _strays(run_id)
        for pid in strays:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not strays:
            return


def _strays(run_id: str) -> list[int]:
    mark = f"TRACEMEND_RUN_ID={run_id}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # ended meanwhile, or somebody else's
            if mark in entry.read_bytes().split(b"\0"):
                found.append(int(entry.parent.name))
    return found
