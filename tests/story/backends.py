"""Story worlds whose traces are at a backend: a server on loopback, and projects that read it."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import yaml

from contracts.json_types import Json
from contracts.traces import SpanId, Trace, TraceId
from tests.fakes.langfuse import PUBLIC, SECRET
from tests.fakes.serving import Seen
from tests.story.worlds import REPOSITORY, Finished, World, copy_world
from tests.trace_worlds import read_all

KEYS = {"LANGFUSE_PUBLIC_KEY": PUBLIC, "LANGFUSE_SECRET_KEY": SECRET}
CLOSED_PORT = "http://127.0.0.1:9"


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """What the example recorded: a calm last week and a stormy day."""

    files: tuple[Path, ...]
    traces: tuple[Trace, ...]


def corpus_of(world: World) -> Corpus:
    """The recorded traces of a world."""
    files = tuple(sorted((world.root / "traces").glob("*.jsonl")))
    traces = [trace for file in files for trace in read_all(file)[0]]
    return Corpus(files=files, traces=tuple(traces))


def again(traces: Iterable[Trace], times: int, *, apart: timedelta) -> list[Trace]:
    """Every trace so many times, each time so much earlier and under other ids."""
    return [_moved(trace, number, -number * apart) for number in range(times) for trace in traces]


def _moved(trace: Trace, number: int, by: timedelta) -> Trace:
    if not number:
        return trace
    trace_id = TraceId(f"{number:04x}{trace.id[4:]}")
    spans = tuple(
        replace(
            span,
            trace_id=trace_id,
            id=_renamed(span.id, number),
            parent_id=span.parent_id and _renamed(span.parent_id, number),
            started_at=span.started_at + by,
            ended_at=_later(span.ended_at, by),
        )
        for span in trace.spans
    )
    session = trace.session_id and f"{trace.session_id}-{number}"
    return replace(trace, id=trace_id, spans=spans, session_id=session)


def _renamed(span_id: SpanId, number: int) -> SpanId:
    return SpanId(f"{number:04x}{span_id[4:]}")


def _later(when: datetime | None, by: timedelta) -> datetime | None:
    return None if when is None else when + by


def reading(world: World, root: Path, *entries: Mapping[str, Json], **more: Json) -> World:
    """A copy of the world without files of traces, that reads these places instead."""
    made = copy_world(world, root)
    shutil.rmtree(made.root / "traces")
    configure(made, traces=[dict(entry) for entry in entries], **more)
    return made


def configure(world: World, **sections: Json) -> None:
    """Replace sections of the world's tracemend.yaml."""
    file = world.root / "tracemend.yaml"
    settings = yaml.safe_load(file.read_text("utf-8"))
    file.write_text(yaml.safe_dump({**settings, **sections}), "utf-8")


def command(world: World, *words: str, keys: Mapping[str, str] = KEYS) -> Finished:
    """A command of the world with these keys, and none of the developer's."""
    return _run(world, world.command(*words), keys)


def run_at(
    world: World, script: Sequence[str], *words: str, keys: Mapping[str, str] = KEYS
) -> Finished:
    """The same, in a process that a script of the tests prepares."""
    return _run(world, [*script, "--", *words], keys)


def _run(world: World, line: Sequence[str], keys: Mapping[str, str]) -> Finished:
    kept = {k: v for k, v in world.environ.items() if not k.startswith(_VENDORS)}
    done = subprocess.run(
        line, cwd=world.root, env={**kept, "PYTHONPATH": os.fspath(REPOSITORY), **keys},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return Finished(code=done.returncode, out=done.stdout, err=done.stderr)


_VENDORS = ("LANGFUSE_", "LANGSMITH_", "LANGCHAIN_", "PHOENIX_")


def said_once(done: Finished) -> str:
    """The one line in which a command says what went wrong."""
    lines = [line for line in done.err.splitlines() if line.startswith("tracemend: ")]
    assert len(lines) == 1, done.err
    assert "Traceback" not in done.err + done.out
    return lines[0]


def holders(root: Path, secrets: Sequence[str]) -> list[str]:
    """Files below `root` in whose bytes one of the secrets stands."""
    return [
        os.fspath(path.relative_to(root))
        for path in sorted(root.rglob("*"))
        if path.is_file() and any(secret.encode() in path.read_bytes() for secret in secrets)
    ]


def addresses(seen: Iterable[Seen]) -> list[str]:
    """What was asked, with its query."""
    return [f"{one.path}?{one.query}" for one in seen]
