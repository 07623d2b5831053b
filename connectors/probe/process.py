"""One process of the operator's: its start, what it prints, its end with all it began."""

import asyncio
import contextlib
import os
import secrets
import shlex
import signal
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import cast

from configs.gate_settings import LimitsSettings
from connectors.probe.limits import MB, Watcher, backstop_bytes
from connectors.probe.network import launch_failure, launcher
from connectors.probe.tree import Tree
from connectors.probe.wire import clean
from contracts.errors import ProbeError

STDERR_BYTES = 64 * 1024
SETTLE_S = 1.0
"""How long a process may take to exit after it closed stdout, or was told to stop."""
REAP_S = 5.0
CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawn:
    """How to start a process."""

    kind: str
    """Of the probe, for messages."""
    command: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    mark: str
    """`TRACEMEND_RUN_ID` in `env`."""
    limits: LimitsSettings
    network: bool

    @property
    def shown(self) -> str:
        """The command for a message."""
        return clean(shlex.join(self.command), 200)

    @property
    def output_bytes(self) -> int:
        """Longest answer."""
        return int(self.limits.output_mb * MB)


class AgentProcess(asyncio.SubprocessProtocol, ABC):
    """A process in a session of its own, under limits, whose end takes along all it started.

    Attributes:
        gone: why it takes part in nothing any more; None while it does.
    """

    def __init__(self, spawn: Spawn, watcher: Watcher) -> None:
        self.gone: str | None = None
        self._spawn = spawn
        self._watcher = watcher
        self._token = secrets.token_hex(8)
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stderr = bytearray()
        self._transport: asyncio.SubprocessTransport | None = None
        self._tree: Tree | None = None
        self._reaped = False

    @property
    def tree(self) -> Tree:
        """Its processes, once it was launched."""
        if self._tree is None:
            raise RuntimeError("the process was not launched")
        return self._tree

    @property
    def code(self) -> int | None:
        """Exit code, below 0 for a signal; None: it runs, or was never started."""
        return self._transport.get_returncode() if self._transport else None

    async def launch(self) -> None:
        """Start it. That the command itself is no program shows later: see `failed_to_start`.

        Raises:
            ProbeError: nothing can be started.
        """
        spawn = self._spawn
        words = launcher(
            self._token, data_bytes=backstop_bytes(spawn.limits), network=spawn.network
        )
        try:
            transport, _ = await asyncio.get_running_loop().subprocess_exec(
                lambda: self, *words, *spawn.command, cwd=str(spawn.cwd), env=dict(spawn.env),
                stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            raise self.failure(f"cannot be started: {error}") from None
        self._tree = Tree.of(transport.get_pid(), spawn.mark)
        self._watcher.watch(self)

    @property
    def listens(self) -> bool:
        """Whether what it prints on stdout still counts."""
        return self.gone is None

    @property
    def failed_to_start(self) -> str | None:
        """Why the command never became a process; None: it did, or is about to."""
        said = launch_failure(bytes(self._stderr), self._token)
        return None if said is None else f"cannot be started: {said}"

    @property
    def stderr(self) -> str:
        """The end of what it printed there."""
        return self._stderr.decode("utf-8", "replace")

    def failure(self, what: str) -> ProbeError:
        """The error with the command, what happened, and the last line of stderr."""
        lines = [x for x in self.stderr.splitlines() if x.strip() and self._token not in x]
        said = f"; stderr: {clean(lines[-1], 200)}" if lines else ""
        kind = self._spawn.kind
        message = f"probe: the {kind} `{self._spawn.shown}` {clean(what, 300)}{said}"
        return ProbeError(message, backend=kind, operation="run")

    def end(self, reason: str, *, fault: bool = False) -> None:
        """Kill the process group and settle what is under way.

        Args:
            reason: why, for the observation.
            fault: the agent itself is to blame.
        """
        if self.gone is not None:
            return
        self.gone = reason
        self._kill_group()
        self._settle_all(reason, fault=fault)

    def exceed(self, reason: str) -> None:
        """End it for what it used."""
        self.end(reason, fault=True)

    async def close(self) -> None:
        """End it and all it started, also children that left its process group."""
        self._watcher.forget(self)
        if self._transport is None:
            return
        if self.gone is None:
            self.gone = CLOSED
            await self._farewell()
        self._kill_group()
        if self._tree is not None:
            await asyncio.to_thread(self._tree.kill)
        await asyncio.wait((self._ended,), timeout=REAP_S)
        self._transport.close()

    @abstractmethod
    def _settle_all(self, reason: str, *, fault: bool) -> None:
        """What is under way has this end."""

    @abstractmethod
    def _read(self, data: bytes) -> None:
        """Take what it printed on stdout."""

    async def _farewell(self) -> None:
        """What is said to a process that may still take part, before it is killed."""

    def _output_limit(self) -> None:
        self.end(f"output limit {self._spawn.limits.output_mb:g} MB", fault=True)

    def _write(self, line: bytes) -> None:
        pipe = self._transport.get_pipe_transport(0) if self._transport else None
        if pipe is not None and not pipe.is_closing():
            cast("asyncio.WriteTransport", pipe).write(line)

    def _kill_group(self) -> None:
        if self._transport is not None and not self._reaped:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._transport.get_pid(), signal.SIGKILL)

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._stderr += data
            del self._stderr[:-STDERR_BYTES]
        elif self.listens:
            self._read(data)

    def process_exited(self) -> None:
        self._kill_group()  # children it left behind; later its number may be somebody else's
        self._reaped = True
        self._watcher.forget(self)

    def connection_lost(self, exc: Exception | None) -> None:
        # Called when the process has exited and all it wrote was read.
        if not self._ended.done():
            self._ended.set_result(None)
