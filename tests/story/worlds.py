"""Worlds for story tests: the example's repository with recorded traces, and real processes."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from graph.cli.project import settings_text
from memory.ledger import Ledger, open_ledger
from memory.workspace import register

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLE = REPOSITORY / "examples" / "refund_agent" / "repo"
KILLER = Path(__file__).with_name("kill_at.py")
PROJECT = "refunds"
SEALED = 34
"""Enough for the standard profile (30) and few enough to keep a story short."""


PRECHECKED = 2
"""Sealed cases of the precheck: enough to be one, and few enough to keep a story short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The document on stdout."""
        document: dict[str, Any] = json.loads(self.out)
        return document


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One operator's repository with its own installation."""

    root: Path

    @property
    def environ(self) -> dict[str, str]:
        """The environment of every command; no variable of the developer's reaches the agent."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("TRACEMEND")}
        return {**kept, "TRACEMEND_HOME": str(self.root / ".tracemend")}

    def command(self, *words: str, killer: tuple[str, ...] = ()) -> list[str]:
        """The command line; with `killer`, of a process that kills itself at that point."""
        if killer:
            return [sys.executable, str(KILLER), *killer, "--", *words]
        return [sys.executable, "-m", "graph.cli.main", *words]

    def run(
        self, *words: str, killer: tuple[str, ...] = (), more: Mapping[str, str] | None = None
    ) -> Finished:
        """Run a command in the repository to its end."""
        done = subprocess.run(
            self.command(*words, killer=killer), cwd=self.root,
            env={**self.environ, **(more or {})}, capture_output=True, text=True, timeout=240,
            check=False,
        )  # fmt: skip
        return Finished(code=done.returncode, out=done.stdout, err=done.stderr)

    def ledger(self) -> Ledger:
        """The ledger as it is now; the caller closes it."""
        return open_ledger(self.root / ".tracemend" / "ledger.sqlite", PROJECT)

    @contextmanager
    def looking(self) -> Iterator[Ledger]:
        """The ledger for a look, closed afterwards."""
        ledger = self.ledger()
        try:
            yield ledger
        finally:
            ledger.close()

    def harness(self) -> dict[str, bytes]:
        """Every byte of the harness."""
        files = [*self.root.glob("instructions/*.md"), *self.root.glob("skills/**/*")]
        return {
            str(path.relative_to(self.root)): path.read_bytes() for path in files if path.is_file()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A world whose proposal waits for a person."""

    world: World
    proposal: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A world whose proposal was applied."""

    world: World
    proposal: str
    release: str
    before: dict[str, bytes]
    """The harness before the release."""


def probe_text() -> str:
    """The probe of the example agent."""
    return (
        f'probe:\n  kind: worker\n  command: ["{sys.executable}", "-m", '
        '"examples.refund_agent.worker"]\n  concurrency: 2\n  timeout_s: 30\n  env: []'
    )


def build_world(root: Path, *, requests: int, sealed: int | None = SEALED) -> World:
    """Copy the example, cut its sealed cases, record a calm last week and a stormy day."""
    from datetime import timedelta

    from examples.refund_agent.back_office import WEATHERS
    from examples.refund_agent.record import record
    from examples.refund_agent.requests import generate

    shutil.copytree(EXAMPLE, root)
    text = settings_text(PROJECT, traces="traces/*.jsonl", probe=probe_text(), uses=1)
    short = text.replace("max_usd: 5.0}", f"max_usd: 5.0, precheck_sealed: {PRECHECKED}}}")
    assert short != text
    (root / "tracemend.yaml").write_text(short, "utf-8")
    if sealed is not None:
        file = root / "cases" / "sealed.yaml"
        cases = yaml.safe_load(file.read_text("utf-8"))
        kept = [case for case in cases if "sealed" in case["tags"]][:sealed]
        file.write_text(yaml.safe_dump(kept, sort_keys=False), "utf-8")
    traces = root / "traces"
    traces.mkdir()
    week = timedelta(days=-7).total_seconds()
    for name, weather, seed, shift in (
        ("last-week", "calm", 7, week),
        ("this-week", "stormy", 1007, 0.0),
    ):
        record(
            generate(requests, seed), root, traces / f"{name}.otlp.jsonl",
            weather=WEATHERS[weather], seed=seed, time_shift_s=shift,
        )  # fmt: skip
    return World(root=root)


def copy_world(world: World, root: Path) -> World:
    """The same repository elsewhere, with what its installation holds, entered as itself."""
    shutil.copytree(world.root, root)
    (root / ".tracemend" / "projects.yaml").unlink(missing_ok=True)
    register(root / ".tracemend", PROJECT, root)
    return World(root=root)
