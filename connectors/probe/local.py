"""What the probes of kinds worker and command share: a run's folder, limits, and the end of all."""

import asyncio
import os
import secrets
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from configs.gate_settings import LimitsSettings
from connectors.probe.environment import worker_environment
from connectors.probe.folder_stock import FolderStock
from connectors.probe.folders import RunFolder
from connectors.probe.limits import Watcher, limits_refused
from connectors.probe.network import network_off_refused
from connectors.probe.owner import Owner, take
from connectors.probe.process import Spawn
from connectors.probe.spans import ReadSpans, read_trace
from connectors.probe.wire import Answer, WireId, run_line
from contracts.errors import ProbeError
from contracts.harness import HarnessSnapshot, Observation
from contracts.json_types import Json
from contracts.traces import Trace

LOCAL = frozenset({"worker", "command"})
"""The kinds of probe that start processes of this machine."""
GRACE_S = 2.0
"""Beyond a run's deadline, how long its answer is waited for before its process is killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One run to be done."""

    wire_id: WireId
    line: bytes
    folder: RunFolder
    deadline_s: float


class LocalProbe(ABC):
    """Implements `contracts.protocols.Probe` with processes of this machine.

    Every run has a folder of its own with a copy of the harness. On exit nothing is left: no
    process, no folder. What a killed predecessor left is cleared on entry.
    """

    kind: str

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
        limits: LimitsSettings | None = None,
        network: bool = True,
        start_timeout_s: float = 60.0,
        grace_s: float = GRACE_S,
    ) -> None:
        """Start nothing yet.

        Args:
            command: program and arguments, without a shell.
            cwd: the operator's repository.
            work: our folder for what runs need.
            concurrency: runs at once; a worker may take fewer.
            timeout_s: upper bound of a run's deadline.
            env: variables given to the processes.
            pass_env: names of the operator's variables let through; few others are.
            read_spans: turns a file of spans into a trace.
            limits: what a process may use; None: the default settings.
            network: False: the processes have none but a loopback of their own.
            start_timeout_s: how long a worker may take to say ready.
            grace_s: beyond a run's deadline, how long its answer is waited for.
        """
        self._command = tuple(command)
        self._cwd = cwd.absolute()
        self._env = dict(env)
        self._pass_env = tuple(pass_env)
        self._concurrency = concurrency
        self._timeout_s = timeout_s
        self._grace_s = grace_s
        self._start_timeout_s = start_timeout_s
        self._read_spans = read_spans
        self._work = work
        self._limits = limits or LimitsSettings()
        self._network = network
        self._watcher = Watcher(self._limits)
        self._slots = asyncio.Semaphore(concurrency)
        self._starting = asyncio.Lock()
        self._held: Owner | None = None
        self._folders: FolderStock | None = None

    async def __aenter__(self) -> Self:
        """Take a folder; processes start with the first run.

        Raises:
            ProbeError: there is no place for folders, or a limit cannot be kept here.
        """
        refused = await asyncio.to_thread(isolation_refused, self._limits, network=self._network)
        if refused is not None:
            raise ProbeError(refused, backend=self.kind, operation="run")
        self._held = await asyncio.to_thread(take, self._work)
        self._folders = FolderStock(self._held.folder)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End every process with everything it started, and remove the folder."""
        await asyncio.shield(self._leave())

    async def _leave(self) -> None:
        owner, self._held = self._held, None
        try:
            await self._close()
            await self._watcher.close()
            if self._folders is not None:
                await self._folders.close()
        finally:
            if owner is not None:
                await asyncio.to_thread(owner.release)

    async def run(
        self, case_input: Json, harness: HarnessSnapshot, *, seed: int, deadline_s: float
    ) -> Observation:
        """Run once; see the protocol for what is an error, what is missing and what is raised."""
        if not self._command:
            raise ProbeError("probe.command: empty", backend=self.kind, operation="run")
        limit_s = min(deadline_s, self._timeout_s)
        wire_id = WireId(secrets.token_hex(16))
        async with self._slots:
            if self._folders is None:
                raise RuntimeError("the probe is not open")
            folder = await self._folders.take(harness)
            try:
                line = run_line(
                    wire_id, case_input=case_input, harness=str(folder.harness),
                    workdir=str(folder.workdir), seed=seed, deadline_s=limit_s,
                )  # fmt: skip
                asked = Asked(wire_id=wire_id, line=line, folder=folder, deadline_s=limit_s)
                answer, seconds = await self._ask(asked)
                return await asyncio.to_thread(self._observed, folder, answer, seconds)
            finally:
                self._folders.give_back(folder)

    @property
    def _owner(self) -> Owner:
        if self._held is None:
            raise RuntimeError("the probe is not open")
        return self._held

    @abstractmethod
    async def _ask(self, asked: Asked) -> tuple[Answer, float]:
        """The answer and its seconds."""

    @abstractmethod
    async def _close(self) -> None:
        """End what the kind of probe keeps between runs."""

    def _observed(self, folder: RunFolder, answer: Answer, seconds: float) -> Observation:
        if not folder.intact():
            return Observation(missing="harness changed", seconds=seconds)
        trace = None if answer.spans is None else self._trace(answer.spans)
        return Observation(
            output=answer.output, error=answer.error, missing=answer.missing, usage=answer.usage,
            trace=trace, seconds=seconds,
        )  # fmt: skip

    def _trace(self, name: str) -> Trace | None:
        temporary = Path(self._env.get("TMPDIR") or tempfile.gettempdir())
        allowed = (self._work, self._cwd, temporary)
        return read_trace(name, allowed=allowed, read_spans=self._read_spans)

    def _spawn(
        self, command: Sequence[str], *, cwd: Path, temporary: Path, extra: Mapping[str, str]
    ) -> Spawn:
        """How a process starts, with `temporary` for its temporary files."""
        mark = self._owner.new_mark()
        rooms = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))
        env = worker_environment(
            os.environ, names=self._pass_env, extra={**rooms, **self._env, **extra}, run_id=mark
        )
        return Spawn(
            kind=self.kind, command=command, cwd=cwd, env=env, mark=mark, limits=self._limits,
            network=self._network,
        )  # fmt: skip


def isolation_refused(limits: LimitsSettings, *, network: bool) -> str | None:
    """The setting that cannot be kept on this machine, in one line; None: all can."""
    if (why := limits_refused(limits)) is not None:
        return f"probe.limits: cannot be enforced here: {why}"
    if not network and (why := network_off_refused()) is not None:
        return f"probe.network: off cannot be enforced here: {why}"
    return None
