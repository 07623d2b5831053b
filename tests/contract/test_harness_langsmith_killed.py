"""A process that is killed at any write of a change in LangSmith's hub leaves it to the next."""

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from contracts.harness import EffectKind, HarnessSnapshot
from tests.contract.harness_suite import change
from tests.contract.test_harness_langsmith import HubWorld
from tests.fakes.serving import serve
from tests.hub_worlds import Hubs
from tests.trace_worlds import REPO

MOTHER = """
import asyncio, json, os, sys
from tests.contract.harness_suite import change
from tests.contract.test_harness_langsmith import HubWorld
from tests.fakes.langsmith_hub import FakeHub
from tests.hub_worlds import harness_of

async def main(url, key, kind):
    harness = harness_of(url, FakeHub(key=key), prompts=("support", "triage"), skills=("*",))
    before, after = HubWorld.before, HubWorld.after
    await change(harness, *((before, after) if kind == "apply" else (after, before)), kind=kind)

for line in sys.stdin:  # a process for each, so that imports are paid for once
    wait, go = os.pipe()
    child = os.fork()
    if not child:
        os.read(wait, 1)
        asyncio.run(main(*json.loads(line)))
        os._exit(0)
    print(child, flush=True)
    sys.stdin.readline()
    os.write(go, b"g")
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    os.close(wait), os.close(go)
"""


@dataclass(slots=True)
class Killer:
    """Makes real processes that change the hub, and kills each at one of its writes."""

    hubs: Hubs
    mother: "subprocess.Popen[str]"

    def run(self, world: HubWorld, kind: EffectKind, *, kill_at: int) -> int:
        """Exit code of a process that is killed before a write (odd numbers) or after it."""
        stdin, stdout = self.mother.stdin, self.mother.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps([self.hubs.url, world.hub.key, kind]) + "\n")
        stdin.flush()
        child, passed = int(stdout.readline()), itertools.count(1)

        def during(_when: str, method: str, _path: str) -> None:
            if method != "GET" and next(passed) == kill_at:
                os.kill(child, signal.SIGKILL)

        world.hub.during = during
        stdin.write("go\n")
        stdin.flush()
        code = int(stdout.readline())
        world.hub.during = None
        return code


@pytest.fixture
def killer() -> Iterator[Killer]:
    hubs = Hubs()
    with (
        serve(hubs) as hubs.url,
        subprocess.Popen(
            [sys.executable, "-c", MOTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, cwd=REPO,
        ) as mother,
    ):  # fmt: skip
        yield Killer(hubs, mother)
        assert mother.stdin is not None
        mother.stdin.close()
        mother.wait(10)


@pytest.mark.parametrize(("kind", "writes"), [("apply", 7), ("undo", 4)])
async def test_killed_at_any_write_it_is_finished_once(
    killer: Killer, kind: EffectKind, writes: int
) -> None:
    """An edit of two prompts and a skill, and a new skill; then all of it taken back."""
    for step in itertools.count(1):
        world = HubWorld(killer.hubs)
        sides = [world.before, world.after]
        if kind == "undo":
            await change(world.harness, world.before, world.after)
            sides.reverse()
        before, after = sides
        code = killer.run(world, kind, kill_at=step)
        if code == 0:
            break
        assert code == -signal.SIGKILL
        assert await world.harness.standing(before, after) in ("before", "mixed", "after")
        await _finish(world, kind, before, after)
    assert step - 1 == 2 * writes


async def _finish(
    world: HubWorld, kind: EffectKind, before: HarnessSnapshot, after: HarnessSnapshot
) -> None:
    """By another process: all of it, and no commit twice."""
    await change(world.again(), before, after, kind=kind)
    assert await world.seen() == after
    for name in ("support", "triage"):
        assert len(world.hub.repos[name].commits) == 2
    assert [len(world.hub.repos[n].commits) for n in ("ask", "new")] == (
        [2, 1] if kind == "apply" else [3, 2]
    )
