"""The promises of a harness, for a folder."""

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from connectors.harness import staging, swap
from connectors.harness.directory import DirectoryHarness
from contracts.harness import HarnessSnapshot
from contracts.protocols import Harness
from tests.contract.breaking import breaking
from tests.contract.harness_suite import FOLDERS_AFTER, FOLDERS_BEFORE, HarnessSuite, Worlds

WRITES = (
    (staging, "write_durable"), (swap, "write_durable"), (swap, "exchange"), (swap, "move_new"),
)  # fmt: skip


class DirectoryWorld:
    """A folder and a person with an editor."""

    before, after = FOLDERS_BEFORE, FOLDERS_AFTER
    extra, outside = "skills/extra/SKILL.md", "README.md"
    keeps_modes, names_states, remembers = True, False, False

    def __init__(self, folder: Path) -> None:
        self.root, self.work = folder / "agent", folder / "work"
        self.root.mkdir(parents=True)
        for path, file in self.before.files.items():
            self.put(path, file.data)
            (self.root / path).chmod(file.mode)
        self.harness: Harness = self.again()

    def again(self) -> Harness:
        return DirectoryHarness(
            self.root, include=["instructions/*.md", "skills/**"], work=self.work
        )

    def put(self, path: str, data: bytes | None) -> None:
        if data is None:
            (self.root / path).unlink()
        else:
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_bytes(data)

    async def seen(self) -> HarnessSnapshot:
        return await self.again().read()

    def written(self) -> int | None:
        return None

    def breaking(self, step: int) -> AbstractContextManager[Callable[[], bool]]:
        return breaking(WRITES, step)


class TestDirectory(HarnessSuite):
    @pytest.fixture
    def worlds(self, tmp_path: Path) -> Worlds:
        number = itertools.count()
        return lambda: DirectoryWorld(tmp_path / str(next(number)))
