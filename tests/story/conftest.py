"""Traces are recorded once a session; every story works on a copy."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from worlds import World, build_world, copy_world  # noqa: E402


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A repository with a calm last week and a stormy day of traces."""
    return build_world(tmp_path_factory.mktemp("recorded") / "agent", requests=100)


@pytest.fixture
def world(recorded: World, tmp_path: Path) -> World:
    """A copy of its own for one story."""
    return copy_world(recorded, tmp_path / "agent")
