"""One small agent, served as each kind of probe that starts processes of this machine.

An agent is Python source that defines `agent(run)`: it takes the run's message and returns the
answer without its id. Whatever kind serves it, it may call `text_of(run, path)` for a file of the
harness, and finds the usual modules imported.
"""

import asyncio
import sys
import textwrap
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from connectors.probe.command import CommandProbe
from connectors.probe.local import LocalProbe
from connectors.probe.worker import WorkerProbe
from contracts.harness import HarnessFile, HarnessSnapshot, Observation
from contracts.json_types import Json
from contracts.traces import Span, SpanId, Trace, TraceId

Kind = Literal["worker", "command"]
KINDS: Final[tuple[Kind, ...]] = ("worker", "command")

HARNESS = HarnessSnapshot(
    files={
        "instructions/main.md": HarnessFile(data=b"Be brief.\r\n"),
        "skills/run/tool.sh": HarnessFile(data=b"#!/bin/sh\n", mode=0o755),
    }
)
OTHER = HarnessSnapshot(files={"instructions/main.md": HarnessFile(data=b"Be kind.\n")})

HEAD = """
import json, os, signal, socket, subprocess, sys, threading, time
from pathlib import Path

def say(**message):
    print(json.dumps(message), flush=True)

def runs():
    for line in sys.stdin:
        message = json.loads(line)
        if message["op"] == "stop":
            return
        yield message

def ready(concurrency=1):
    say(op="ready", v=1, concurrency=concurrency)

def text_of(run, path):
    return (Path(run["harness"]) / path).read_bytes().decode()

"""
"""What each script begins with: the protocol by hand, in few lines."""

_SERVED: Final[dict[Kind, str]] = {
    "worker": """
ready(64)
def work(run):
    say(id=run["id"], **agent(run))
for run in runs():
    threading.Thread(target=work, args=(run,), daemon=True).start()
""",
    "command": """
run = json.loads(sys.stdin.read())
say(id=run["id"], **agent(run))
""",
}
_PROBES: Final[dict[Kind, type[LocalProbe]]] = {"worker": WorkerProbe, "command": CommandProbe}

ProbeOf = Callable[..., LocalProbe]


def one_span(path: Path) -> Trace:
    """Reads spans of these tests: the file's text is the name of the only span."""
    span = Span(
        id=SpanId("s"), trace_id=TraceId("t"), parent_id=None, name=path.read_text(), kind="agent",
        status="ok", started_at=datetime(2025, 1, 1, tzinfo=UTC), ended_at=None,
    )  # fmt: skip
    return Trace(id=TraceId("t"), spans=(span,))


def script_probe(kind: Kind, root: Path, script: str, **changed: object) -> LocalProbe:
    """A probe whose program is the whole script `HEAD` and `script`; it is not entered yet."""
    (root / "program.py").write_text(HEAD + textwrap.dedent(script))
    settings: dict[str, object] = {
        "command": [sys.executable, "program.py"], "cwd": root, "work": root / "work",
        "concurrency": 1, "timeout_s": 60.0, "env": {}, "pass_env": [], "grace_s": 0.3,
        "read_spans": one_span,
    }  # fmt: skip
    return _PROBES[kind](**(settings | changed))  # type: ignore[arg-type]  # named above


def agent_probe(kind: Kind, root: Path, agent: str, **changed: object) -> LocalProbe:
    """A probe of this kind for an agent that is written once for all kinds."""
    return script_probe(kind, root, textwrap.dedent(agent) + _SERVED[kind], **changed)


async def once(probe: LocalProbe, case_input: Json = "hi", deadline_s: float = 60) -> Observation:
    """One run with the usual harness."""
    return await probe.run(case_input, HARNESS, seed=7, deadline_s=deadline_s)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what comes in its own time, however busy the machine is."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  other processes send no event
            await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether the process still runs; one that waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def there(place: Json) -> bool:
    """Whether there is anything at a place that an agent told."""
    return Path(str(place)).exists()


def left_in(work: Path) -> list[str]:
    """What is under our folder beside the lock that probes share."""
    return sorted(str(p.relative_to(work)) for p in work.rglob("*") if p.name != "probes.lock")
