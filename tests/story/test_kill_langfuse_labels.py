"""A change in Langfuse is really killed, before and after each write; the next process ends it."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from contracts.codec import to_json
from contracts.errors import ForeignChange
from tests.contract.harness_suite import change, effect_of
from tests.contract.langfuse_worlds import (
    Board,
    PromptsWorld,
    SkillsWorld,
    prompts_world,
    skills_world,
)
from tests.fakes.serving import serve

pytestmark = [pytest.mark.story, pytest.mark.kill]

REPOSITORY = Path(__file__).parents[2]
AnyWorld = PromptsWorld | SkillsWorld
Make = Callable[[Board, str], AnyWorld]

# Forks one process a step, which kills itself there. A step is a request that writes, and counts
# twice: before it is sent, and once its answer is here.
VICTIMS = """
import asyncio, json, os, signal, sys
from pydantic import SecretStr
from connectors.harness.langfuse_api import LangfuseProject, Session
from connectors.harness.langfuse_prompts import LangfusePromptsHarness
from connectors.harness.langfuse_skills import LangfuseSkillsHarness
from contracts.codec import from_json
from contracts.harness import Effect, HarnessSnapshot

told = json.load(sys.stdin)
before, after = (from_json(HarnessSnapshot, told[side]) for side in ("before", "after"))
kinds = {"prompts": (LangfusePromptsHarness, ["desk/*"]), "skills": (LangfuseSkillsHarness, ["*"])}
steps = at = 0

def pass_one():
    global steps
    steps += 1
    if steps == at:
        os.kill(os.getpid(), signal.SIGKILL)

write = Session.write
async def counted(self, *args):
    pass_one()
    answer = await write(self, *args)
    pass_one()
    return answer
Session.write = counted

async def make(url, effect):
    project = LangfuseProject(
        base_url=url, public_key=SecretStr(told["public"]), secret_key=SecretStr(told["secret"])
    )
    kind, names = kinds[told["kind"]]
    harness = kind(project, names=names, label="production", lag_s=1)
    effect = from_json(Effect, effect)
    await harness.stage(effect, before, after)
    await harness.switch(effect, before, after)

ended = []
for at, (url, effect) in enumerate(zip(told["urls"], told["effects"], strict=True), 1):
    child = os.fork()
    if not child:
        asyncio.run(make(url, effect))
        os._exit(0)
    ended.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(json.dumps(ended))
"""


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[Board, str]]:
    board = Board()
    with serve(board) as url:
        yield board, url


def killed_at_each(make: Make, place: tuple[Board, str], writes: int) -> Sequence[AnyWorld]:
    """Worlds in which a change was killed at each of its steps, in order."""
    worlds = [make(*place) for _ in range(2 * writes + 1)]
    one = worlds[0]
    told = {
        "kind": "prompts" if isinstance(one, PromptsWorld) else "skills", "public": "pk-lf-fake",
        "secret": "sk-lf-fake", "urls": [world.url for world in worlds],
        "before": to_json(one.before), "after": to_json(one.after),
        "effects": [to_json(effect_of(w.harness, w.before, w.after)) for w in worlds],
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", VICTIMS], input=json.dumps(told), text=True, cwd=REPOSITORY,
        capture_output=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ended = json.loads(done.stdout)
    assert ended == [-9] * (2 * writes) + [0], "one step too many or too few"
    return worlds


KINDS = [
    pytest.param(prompts_world, 4, id="prompts"),
    pytest.param(skills_world, 7, id="skills", marks=pytest.mark.servers),
]


@pytest.mark.parametrize(("make", "writes"), KINDS)
async def test_whatever_was_killed_the_next_call_writes_each_version_and_each_label_once(
    make: Make, writes: int, place: tuple[Board, str]
) -> None:
    *killed, whole = killed_at_each(make, place, writes)
    for world in killed:
        assert await world.again().standing(world.before, world.after) in (
            "before", "mixed", "after",
        )  # fmt: skip
        await change(world.again(), world.before, world.after)
        assert await world.seen() == world.after
        assert world.written() == whole.written()
        calls = world.fake.faults.calls
        assert len(calls("POST")) == len(whole.fake.faults.calls("POST"))
        assert len(calls("PATCH")) == len(whole.fake.faults.calls("PATCH"))


@pytest.mark.parametrize(("make", "writes"), KINDS)
async def test_whatever_was_killed_a_hand_edit_since_stays_and_ours_is_taken_back(
    make: Make, writes: int, place: tuple[Board, str]
) -> None:
    *killed, _ = killed_at_each(make, place, writes)
    for world in killed:
        path = min(set(world.before.files) & set(world.after.files))
        world.put(path, b"by hand\n")
        with pytest.raises(ForeignChange):
            await change(world.again(), world.before, world.after)
        found = dict((await world.seen()).files)
        assert found.pop(path).data == b"by hand\n"
        assert found == {p: f for p, f in world.before.files.items() if p != path}
