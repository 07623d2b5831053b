"""A worker's process: the protocol's lines, and its runs under way."""

import asyncio
import time
from dataclasses import dataclass, replace

from connectors.probe.limits import Watcher
from connectors.probe.process import SETTLE_S, AgentProcess, Spawn
from connectors.probe.wire import (
    STOP_LINE,
    Answer,
    ProtocolBreachError,
    WireId,
    parse_answer,
    parse_ready,
)

KILLED = "worker killed"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flight:
    """One run under way."""

    reply: asyncio.Future[tuple[Answer, float]]
    """The answer, and the seconds it took."""
    since: float
    deadline_s: float


class WorkerProcess(AgentProcess):
    """Speaks the worker protocol with one process; the first breach ends the process.

    Attributes:
        slots: as many as the process and the configuration allow at once.
        ambiguous: it went over a limit while several runs were under way.
    """

    def __init__(self, spawn: Spawn, watcher: Watcher) -> None:
        super().__init__(spawn, watcher)
        self.slots = asyncio.Semaphore(1)
        self.ambiguous = False
        self._ready: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._flights: dict[WireId, _Flight] = {}
        self._line = bytearray()

    @classmethod
    async def start(
        cls, spawn: Spawn, watcher: Watcher, *, concurrency: int, timeout_s: float
    ) -> "WorkerProcess":
        """A process that said ready.

        Raises:
            ProbeError: it cannot be started, or did not say ready in time.
        """
        worker = cls(spawn, watcher)
        await worker.launch()
        try:
            async with asyncio.timeout(timeout_s):
                takes = await worker._ready
        except TimeoutError:
            worker.end(f"did not say ready within {timeout_s:g} s")
            takes = None
        except BaseException:
            worker.end("not waited for")
            await asyncio.shield(worker.close())
            raise
        if takes is None:
            await worker.close()
            raise worker.failure(worker.failed_to_start or worker.gone or "ended")
        worker.slots = asyncio.Semaphore(min(concurrency, takes))
        return worker

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
                self.end(KILLED)
            return flight.reply.result()
        except asyncio.CancelledError:
            # Nobody waits for the run any more, and only the process's end stops it.
            self.end(KILLED)
            raise

    def _settle_all(self, reason: str, *, fault: bool) -> None:
        if not self._ready.done():
            self._ready.set_result(None)
        now = time.monotonic()
        alone = len(self._flights) == 1
        self.ambiguous = fault and len(self._flights) > 1
        if self.ambiguous:
            reason = f"{reason}, of {len(self._flights)} runs together"
        for wire_id, flight in self._flights.items():
            seconds = now - flight.since
            # Over its own deadline a run is the agent's failure, whoever was noticed first.
            if reason == KILLED and seconds >= flight.deadline_s:
                answer = Answer(id=wire_id, error="timeout")
            elif fault and alone:
                answer = Answer(id=wire_id, error=reason)
            else:
                answer = Answer(id=wire_id, missing=reason)
            if not flight.reply.done():
                flight.reply.set_result((answer, seconds))
        self._flights.clear()

    async def _farewell(self) -> None:
        self._write(STOP_LINE)
        await asyncio.wait((self._ended,), timeout=SETTLE_S)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            # Most often the process is about to exit, and its exit code says more.
            self._later("protocol: stdout closed")

    def process_exited(self) -> None:
        super().process_exited()
        self._later(self._exit())

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(self._exit())
        super().connection_lost(exc)

    def _exit(self) -> str:
        return f"worker died (exit {self.code})"

    def _later(self, reason: str) -> None:
        asyncio.get_running_loop().call_later(SETTLE_S, self.end, reason)

    def _read(self, data: bytes) -> None:
        """Read every whole line before any run is settled: a second answer may be among them."""
        self._line += data
        *lines, rest = self._line.split(b"\n")
        self._line = rest
        if any(len(line) > self._spawn.output_bytes for line in (*lines, rest)):
            self._output_limit()
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
