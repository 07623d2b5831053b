"""Real servers of other people for tests: started on loopback, stopped by the pid that was started.

Each is a context manager. `missing_*` says why one cannot run here; tests skip with that reason.
"""

import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

REPOSITORY = Path(__file__).resolve().parents[1]
AEGRA_PYTHON = REPOSITORY / ".venv-aegra" / "bin" / "python"
START_SECONDS = 180
"""A server that imports everything on a busy machine with two cores."""
STOP_SECONDS = 30
STAGE_2 = "several servers, minutes of work: .ci/run 2, or uv run --group servers pytest -m servers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A server process of ours, the first of a process group of its own."""

    url: str
    process: "subprocess.Popen[bytes]" = field(repr=False)
    log: Path

    @property
    def said(self) -> str:
        """All that it has written so far."""
        return self.log.read_text("utf-8", "replace")

    def kill(self) -> None:
        """SIGKILL, to it and its children: nothing is cleaned up."""
        _signal(self.process, signal.SIGKILL)
        self.process.wait(STOP_SECONDS)

    def stop(self) -> None:
        """SIGTERM; what does not end is killed."""
        _signal(self.process, signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def wait_killed(self, seconds: float = 240) -> None:
        """Until it has killed itself where `tests/story/kill_at.py` was told to."""
        code = self.process.wait(seconds)
        assert code == -signal.SIGKILL, f"exit {code}\n{self.said[-3000:]}"


def _signal(process: "subprocess.Popen[bytes]", number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(
    command: Sequence[str],
    *,
    cwd: Path,
    environ: Mapping[str, str],
    log: Path,
    url: Callable[[str], str | None],
) -> Iterator[Running]:
    """Start a command, wait until it serves, stop it.

    Args:
        command: the whole command line.
        cwd: where it runs.
        environ: its whole environment.
        log: where its output goes; appended to, so that a second start keeps the first one's.
        url: given the output so far, where it serves once it does, else None.
    """
    begun = log.stat().st_size if log.exists() else 0
    with log.open("ab") as out:
        process = subprocess.Popen(
            command, cwd=cwd, env=dict(environ), stdin=subprocess.DEVNULL, stdout=out,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        found = _wait(process, log, begun, url)
        yield (server := Running(url=found, process=process, log=log))
        server.stop()
    finally:
        if process.poll() is None:
            Running(url="", process=process, log=log).kill()


def _wait(
    process: "subprocess.Popen[bytes]", log: Path, begun: int, url: Callable[[str], str | None]
) -> str:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        said = log.read_bytes()[begun:].decode("utf-8", "replace")
        if found := url(said):
            return found
        time.sleep(0.2)
    said = log.read_text("utf-8", "replace")
    raise AssertionError(f"it does not serve (exit {process.poll()}):\n{said[-4000:]}")


def answers(url: str, path: str) -> Callable[[str], str | None]:
    """For `running`: it serves at `url` once GET `path` is answered 200."""

    def look(_said: str) -> str | None:
        try:
            return url if httpx.get(url + path, timeout=2).status_code == 200 else None
        except httpx.HTTPError:
            return None

    return look


def says(pattern: str) -> Callable[[str], str | None]:
    """For `running`: it serves at the first group of what it writes."""

    def look(said: str) -> str | None:
        found = re.search(pattern, said)
        return found.group(1) if found else None

    return look


def missing_redis() -> str | None:
    """Why no Redis can be started here; None: one can."""
    return None if shutil.which("redis-server") else "redis-server is not installed"


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """A Redis that keeps nothing; yields its URL."""
    port = free_port()
    command = [
        "redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", "",
        "--appendonly", "no", "--daemonize", "no", "--dir", str(folder),
    ]  # fmt: skip
    ready = says("(Ready to accept connections)")
    with running(command, cwd=folder, environ=os.environ, log=folder / "redis.log", url=ready):
        yield f"redis://127.0.0.1:{port}/0"


@contextmanager
def replica(
    environ: Mapping[str, str], *, cwd: Path, log: Path, killer: tuple[str, ...] = ()
) -> Iterator[Running]:
    """`tracemend serve` on a free port; with `killer` it kills itself at that point."""
    program = [str(REPOSITORY / "tests" / "story" / "kill_at.py"), *killer, "--"]
    words = program if killer else ["-m", "graph.cli.main"]
    command = [sys.executable, *words, "serve", "--port", "0"]
    serving = says(r"serving on (http://[0-9.]+:[0-9]+)")
    with running(command, cwd=cwd, environ=environ, log=log, url=serving) as server:
        yield server


def missing_langgraph_dev() -> str | None:
    """Why `langgraph dev` cannot run here; None: it can."""
    if importlib.util.find_spec("langgraph_api") is not None:
        return None
    return f"langgraph-cli[inmem] is not installed: {STAGE_2}"


@contextmanager
def langgraph_dev(
    environ: Mapping[str, str], *, folder: Path, port: int, jobs: int = 4,
    config: Path = REPOSITORY / "langgraph.json",
) -> Iterator[Running]:  # fmt: skip
    """`langgraph dev` on our `langgraph.json`, or another; what it keeps is in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload",
        "--host", "127.0.0.1", "--port", str(port), "--n-jobs-per-worker", str(jobs),
        "--config", str(config),
    ]  # fmt: skip
    quiet = {**environ, "LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"}
    ready = answers(f"http://127.0.0.1:{port}", "/ok")
    log = folder / "server.log"
    with running(command, cwd=folder, environ=quiet, log=log, url=ready) as server:
        yield server


def missing_aegra() -> str | None:
    """Why Aegra cannot run here; None: it can."""
    if missing_langgraph_dev() is not None:
        return STAGE_2
    if not AEGRA_PYTHON.exists():
        return ".venv-aegra is not there: `.ci/run 2` makes it where Python 3.12 is found"
    return missing_redis()


@contextmanager
def aegra(
    environ: Mapping[str, str], *, folder: Path, port: int, database: str, redis: str
) -> Iterator[Running]:
    """Aegra with Redis workers on its own database and `deploy/aegra.json`.

    Started as uvicorn itself: its own command leaves a child behind on SIGTERM.
    """
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        str(AEGRA_PYTHON), "-m", "uvicorn", "aegra_api.main:app", "--host", "127.0.0.1",
        "--port", str(port),
    ]  # fmt: skip
    own = {
        "AEGRA_CONFIG": str(REPOSITORY / "deploy" / "aegra.json"), "AUTH_TYPE": "custom",
        "DATABASE_URL": database, "REDIS_BROKER_ENABLED": "true", "REDIS_URL": redis,
        "PORT": str(port), "HOST": "127.0.0.1", "LOG_LEVEL": "WARNING",
        "LANGSMITH_TRACING": "false", "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    ready = answers(f"http://127.0.0.1:{port}", "/live")
    log = folder / "aegra.log"
    with running(command, cwd=folder, environ={**environ, **own}, log=log, url=ready) as server:
        yield server


def foreign(port: int, token: str) -> dict[str, str]:
    """The variables by which our mounted routes know the server that they are mounted into."""
    return {
        "TRACEMEND_SERVER__FOREIGN__URL": f"http://127.0.0.1:{port}",
        "TRACEMEND_SERVER__FOREIGN__TOKEN_ENV": "TRACEMEND_FOREIGN_TOKEN",
        "TRACEMEND_FOREIGN_TOKEN": token,
    }
