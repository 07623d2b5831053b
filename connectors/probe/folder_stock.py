"""Folders of runs, made ahead and removed behind, so that a run waits for neither."""

import asyncio
from pathlib import Path

from connectors.probe.folders import RunFolder, lay_out
from contracts.harness import HarnessSnapshot


class FolderStock:
    """Keeps one folder ready for each snapshot that was asked for. For one event loop."""

    def __init__(self, parent: Path) -> None:
        """Take where the folders lie."""
        self._parent = parent
        self._ready: dict[int, asyncio.Task[RunFolder]] = {}
        """By identity of the snapshot, which its folder holds: equal ones just have two."""
        self._under_way: set[asyncio.Task[RunFolder] | asyncio.Task[None]] = set()

    async def take(self, snapshot: HarnessSnapshot) -> RunFolder:
        """A folder that nobody had before; give it back.

        Raises:
            ProbeError: it cannot be written.
            PolicyRefused: a path of the snapshot would leave the folder.
        """
        ready = self._ready.pop(id(snapshot), None) or self._lay_out(snapshot)
        folder = await asyncio.shield(ready)  # who is cancelled here leaves it to the end of all
        self._under_way.discard(ready)
        if id(snapshot) not in self._ready:
            self._ready[id(snapshot)] = self._lay_out(snapshot)
        return folder

    def give_back(self, folder: RunFolder) -> None:
        """Have it removed."""
        removal = asyncio.create_task(asyncio.to_thread(folder.remove))
        self._under_way.add(removal)
        removal.add_done_callback(self._under_way.discard)

    async def close(self) -> None:
        """Wait until nothing is written or removed any more; what is ready stays where it is."""
        self._ready.clear()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _lay_out(self, snapshot: HarnessSnapshot) -> asyncio.Task[RunFolder]:
        task = asyncio.create_task(asyncio.to_thread(lay_out, self._parent, snapshot))
        self._under_way.add(task)
        return task
