"""Progress on stderr: a bar on a terminal, one line a step elsewhere, nothing when quiet."""

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as Bars

from contracts.json_types import JsonObject

_STORY = {
    "router": "routing the request",
    "insights": "reading traces, finding what keeps failing",
    "evolution": "drafting an edit",
    "plan": "planning the gate, writing the card",
    "gate": "running the agent with and without the edit",
    "apply": "applying",
    "watch": "counting in production",
    "handoff": "filing a hand-off",
    "learn": "keeping the lesson",
}


class Progress:
    """Shows what a run does, from the events it streams."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(stderr=True, quiet=quiet, highlight=False)
        self._alive = not quiet and sys.stderr.isatty()
        self._bar: tuple[str, Bars, TaskID] | None = None
        self._said: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.clear()

    def clear(self) -> None:
        """Take the bar off the screen; whoever prints something else calls this first."""
        if self._bar is not None:
            self._bar[1].stop()
            self._bar = None

    def say(self, line: str) -> None:
        """One line of the story."""
        self.clear()
        self._console.print(f"   {line}", markup=False, soft_wrap=True)

    def event(self, event: JsonObject) -> None:
        """Show one event of a run: `{node}` when a node ended, `{step, done, of}` inside one."""
        step = event.get("step")
        done, of = event.get("done"), event.get("of")
        if isinstance(step, str) and isinstance(done, int) and isinstance(of, int):
            self.count(step, done, of, more=_more(event))
            return
        self.clear()
        node = event.get("node")
        if isinstance(node, str) and node in _STORY and node not in self._said:
            self._said.add(node)
            self.say(f"{node:<10}{_STORY[node]}")

    def count(self, step: str, done: int, of: int, *, more: str = "") -> None:
        """Move the bar of a step; off a terminal, say a line at every quarter.

        `more` is what else there is to say of it: time, money, what is still open.
        """
        quarter = f"{step} {4 * done // max(of, 1)}"
        if not self._alive:
            if quarter not in self._said:
                self._said.add(quarter)
                self.say(f"{step}: {done}/{of}{more}")
            return
        if self._bar is None or self._bar[0] != step:
            self.clear()
            bars = Bars(
                TextColumn("   {task.description}"), BarColumn(), MofNCompleteColumn(),
                TimeElapsedColumn(), TextColumn("{task.fields[more]}"), console=self._console,
                transient=True,
            )  # fmt: skip
            bars.start()
            self._bar = (step, bars, bars.add_task(step, total=of, more=more))
        self._bar[1].update(self._bar[2], completed=done, total=of, more=more)
        if done >= of:
            self.clear()


def _more(event: JsonObject) -> str:
    """Time, money and open claims of an event, as far as it has them: ", 12 s, $0.03, L2 open"."""
    said = []
    seconds, usd, ahead = event.get("elapsed_s"), event.get("spent_usd"), event.get("open")
    if isinstance(seconds, int | float):
        said.append(f"{seconds:.0f} s")
    if isinstance(usd, int | float):
        said.append(f"${usd:.2f}")
    names = [name for name in ahead if isinstance(name, str)] if isinstance(ahead, list) else []
    if names:
        said.append(f"{' '.join(names)} open")
    return "".join(f", {part}" for part in said)
