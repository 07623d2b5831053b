"""Where a server is killed: every step that has an effect, before it and after it.

A point names a function of the product and which of its calls the process does not survive
(`tests/story/kill_at.py` wraps it), or a moment that only the client sees.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Stage = Literal["alert", "approve", "edit", "reject", "undo", "whole"]
"""What happens in the story: it begins at the world in which that is the next thing to happen."""

When = Literal["before", "after", "answered", "random"]
"""`answered`: the client has its answer, then the server is killed. `random`: by the clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """How one server process ends."""

    when: When
    place: str = ""
    """`module:Class.function`."""
    number: int = 1
    """Which call of it."""

    @property
    def words(self) -> tuple[str, ...]:
        """The arguments of `kill_at.py`; empty when the client kills."""
        if self.when not in ("before", "after"):
            return ()
        return (self.when, self.place, str(self.number))


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What happens in a story, and how its server processes end, one after the other."""

    stage: Stage
    name: str
    """In our words: what had happened and what had not."""
    kills: tuple[Kill, ...]
    """The process after the last of them is left alone."""

    @property
    def id(self) -> str:
        """Short and stable: it stands in results and in test ids."""
        return f"{self.stage}-{self.name.replace(' ', '-')}"

    @property
    def by_clock(self) -> bool:
        """Whether its kills may come at any moment, also when nothing happens."""
        return any(kill.when == "random" for kill in self.kills)


def _before(stage: Stage, name: str, place: str, number: int = 1, times: int = 1) -> Point:
    kill = Kill(when="before", place=place, number=number)
    return Point(stage=stage, name=name, kills=(kill,) * times)


def _after(stage: Stage, name: str, place: str, number: int = 1, times: int = 1) -> Point:
    kill = Kill(when="after", place=place, number=number)
    return Point(stage=stage, name=name, kills=(kill,) * times)


def _answered(stage: Stage, name: str) -> Point:
    return Point(stage=stage, name=name, kills=(Kill(when="answered"),))


ALERTS, INCIDENTS = "memory.alerts:Alerts", "memory.incidents:Incidents"
PROPOSALS, EFFECTS = "memory.proposals:Proposals", "memory.effects:Effects"
GATE, SERVICE = "memory.gate_ledger:GateLedger", "graph.service:Service"
HARNESS, SWAP = "connectors.harness.directory:DirectoryHarness", "connectors.harness.swap:Swap"
INSIGHTS, EVOLUTION = "nodes.insights.node", "nodes.evolution.node"
LOCAL_RUN, SERVER_RUN = "graph.drive:LocalDriver._run", "graph.drive_sdk:SdkDriver._run"
SQLITE = "langgraph.checkpoint.sqlite.aio:AsyncSqliteSaver"
POSTGRES = "langgraph.checkpoint.postgres.aio:AsyncPostgresSaver"

ANSWERED = (
    _answered("alert", "answered 202"),
    _answered("approve", "answered 200"),
    _answered("undo", "answered"),
)


def steps(run: str) -> tuple[Point, ...]:
    """Every step that has an effect, in the order in which they come; `run` drives a thread."""
    return (
        _before("alert", "not kept", f"{ALERTS}.receive"),
        _after("alert", "kept not answered", f"{ALERTS}.receive"),
        _before("alert", "intake not begun", f"{ALERTS}.settle"),
        _after("alert", "intake not committed", f"{ALERTS}.settle"),
        _before("alert", "bound not started", run),
        _before("alert", "window not fixed", f"{INSIGHTS}:_queries_once"),
        _after("alert", "window fixed", f"{INSIGHTS}:_queries_once"),
        _before("alert", "not analysed", f"{INSIGHTS}:analyze"),
        _before("alert", "analysed not kept", f"{INSIGHTS}:_keep"),
        _after("alert", "kept", f"{INSIGHTS}:_keep"),
        _before("alert", "not drafted", f"{EVOLUTION}:_keep", times=2),
        _after("alert", "drafted", f"{EVOLUTION}:_keep"),
        _before("alert", "planned not shown", f"{PROPOSALS}.put_card"),
        _after("alert", "planned", "nodes.plan:_freeze"),
        _after("alert", "at the interrupt", run),
        _before("alert", "waiting not noted", f"{INCIDENTS}.note"),
        _after("alert", "waiting noted", f"{INCIDENTS}.note"),
        _before("approve", "not inserted", f"{PROPOSALS}.decide"),
        _after("approve", "inserted not committed", f"{PROPOSALS}.decide"),
        _after("approve", "decided not answered", f"{SERVICE}.enter_decision"),
        _before("approve", "not resumed", run, times=2),
        _before("approve", "gate not opened", f"{GATE}.open"),
        _after("approve", "opening not committed", f"{GATE}.open"),
        _before("approve", "first block not kept", f"{GATE}.put_block"),
        _after("approve", "first block kept", f"{GATE}.put_block"),
        _before("approve", "twelfth block not kept", f"{GATE}.put_block", 12),
        _before("approve", "no verdict yet", "nodes.gate.node:_conclude"),
        _after("approve", "verdict kept", "nodes.gate.node:_conclude"),
        _before("approve", "not intended", f"{EFFECTS}.intend"),
        _after("approve", "intent not committed", f"{EFFECTS}.intend"),
        _before("approve", "intended not staged", f"{HARNESS}.stage"),
        _after("approve", "staged", f"{HARNESS}.stage"),
        _before("approve", "not switched", f"{HARNESS}.switch", times=2),
        _after("approve", "first file switched", f"{SWAP}.forward"),
        _after("approve", "switched not recorded", f"{HARNESS}.switch"),
        _after("approve", "record not committed", f"{EFFECTS}.finish"),
        _after("approve", "recorded", "nodes.apply:_record"),
        _before("approve", "nothing learnt", "nodes.learn:_learn"),
        _after("approve", "learnt", "nodes.learn:_learn"),
        _after("approve", "at the end", run),
        _before("approve", "end not noted", f"{INCIDENTS}.note"),
        _before("undo", "not decided", f"{PROPOSALS}.decide"),
        _after("undo", "decision not committed", f"{PROPOSALS}.decide"),
        _before("undo", "decided not bound", f"{INCIDENTS}.open"),
        _after("undo", "bound", f"{INCIDENTS}.open"),
        _before("undo", "not started", run),
        _after("undo", "intent not committed", f"{EFFECTS}.intend"),
        _after("undo", "staged", f"{HARNESS}.stage"),
        _before("undo", "not switched", f"{HARNESS}.switch"),
        _after("undo", "first file switched", f"{SWAP}.forward"),
        _after("undo", "record not committed", f"{EFFECTS}.finish"),
        _after("undo", "recorded", "nodes.apply:_record"),
        _after("undo", "at the end", run),
    )


def answers(run: str) -> tuple[Point, ...]:
    """The other two answers: an edit, after which the next card waits, and a reject."""
    return (
        _after("edit", "inserted not committed", f"{PROPOSALS}.decide"),
        _after("edit", "decided not answered", f"{SERVICE}.enter_decision"),
        _before("edit", "not resumed", run),
        _before("edit", "new card not shown", f"{PROPOSALS}.put_card"),
        _after("edit", "at the next interrupt", run),
        _after("reject", "inserted not committed", f"{PROPOSALS}.decide"),
        _after("reject", "decided not answered", f"{SERVICE}.enter_decision"),
        _before("reject", "not resumed", run),
        _before("reject", "nothing learnt", "nodes.learn:_learn"),
        _after("reject", "learnt", "nodes.learn:_learn"),
    )


def checkpoints(saver: str) -> tuple[Point, ...]:
    """Before and after checkpoints of a run are written, by the saver's class."""
    return (
        _before("alert", "first checkpoint not written", f"{saver}.aput"),
        _after("alert", "third checkpoint written", f"{saver}.aput", 3),
        _before("alert", "no write of a node kept", f"{saver}.aput_writes"),
        _before("approve", "second checkpoint not written", f"{saver}.aput", 2),
        _after("approve", "fourth checkpoint written", f"{saver}.aput", 4),
    )


RANDOM = Point(stage="whole", name="random", kills=(Kill(when="random"),) * 5)
QUIET = Point(stage="whole", name="none", kills=())


def chain(name: str, stage: Stage, some: Iterable[Point]) -> Point:
    """One story in which a process is killed at each of these points, one after the other."""
    return Point(stage=stage, name=name, kills=tuple(point.kills[0] for point in some))


CHAINED = 3
"""Every point is in one of so many whole stories: neighbours are in different ones."""


def chains(run: str) -> tuple[Point, ...]:
    """All points but those of the clock and of the client, in few stories: for tests."""
    every = steps(run)
    whole = (chain(f"chain {n + 1}", "whole", every[n::CHAINED]) for n in range(CHAINED))
    others = answers(run)
    parts: tuple[Stage, ...] = ("edit", "reject")
    return (*whole, *(chain("chain", s, (p for p in others if p.stage == s)) for s in parts))


def points(mode: str) -> tuple[Point, ...]:
    """All points of a mode."""
    if mode == "aegra":
        return (*ANSWERED, *steps(SERVER_RUN), *answers(SERVER_RUN))
    saver = POSTGRES if mode == "postgres" else SQLITE
    return (*ANSWERED, *steps(LOCAL_RUN), *answers(LOCAL_RUN), *checkpoints(saver))
