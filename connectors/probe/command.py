"""The probe of kind "command": one process of the operator's for each run."""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from connectors.probe.company import company
from connectors.probe.limits import Watcher
from connectors.probe.local import Asked, LocalProbe
from connectors.probe.process import CLOSED, AgentProcess, Spawn
from connectors.probe.wire import Answer, ProtocolBreachError, WireId, clean, parse_only_answer

MAX_SAID_CHARS = 500
_FROM_OUTSIDE = frozenset(
    {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
)
"""Nobody raises these against itself: the machine ran out of memory, or a person stopped it."""


class CommandProbe(LocalProbe):
    """Starts the command for each run, hands it the run on stdin, reads the answer off stdout."""

    kind = "command"

    async def _ask(self, asked: Asked) -> tuple[Answer, float]:
        workdir = asked.folder.workdir
        services = {f"TRACEMEND_{name.upper()}": url for name, url in company().items()}
        spawn = self._spawn(
            at_home(self._command, self._cwd), cwd=workdir, temporary=workdir,
            extra={
                "PYTHONPATH": self._python_path(), "TRACEMEND_HARNESS": str(asked.folder.harness),
                "TRACEMEND_ROOT": str(self._cwd), **services,
            },
        )  # fmt: skip
        process = CommandProcess(spawn, self._watcher)
        return await process.ask(
            asked.wire_id, asked.line, deadline_s=asked.deadline_s, grace_s=self._grace_s
        )

    async def _close(self) -> None:
        """Nothing outlives a run."""

    def _python_path(self) -> str:
        """The repository first: the run's own folder, where the command runs, is empty."""
        theirs = self._env.get("PYTHONPATH") or os.environ.get("PYTHONPATH")
        return f"{self._cwd}{os.pathsep}{theirs}" if theirs else str(self._cwd)


class CommandProcess(AgentProcess):
    """A process that is asked once and then ends."""

    def __init__(self, spawn: Spawn, watcher: Watcher) -> None:
        super().__init__(spawn, watcher)
        self._over: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        """When it exited or was ended, on the monotonic clock."""
        self._fault: str | None = None
        self._stdout = bytearray()
        self._last = 0.0

    async def ask(
        self, wire_id: WireId, line: bytes, *, deadline_s: float, grace_s: float
    ) -> tuple[Answer, float]:
        """The answer to the run and its seconds, the start of the process included.

        Raises:
            ProbeError: the command cannot be started.
        """
        since = time.monotonic()
        try:
            await self.launch()
            self._write(line)
            self._no_more()
            await asyncio.wait((self._over,), timeout=deadline_s + grace_s)
            code = self.code
        finally:
            await asyncio.shield(self.close())
        if self.failed_to_start is not None:
            raise self.failure(self.failed_to_start)
        if self._fault is not None:
            return Answer(id=wire_id, error=self._fault), self._over.result() - since
        answer = answer_of_exit(wire_id, bytes(self._stdout), code, last_words(self.stderr))
        # One that answered in time and then did not exit is judged by when it answered.
        ended = self._last if code is None and answer.error != "timeout" else None
        ended = ended or (self._over.result() if self._over.done() else time.monotonic())
        if ended - since > deadline_s and answer.missing is None:
            answer = replace(answer, output=None, error="timeout")
        return answer, ended - since

    @property
    def listens(self) -> bool:
        """Also after its exit: what it printed before may still be in the pipe."""
        return self.gone in {None, CLOSED}

    def _no_more(self) -> None:
        pipe = self._transport.get_pipe_transport(0) if self._transport else None
        if pipe is not None:
            pipe.close()  # what was written is sent first

    def _read(self, data: bytes) -> None:
        self._stdout += data
        self._last = time.monotonic()
        if len(self._stdout) > self._spawn.output_bytes:
            self._output_limit()

    def _settle_all(self, reason: str, *, fault: bool) -> None:
        self._fault = reason if fault else None
        self._stop_clock()

    def process_exited(self) -> None:
        super().process_exited()
        self._stop_clock()

    def _stop_clock(self) -> None:
        if not self._over.done():
            self._over.set_result(time.monotonic())


def answer_of_exit(wire_id: WireId, stdout: bytes, code: int | None, said: str) -> Answer:
    """What a process's end says about the run.

    Args:
        wire_id: of the run.
        stdout: all it printed there.
        code: exit code, below 0 for a signal; None: it did not exit in time.
        said: the line of stderr that tells why, or nothing.
    """
    try:
        return parse_only_answer(stdout, wire_id)
    except ProtocolBreachError as breach:
        protocol = f"protocol: {breach}"
    if code is None:
        return Answer(id=wire_id, error="timeout")
    if code == 0:
        return Answer(id=wire_id, missing=protocol)
    # A shell tells its command's signal as 128 and its number.
    number = -code if code < 0 else code - 128
    if number in _FROM_OUTSIDE and (code < 0 or number in {signal.SIGKILL, signal.SIGTERM}):
        return Answer(id=wire_id, missing=f"killed by {signal.Signals(number).name}")
    how = f"exit {code}" if code > 0 else f"crashed, {_signal_name(number)}"
    return Answer(id=wire_id, error=f"{said} ({how})" if said else how)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def last_words(stderr: str) -> str:
    """The line that says why a program ended: a Python exception's first, else the last one."""
    lines = stderr.splitlines()
    starts = [at for at, line in enumerate(lines) if line.startswith("Traceback (most recent call")]
    if starts:
        for line in lines[starts[-1] + 1 :]:
            if line.strip() and not line[0].isspace():
                return clean(line, MAX_SAID_CHARS)
    told = [line for line in lines if line.strip()]
    return clean(told[-1], MAX_SAID_CHARS) if told else ""


def at_home(command: Sequence[str], root: Path) -> tuple[str, ...]:
    """The command with its paths made absolute, for a process that runs somewhere else.

    A program is a path when it has a slash in it; an argument, when there is such a file in
    `root`, or such a folder and a slash in it.
    """
    program, *arguments = command
    if "/" in program:
        program = str(root / program)
    return (program, *(_absolute(word, root) for word in arguments))


def can_start(program: str, root: Path) -> bool:
    """Whether a command that begins with this word has a program to start."""
    return shutil.which(str(root / program) if "/" in program else program) is not None


def _absolute(word: str, root: Path) -> str:
    if not word or word.startswith("-") or "\0" in word:
        return word
    place = root / word
    try:
        found = place.is_file() or ("/" in word and place.is_dir())
    except OSError:  # such as a text far too long for a path
        return word
    return str(place) if found else word
