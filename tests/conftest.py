"""What every test runs under: no vendor tracing, strict checkpoints, nothing of the developer's."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from sqlalchemy import Engine, create_engine

os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"
for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2", "TRACEMEND_HOME"):
    os.environ.pop(name, None)

# A busy machine is no failure: examples are counted, never timed. CI runs the same examples for the
# same code; new ones are looked for wherever else the tests run.
settings.register_profile("untimed", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("untimed")

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture
def shared_data() -> Path:
    """The kit of real labelled traces; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("TRACEMEND_SHARED", REPOSITORY.parent / "shared")) / "data"
    if not folder.is_dir():
        pytest.skip(f"the data kit is not here: {folder} (set TRACEMEND_SHARED)")
    return folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation of its own."""
    folder = tmp_path / "home"
    monkeypatch.setenv("TRACEMEND_HOME", str(folder))
    return folder


@pytest.fixture(autouse=True)
def _home_is_forgotten() -> Iterator[None]:
    """An installation that a test opens says where it is by the environment, as a process does."""
    before = os.environ.get("TRACEMEND_HOME")
    yield
    if before is None:
        os.environ.pop("TRACEMEND_HOME", None)
    else:
        os.environ["TRACEMEND_HOME"] = before


@pytest.fixture(autouse=True)
def _engines_are_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Connections that the ledgers of a test pooled are closed with it."""
    made: list[Engine] = []

    def tracked(url: str, **options: Any) -> Engine:
        engine = create_engine(url, **options)
        made.append(engine)
        return engine

    monkeypatch.setattr("memory.database.create_engine", tracked)
    yield
    for engine in made:
        engine.dispose()
