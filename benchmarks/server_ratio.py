"""Run to the interrupt, and resume: ours beside a bare graph, in one process."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import cast
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from benchmarks.server_bare import BareState, build_bare
from benchmarks.server_worlds import Kit, plant
from graph.installation import Installation, open_installation
from graph.saver import open_saver
from memory.workspace import HOME_VARIABLE
from nodes.decide import Person

WHO = Person(name="load", via="api", authenticated=True)
REJECT = {"type": "reject", "message": "not_worth_it: a load test"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """Seconds of each call, and of all of them together at some concurrency."""

    each: tuple[float, ...]
    wall_s: float

    @property
    def per_second(self) -> float:
        """Finished calls a second."""
        return len(self.each) / self.wall_s

    @property
    def p50_ms(self) -> float:
        """The middle one."""
        return 1000 * median(self.each)

    @property
    def p95_ms(self) -> float:
        """One in twenty takes longer."""
        if len(self.each) < 2:
            return self.p50_ms
        return 1000 * quantiles(self.each, n=20, method="inclusive")[18]


async def timed(calls: Sequence[Callable[[], Awaitable[object]]], at_once: int) -> Timed:
    """Make every call, `at_once` at a time; the time that a call waits for its turn is not its."""
    free, each = asyncio.Semaphore(at_once), []

    async def one(call: Callable[[], Awaitable[object]]) -> None:
        async with free:
            begun = time.perf_counter()
            await call()
            each.append(time.perf_counter() - begun)

    begun = time.perf_counter()
    await asyncio.gather(*(one(call) for call in calls))
    return Timed(each=tuple(each), wall_s=time.perf_counter() - begun)


def merged(parts: Sequence[Timed]) -> Timed:
    """Several rounds as one."""
    return Timed(
        each=tuple(t for part in parts for t in part.each), wall_s=sum(p.wall_s for p in parts)
    )


Pair = tuple[Timed, Timed]
"""Run to interrupt, resume."""


async def bare_round(file: Path, count: int, at_once: int) -> Pair:
    """`count` threads of the bare graph on a SQLite saver as ours."""
    async with open_saver(file) as saver:
        graph = build_bare().compile(checkpointer=saver)
        threads = [str(uuid4()) for _ in range(count)]
        ids: dict[str, str] = {}

        def config(thread: str) -> RunnableConfig:
            return {"configurable": {"thread_id": thread}}

        async def start(thread: str) -> None:
            given = cast("BareState", {"request": {"kind": "improve", "finding": "f-1"}})
            await graph.ainvoke(given, config(thread), durability="sync")
            state = await graph.aget_state(config(thread))
            ids[thread] = state.interrupts[0].id

        async def resume(thread: str) -> None:
            answer: Command[str] = Command(resume={ids[thread]: {"decisions": [REJECT]}})
            await graph.ainvoke(answer, config(thread), durability="sync")

        started = await timed([partial(start, t) for t in threads], at_once)
        resumed = await timed([partial(resume, t) for t in threads], at_once)
        return started, resumed


Slot = tuple[str, str]
"""A project and a finding that it has not worked on yet."""


async def our_round(installation: Installation, slots: Sequence[Slot], at_once: int) -> Pair:
    """One run in each of these projects: a known finding to its card, then a reject."""
    proposals: dict[str, str] = {}

    async def start(project: str, finding: str) -> None:
        service = (await installation.door_of(project)).service
        thread = await service.enqueue({"kind": "improve", "finding": finding})
        ran = await service.advance(thread)
        assert ran.waiting, f"{project} does not wait: {ran}"
        assert ran.proposal is not None
        proposals[project] = ran.proposal

    async def resume(project: str) -> None:
        door = await installation.door_of(project)
        latest = door.ws.ledger.proposals.latest
        stored = await asyncio.to_thread(latest, proposals[project])
        await door.service.enter_decision(stored.proposal.id, REJECT, WHO)
        ran = await door.service.advance(stored.proposal.thread)
        assert ran.state == "rejected", f"{project} is {ran.state}"

    started = await timed([partial(start, *slot) for slot in slots], at_once)
    resumed = await timed([partial(resume, project) for project, _ in slots], at_once)
    return started, resumed


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A concurrency, and how many waves of so many runs are measured."""

    at_once: int
    waves: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One of two beside the other at one concurrency, over waves in which they took turns."""

    at_once: int
    bare: Pair
    ours: Pair

    def ratio(self, part: int) -> float:
        """How much longer all our runs (0) or resumes (1) took together."""
        return self.ours[part].wall_s / self.bare[part].wall_s


def plant_slots(home: Path, kit: Kit, levels: Sequence[Level]) -> dict[str, list[str]]:
    """As many projects as the highest concurrency, each with a finding for every wave it is in."""
    return {
        slug: plant(home, kit, slug, sum(level.waves + 1 for level in levels if level.at_once > n))
        for n, slug in enumerate(f"agent-{n:04}" for n in range(max(v.at_once for v in levels)))
    }


def wave(unused: Mapping[str, list[str]], at_once: int) -> list[Slot]:
    """The next finding of each of the first `at_once` projects."""
    return [(project, unused[project].pop()) for project in list(unused)[:at_once]]


async def compare(home: Path, kit: Kit, levels: Sequence[Level]) -> list[Compared]:
    """Ours and the bare graph in turns; the first wave of each level warms up and is not counted.

    Args:
        home: a folder for the installation.
        kit: what each project knows.
        levels: what is measured.
    """
    os.environ[HOME_VARIABLE] = str(home)
    unused, found = plant_slots(home, kit, levels), []
    async with open_installation(home) as installation:
        for level in levels:
            bare: list[Pair] = []
            ours: list[Pair] = []
            for number in range(level.waves + 1):
                file = home / f"bare-{level.at_once}-{number}.sqlite"
                bare.append(await bare_round(file, level.at_once, level.at_once))
                slots = wave(unused, level.at_once)
                ours.append(await our_round(installation, slots, level.at_once))
            found.append(
                Compared(at_once=level.at_once, bare=merge_pairs(bare), ours=merge_pairs(ours))
            )
    return found


def merge_pairs(pairs: Sequence[Pair]) -> Pair:
    """All waves but the first as one."""
    return merged([p[0] for p in pairs[1:]]), merged([p[1] for p in pairs[1:]])
