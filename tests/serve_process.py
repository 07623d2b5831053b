"""`tracemend serve` as a real process on a free port of loopback."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

KILLER = Path(__file__).parent / "story" / "kill_at.py"
STARTS_WITHIN_S = 120
STOPS_WITHIN_S = 60
_SERVING = re.compile(r"serving on (http://\S+)")


@dataclass(slots=True, kw_only=True)
class ServeProcess:
    """A server that listens. `lines` is its stderr so far."""

    process: "subprocess.Popen[str]"
    url: str = ""
    lines: list[str] = field(default_factory=list)

    @property
    def log(self) -> str:
        """Everything it wrote."""
        return "".join(self.lines)

    def stop(self, sign: signal.Signals = signal.SIGTERM) -> int:
        """Tell it to stop; its exit code."""
        self.process.send_signal(sign)
        return self.process.wait(STOPS_WITHIN_S)

    def wait_for(self, text: str) -> None:
        """Until it wrote this."""
        deadline = time.monotonic() + STARTS_WITHIN_S
        while text not in self.log:
            assert time.monotonic() < deadline, f"never wrote {text!r}: {self.log}"
            time.sleep(0.02)


def environ_of(home: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a command; no variable of the developer's reaches it."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TRACEMEND")}
    return {**kept, "TRACEMEND_HOME": str(home), **(more or {})}


@contextmanager
def serve_process(
    home: Path, *words: str, more: Mapping[str, str] | None = None, killer: tuple[str, ...] = ()
) -> Iterator[ServeProcess]:
    """Run it until the block ends, and then end it whatever it does.

    With `killer` it kills itself at that point (tests/story/kill_at.py).
    """
    how = [str(KILLER), *killer, "--"] if killer else ["-m", "graph.cli.main"]
    command = [sys.executable, *how, "serve", "--port", "0", *words]
    process = subprocess.Popen(
        command, env=environ_of(home, more), stderr=subprocess.PIPE, text=True
    )
    served = ServeProcess(process=process)
    reading = threading.Thread(target=_read, args=(served,), daemon=True)
    reading.start()
    try:
        deadline = time.monotonic() + STARTS_WITHIN_S
        while not (found := _SERVING.search(served.log)):
            assert process.poll() is None, f"it ended with {process.returncode}: {served.log}"
            assert time.monotonic() < deadline, f"it does not serve: {served.log}"
            time.sleep(0.02)
        served.url = found[1]
        yield served
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(STOPS_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        reading.join(10)
        if process.stderr is not None:
            process.stderr.close()


def _read(served: ServeProcess) -> None:
    if served.process.stderr is not None:
        served.lines.extend(iter(served.process.stderr.readline, ""))
