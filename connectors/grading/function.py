"""Call a function of the operator's about one run, in a process of its own."""

import asyncio
import contextlib
import json
import os
import secrets
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import tracemend_runtime

from connectors.probe.environment import worker_environment
from connectors.probe.wire import clean
from contracts.json_types import Json, JsonObject

TIMEOUT_S = 20.0
MAX_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionAnswer:
    """`holds` None: nobody knows, and `why` says so."""

    holds: bool | None
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """Where the operator's functions run."""

    command: Sequence[str]
    """Such as [.venv/bin/python]; empty: the interpreter of this process."""
    root: Path
    """The folder of `tracemend.yaml`: working directory, first on the import path."""
    env: Sequence[str] = ()
    """Names of variables let through."""


async def ask_function(
    where: Interpreter,
    function: str,
    run: JsonObject,
    args: Mapping[str, Json],
    *,
    timeout_s: float = TIMEOUT_S,
) -> FunctionAnswer:
    """What the function says of the run. Never raises for what the function does.

    Args:
        where: interpreter and folder.
        function: dotted, such as `checks.refunds.queued`.
        run: what the probe saw, as JSON.
        args: named arguments from the case.
        timeout_s: after this the process is killed with all it started, and nobody knows.
    """
    script = Path(tracemend_runtime.__file__).with_name("check.py")
    program = [*(where.command or (sys.executable,)), str(script)]
    first = where.root / program[0]
    if os.sep in program[0] and first.exists():
        program[0] = str(first)
    env = worker_environment(os.environ, names=where.env, extra={}, run_id=secrets.token_hex(16))
    request = json.dumps({"function": function, "args": dict(args), "run": run}).encode()
    try:
        process = await asyncio.create_subprocess_exec(
            *program, cwd=where.root, env=env, stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        return FunctionAnswer(holds=None, why=clean(f"cannot be started: {error}", 200))
    try:
        async with asyncio.timeout(timeout_s):
            said, _ = await process.communicate(request)
    except TimeoutError:
        return FunctionAnswer(holds=None, why=f"no answer within {timeout_s:g} s")
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return _read(said)


def _read(said: bytes) -> FunctionAnswer:
    """The last line as an answer; the function ran, but what it printed is data."""
    lines = said[-MAX_BYTES:].strip().splitlines()
    try:
        value: object = json.loads(lines[-1]) if lines else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        return FunctionAnswer(holds=None, why="the process ended without an answer")
    answer = cast("Mapping[str, Json]", value)
    holds, why = answer.get("holds"), answer.get("why")
    return FunctionAnswer(
        holds=holds if isinstance(holds, bool) else None,
        why=clean(why, 300) if isinstance(why, str) else None,
    )
