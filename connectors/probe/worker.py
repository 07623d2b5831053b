"""The probe of kind "worker": a process of the operator's that runs the agent on request."""

import asyncio
import secrets
from pathlib import Path

from connectors.probe.folders import remove_tree
from connectors.probe.local import Asked, LocalProbe
from connectors.probe.wire import Answer
from connectors.probe.worker_process import WorkerProcess


class WorkerProbe(LocalProbe):
    """Speaks the worker protocol.

    One process serves all runs. It starts on the first run, starts again after it broke the
    protocol, died or was killed, and is gone on exit with everything it started.
    """

    kind = "worker"
    _worker: WorkerProcess | None = None
    _room: Path | None = None
    """For the temporary files of the process; gone with it."""
    _alone = False
    """Runs are asked one at a time, since nobody knew which one went over a limit."""

    async def _ask(self, asked: Asked) -> tuple[Answer, float]:
        while True:
            worker = await self._running()
            async with worker.slots:
                # It may have gone while this run waited for a slot.
                if worker.gone is None:
                    return await worker.ask(
                        asked.wire_id, asked.line, deadline_s=asked.deadline_s,
                        grace_s=self._grace_s,
                    )  # fmt: skip

    async def _close(self) -> None:
        async with self._starting:
            await self._end_last()

    async def _running(self) -> WorkerProcess:
        """The worker, started when there is none or the last one is gone."""
        async with self._starting:
            if self._worker is not None and self._worker.gone is None:
                return self._worker
            await self._end_last()
            room = self._room = self._owner.folder / secrets.token_hex(8)
            await asyncio.to_thread(room.mkdir)
            spawn = self._spawn(self._command, cwd=self._cwd, temporary=room, extra={})
            self._worker = await WorkerProcess.start(
                spawn, self._watcher, timeout_s=self._start_timeout_s,
                concurrency=1 if self._alone else self._concurrency,
            )  # fmt: skip
            return self._worker

    async def _end_last(self) -> None:
        last, self._worker = self._worker, None
        room, self._room = self._room, None
        if last is not None:
            self._alone = self._alone or last.ambiguous
            await asyncio.shield(last.close())
        if room is not None:
            await asyncio.to_thread(remove_tree, room)
