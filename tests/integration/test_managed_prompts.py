"""An agent under test is given a vendor's prompts whole: the arm's text with what goes with it."""

import json
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from connectors.harness.heads import keepers, read_heads
from connectors.harness.several import Places
from connectors.probe import prompts
from connectors.probe.managed import whole
from contracts.errors import ProbeError
from contracts.harness import HarnessFile, HarnessSnapshot
from contracts.json_types import Json
from memory.workspace import Workspace
from nodes.ports import open_harness, open_probe
from tests.fakes.langfuse_prompts import PUBLIC, SECRET, FakePromptServer
from tests.fakes.langsmith_hub import FakeHub, Fault
from tests.fakes.serving import serve
from tests.hub_worlds import chat_manifest, text_manifest, with_model
from tests.run_worlds import make_project
from tests.trace_worlds import REPO

AGENT = """
import json, os, pathlib
from langfuse import Langfuse
from langsmith import Client
from tracemend_runtime import RunAnswer, RunRequest, serve

langfuse = Langfuse()
langsmith = Client()

def hub(name, **how):
    kept = langsmith.pull_prompt_commit(name, skip_cache=True, **how)
    return kept.manifest

def fuse(name, **how):
    prompt = langfuse.get_prompt(name, cache_ttl_seconds=0, max_retries=0, **how)
    return [prompt.prompt, prompt.config]

def skill(name):
    return {path: entry.content for path, entry in langsmith.pull_skill(name).files.items()}

def pulled(name):
    return langsmith.pull_prompt(name).invoke({"name": "Ann", "question": "?"}).to_string()

def file(name):
    return json.loads((pathlib.Path(request_harness) / name).read_text())

def run(request):
    global request_harness
    request_harness = request.harness
    how, name, more = request.input
    return RunAnswer(output=globals()[how](name, **more))

serve(run)
"""


@dataclass(frozen=True)
class World:
    hub: FakeHub
    fuse: FakePromptServer
    ws: Workspace

    @property
    def places(self) -> Places:
        return open_harness(self.ws)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    hub, fuse = FakeHub(), FakePromptServer()
    hub.prompt("triage", with_model(chat_manifest()))
    hub.prompt("support", text_manifest("Hi {name}. Be brief."))
    hub.folder("ask", "skill", {"SKILL.md": "Be brief."})
    fuse.prompts.put("desk/main", "Be brief, {{name}}.", labels=["production"],
                     config={"model": "m1", "temperature": 0})  # fmt: skip
    fuse.prompts.put("desk/talk", [
        {"role": "system", "content": "Be brief."}, {"type": "placeholder", "name": "history"},
    ], labels=["production"])  # fmt: skip
    monkeypatch.setenv("PYTHONPATH", str(REPO))
    monkeypatch.setattr(prompts, "QUIET_RUNS", 0)  # this agent sends no spans to wait for
    for name, value in {
        "LANGSMITH_API_KEY": hub.key, "LANGFUSE_PUBLIC_KEY": PUBLIC, "LANGFUSE_SECRET_KEY": SECRET,
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    agent = tmp_path / "agent"
    agent.mkdir()
    (agent / "worker.py").write_text(textwrap.dedent(AGENT))
    with serve(hub.app()) as hub_url, serve(fuse.faults) as fuse_url:
        ws = make_project(
            tmp_path / "home", agent,
            harness=[
                {"kind": "langsmith_hub", "prompts": ["triage", "support"], "skills": ["ask"],
                 "base_url": hub_url},
                {"kind": "langfuse_prompts", "names": ["desk/*"], "base_url": fuse_url},
            ],
            probe={
                "kind": "worker", "command": [sys.executable, "worker.py"], "prompts": True,
                "timeout_s": 60,
            },
        )  # fmt: skip
        yield World(hub, fuse, ws)


def edited(harness: HarnessSnapshot) -> HarnessSnapshot:
    return HarnessSnapshot(files={
        path: HarnessFile(data=file.data.replace(b"brief", b"kind"))
        for path, file in harness.files.items()
    })  # fmt: skip


async def test_both_arms_are_given_their_text_with_all_that_goes_with_it(world: World) -> None:
    before = await world.places.read()
    assert set(before.files) == {
        "prompts/triage.chat.md", "prompts/support.md", "prompts/desk/main.md",
        "prompts/desk/talk.chat.md", "skills/ask/SKILL.md",
    }  # fmt: skip
    kind = with_model(chat_manifest("You help {name}.\nBe kind."))
    asked: list[tuple[Json, Json]] = [
        (["hub", "triage:production", {"include_model": True}], kind),
        (["pulled", "triage:production", {}],
         "System: You help Ann.\nBe kind.\nHuman: ?\nAI: Fine."),
        (["pulled", "support:production", {}], "Hi Ann. Be kind."),
        (["skill", "ask", {}], {"SKILL.md": "Be kind."}),
        (["fuse", "desk/main", {}],
         ["Be kind, {{name}}.", {"model": "m1", "temperature": 0}]),
        (["fuse", "desk/talk", {"type": "chat"}],
         [[{"role": "system", "content": "Be kind."},
           {"type": "placeholder", "name": "history"}], {}]),
        (["file", "prompts/desk/main.json", {}],
         {"type": "text", "prompt": "Be kind, {{name}}.", "labels": ["production"],
          "latest": False, "version": 1, "config": {"model": "m1", "temperature": 0}}),
        (["file", "prompts/triage.json", {}],
         {"type": "chat", "labels": ["production"], "latest": False, "manifest": kind,
          "prompt": [{"role": "system", "content": "You help {name}.\nBe kind."},
                     {"type": "placeholder", "name": "history"},
                     {"role": "user", "content": "{question}"},
                     {"role": "assistant", "content": "Fine."}]}),
    ]  # fmt: skip
    state = world.hub.state()
    async with open_probe(world.ws) as probe:
        for case, answer in asked:
            for arm, said in ((edited(before), answer), (before, _brief(answer))):
                seen = await probe.run(case, arm, seed=1, deadline_s=60)
                assert (seen.missing, seen.error) == (None, None), case
                assert _without_types(seen.output) == said, case
    assert world.hub.state() == state
    assert world.hub.writes == []


def _brief(answer: Json) -> Json:
    said: Json = json.loads(json.dumps(answer).replace("Be kind", "Be brief"))
    return said


def _without_types(output: Json) -> Json:
    """Langfuse's SDK gives each message a type of its own."""
    if isinstance(output, list) and output and isinstance(output[0], list):
        messages: list[Any] = output[0]
        plain = [{k: v for k, v in m.items() if (k, v) != ("type", "message")} for m in messages]
        return [plain, output[1]]
    return output


async def test_a_prompt_that_is_not_read_by_the_tag_is_missing(world: World) -> None:
    before = await world.places.read()
    asked: list[tuple[Json, str]] = [
        (["pulled", "support", {}], "read as its newest commit, and an edit moves the tag"),
        (["pulled", "support:staging", {}], "under a tag that its file does not name"),
        (["fuse", "desk/main", {"label": "latest"}], "under a label that its file does not name"),
    ]
    async with open_probe(world.ws) as probe:
        for case, why in asked:
            seen = await probe.run(case, before, seed=1, deadline_s=60)
            assert why in str(seen.missing), case


async def test_a_text_that_the_vendor_could_not_keep_is_missing_and_not_run(world: World) -> None:
    before = await world.places.read()
    files = {**before.files, "prompts/triage.chat.md": HarnessFile(data=b"=== tool ===\nx\n")}
    async with open_probe(world.ws) as probe:
        arm = HarnessSnapshot(files=files)
        seen = await probe.run(["skill", "ask", {}], arm, seed=1, deadline_s=60)
    assert seen.missing is not None
    assert seen.missing.startswith("prompts: prompts/triage.chat.md: a place for messages")


async def test_no_run_is_made_where_the_vendor_cannot_be_read(world: World) -> None:
    world.hub.faults = [Fault(kind="status", status=401, times=99)]
    with pytest.raises(ProbeError, match="what goes with the prompts cannot be read") as told:
        async with open_probe(world.ws):
            pass
    assert world.hub.key not in str(told.value)


async def test_a_harness_of_files_alone_is_handed_on_as_it_is(tmp_path: Path) -> None:
    ws = make_project(tmp_path / "home", tmp_path / "agent",
                      probe={"kind": "worker", "command": ["agent"]})  # fmt: skip
    places = open_harness(ws)
    assert keepers(places) == ()
    assert await read_heads(places.places) == {}
    snapshot = HarnessSnapshot(files={"prompts/x.md": HarnessFile(data=b"x")})
    assert whole(snapshot, {}) == snapshot
