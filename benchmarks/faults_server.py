"""Server processes that die and are started again, and a client that does not give up."""

import os
import random
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks.faults_points import Point

SERVING = re.compile(r"serving on (http://\S+)")
STOP_SECONDS = 20
KILL_WITHIN_S = 7.0
"""A random kill comes this long after the start at the latest: about as long as a story takes."""
ASK_AGAIN = frozenset({429, 502, 503, 504})
"""Answers that tell a client to come again."""


class Broken(AssertionError):
    """A promise was not kept in a story, or the story did not come to its end in time."""


@dataclass(slots=True)
class Deadline:
    """When a story must be over, by the monotonic clock."""

    seconds: float
    begun: float = field(default_factory=time.monotonic)

    def check(self, waiting_for: str) -> None:
        """Raise when it is over.

        Raises:
            Broken: names what was waited for.
        """
        if time.monotonic() - self.begun > self.seconds:
            raise Broken(f"not within {self.seconds:.0f} s: {waiting_for}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How a server process is started. `command` is given the arguments of `kill_at.py`."""

    command: Callable[[tuple[str, ...]], Sequence[str]]
    cwd: Path
    environ: Mapping[str, str]
    log: Path
    address: Callable[[str], str | None]
    """Its URL, from what it has written so far; None: it does not serve yet."""
    stops_with: frozenset[int] = frozenset({0})
    """Exit codes after SIGTERM."""


def serving(said: str) -> str | None:
    """The address in the one line that `tracemend serve` writes once it listens."""
    found = SERVING.search(said)
    return found.group(1) if found else None


class Server:
    """One process, the first of a group of its own."""

    def __init__(self, start: Start, killer: tuple[str, ...]) -> None:
        self.start = start
        self._from = start.log.stat().st_size if start.log.exists() else 0
        with start.log.open("ab") as out:
            self.process = subprocess.Popen(  # noqa: S603  # our own command line
                start.command(killer), cwd=start.cwd, env=dict(start.environ),
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip

    @property
    def said(self) -> str:
        """What this process has written so far."""
        return self.start.log.read_bytes()[self._from :].decode("utf-8", "replace")

    @property
    def code(self) -> int | None:
        """How it ended; None: it lives."""
        return self.process.poll()

    def url(self) -> str | None:
        """Where it serves; None: not yet."""
        return self.start.address(self.said)

    def send(self, number: int) -> None:
        """A signal to it alone; what it started notices by itself."""
        if self.process.poll() is None:
            os.kill(self.process.pid, number)

    def end(self) -> int:
        """SIGTERM, then its exit code; what its group left behind is killed."""
        self.send(signal.SIGTERM)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired as late:
            raise Broken(f"it did not stop within {STOP_SECONDS} s of SIGTERM") from late
        finally:
            self.sweep()

    def sweep(self) -> None:
        """Kill what is left of its group; does nothing when nothing is."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self.process.wait(STOP_SECONDS)


class Servers:
    """The servers of one story, beside each other on the same installation.

    The first is killed as the point says. A process that was the only one is started again; of
    several, another one has to go on with its work (and a kill by the clock is made up for, as a
    supervisor does).
    """

    def __init__(
        self, starts: Sequence[Start], point: Point, deadline: Deadline, rng: random.Random
    ) -> None:
        self._starts, self._point, self._deadline, self._rng = starts, point, deadline, rng
        again = len(starts) == 1 or point.by_clock
        self._kills = point.kills if again else point.kills[:1]
        self._again = again
        self._timer: threading.Timer | None = None
        self.kills = 0
        self._running = [self._run(start, first=not n) for n, start in enumerate(starts)]

    @property
    def planned(self) -> int:
        """How often a process of this story is to be killed."""
        return len(self._kills)

    def _run(self, start: Start, *, first: bool) -> Server:
        kill = self._kills[self.kills] if first and self.kills < len(self._kills) else None
        server = Server(start, kill.words if kill is not None else ())
        if kill is not None and kill.when == "random":
            delay = self._rng.uniform(0.1, KILL_WITHIN_S)
            self._timer = threading.Timer(delay, server.send, (signal.SIGKILL,))
            self._timer.daemon = True
            self._timer.start()
        return server

    def mend(self) -> None:
        """Count what was killed, and start again what has nobody to go on with its work.

        Raises:
            Broken: a server ended in another way than it was to.
        """
        for server in list(self._running):
            code = server.code
            if code is None:
                continue
            if code != -signal.SIGKILL:
                raise Broken(f"a server ended by itself: exit {code}: {server.said[-1500:]}")
            self.kills += 1
            server.sweep()
            self._running.remove(server)
            if self._again:
                self._running.append(self._run(server.start, first=True))

    def kill_if_planned(self) -> None:
        """The client has an answer: SIGKILL the first server when its end is to come now."""
        if self.kills < len(self._kills) and self._kills[self.kills].when == "answered":
            self._running[0].send(signal.SIGKILL)
            self._running[0].process.wait(STOP_SECONDS)
            self.mend()

    def url(self) -> str:
        """Where a server answers now, the first one if it lives."""
        while True:
            self.mend()
            for server in self._running:
                if found := server.url():
                    return found
                if len(self._running) == len(self._starts):
                    break  # the first is still starting: it is the one to ask
            self._deadline.check("a server that answers")
            time.sleep(0.05)

    def ready(self) -> None:
        """Wait until every server answers, so that the others are there when one dies."""
        while not all(server.url() for server in self._running):
            self._deadline.check("every server answering")
            if any(server.code is not None for server in self._running):
                return
            time.sleep(0.05)

    def ask(
        self, method: str, path: str, *, headers: Mapping[str, str], body: object = None
    ) -> httpx.Response:
        """The answer to a request that is sent again, the same, until there is one."""
        while True:
            self._deadline.check(f"an answer to {method} {path}")
            url = self.url()
            try:
                found = httpx.request(
                    method, url + path, json=body, headers=dict(headers), timeout=30
                )  # fmt: skip
            except httpx.TransportError:
                time.sleep(0.05)
                continue
            if found.status_code not in ASK_AGAIN:
                return found
            time.sleep(0.3)

    def until(self, what: str, look: Callable[[], Any]) -> Any:  # noqa: ANN401  # what `look` finds
        """What `look` finds, once it finds something."""
        while True:
            self.mend()
            if found := look():
                return found
            self._deadline.check(what)
            time.sleep(0.05)

    def stop(self) -> None:
        """SIGTERM to all that live.

        Raises:
            Broken: one did not end with 0.
        """
        self._no_more_kills()
        for server in self._running:
            code = server.end()
            killed = self._point.by_clock and code == -signal.SIGKILL
            if code not in server.start.stops_with and not killed:
                raise Broken(f"exit {code} at SIGTERM: {server.said[-1500:]}")

    def sweep(self) -> None:
        """Whatever happened: nothing of this story runs on."""
        self._no_more_kills()
        for server in self._running:
            server.sweep()

    def _no_more_kills(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
