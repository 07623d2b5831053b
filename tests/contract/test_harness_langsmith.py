"""The promises of a harness, for LangSmith's hub: a fake of it over HTTP."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Literal

import pytest

from connectors.prompts.manifest import manifest_text, with_text
from connectors.prompts.text import PromptTextError, chat_messages, is_chat, prompt_name
from contracts.harness import HarnessFile, HarnessSnapshot
from contracts.json_types import Json
from contracts.protocols import Harness
from tests.contract.harness_suite import HarnessSuite, World, Worlds, change, effect_of
from tests.fakes.langsmith_hub import FakeHub, Fault
from tests.fakes.langsmith_hub_repos import HubRepo
from tests.fakes.serving import serve
from tests.hub_worlds import CHAT, Hubs, chat_manifest, harness_of, text_manifest, with_model

TEXT = "Hi {name}.\nBe brief."


def snapshot(**files: str) -> HarnessSnapshot:
    """Files by path; `__` stands for a slash and `_0_` for a point."""
    named = {path.replace("__", "/").replace("_0_", "."): text for path, text in files.items()}
    return HarnessSnapshot(files={p: HarnessFile(data=t.encode()) for p, t in named.items()})


class HubWorld:
    """A workspace, and a person who works in LangSmith's own pages."""

    before = snapshot(
        prompts__support_0_md=TEXT, prompts__triage_0_chat_0_md=CHAT,
        skills__ask__SKILL_0_md="Ask.\r", skills__ask__notes__a_0_md="A.\n",
        skills__stays__SKILL_0_md="Stays.\n",
    )  # fmt: skip
    after = snapshot(
        prompts__support_0_md=f"{TEXT} Be kind.",
        prompts__triage_0_chat_0_md=CHAT.replace("Be brief.", "Be brief.\nSay so."),
        skills__ask__SKILL_0_md="Ask twice.\r", skills__new__SKILL_0_md="New.",
        skills__stays__SKILL_0_md="Stays.\n",
    )  # fmt: skip
    extra, outside = "skills/extra/SKILL.md", "README.md"
    keeps_modes, names_states, remembers = False, True, True

    def __init__(self, hubs: Hubs) -> None:
        self._url = hubs.url
        self.hub = hubs.add(FakeHub())
        self.hub.prompt("support", text_manifest(TEXT))
        self.hub.prompt("triage", with_model(chat_manifest()))
        self.hub.folder("ask", "skill", {"SKILL.md": "Ask.\r", "notes/a.md": "A.\n"})
        self.hub.folder("stays", "skill", {"SKILL.md": "Stays.\n"})
        self.hub.repos["theirs"] = HubRepo(handle="theirs", kind="skill", tenant="somebody-else")
        self.harness: Harness = self.again()

    def again(self) -> Harness:
        return harness_of(self._url, self.hub, prompts=("support", "triage"), skills=("*",))

    def put(self, path: str, data: bytes | None) -> None:
        text = data.decode() if data is not None else None
        if not path.startswith("prompts/"):
            name, inside = path.removeprefix("skills/").split("/", 1)
            self.hub.folder(name, "skill", {inside: text})
        elif text is None:
            del self.hub.repos[prompt_name(path)]
        else:
            now = self.hub.tagged(prompt_name(path))
            self.hub.prompt(prompt_name(path), _written(now.manifest, path, text))

    async def seen(self) -> HarnessSnapshot:
        """By what the server holds."""
        files: dict[str, str] = {}
        for name, repo in self.hub.repos.items():
            if repo.kind == "prompt":
                kept = manifest_text(self.hub.tagged(name).manifest)
                files[f"prompts/{name}{'.chat' if kept.chat else ''}.md"] = kept.text
            elif repo.head is not None:
                for path, entry in repo.head.files.items():
                    assert isinstance(entry, dict)
                    files[f"skills/{name}/{path}"] = str(entry["content"])
        return HarnessSnapshot(files={p: HarnessFile(data=t.encode()) for p, t in files.items()})

    def written(self) -> int | None:
        return sum(len(repo.commits) for repo in self.hub.repos.values())

    def breaking(self, step: int) -> AbstractContextManager[Callable[[], bool]]:
        return self._breaking(step)

    @contextmanager
    def _breaking(self, step: int) -> Iterator[Callable[[], bool]]:
        """Odd: the write is answered with 503 and not done; even: done, and the answer is torn."""
        start, nth = len(self.hub.writes), (step + 1) // 2
        kind: Literal["status", "dropped"] = "status" if step % 2 else "dropped"
        self.hub.faults = [Fault(kind=kind, writes=True, after=nth - 1)]
        try:
            yield lambda: len(self.hub.writes) - start >= nth
        finally:
            self.hub.faults = []


def _written(manifest: Json, path: str, text: str) -> Json:
    """What a person's text makes of the prompt; one that is no chat becomes the system's words."""
    if not is_chat(path):
        return with_text(manifest, text)
    try:
        chat_messages(text)
    except PromptTextError:
        return with_model(chat_manifest(text.strip()))
    return with_text(manifest, text)


@pytest.fixture(scope="module")
def hubs() -> Iterator[Hubs]:
    made = Hubs()
    with serve(made) as made.url:
        yield made


class TestLangsmithHub(HarnessSuite):
    @pytest.fixture
    def worlds(self, hubs: Hubs) -> Worlds:
        return lambda: HubWorld(hubs)

    async def test_a_staged_change_that_is_discarded_leaves_no_trace(self, world: World) -> None:
        """The hub forgets no commit: what stays is one that no tag points to and nobody reads."""
        start = await world.harness.read()
        effect = effect_of(world.harness, world.before, world.after)
        await world.harness.stage(effect, world.before, world.after)
        for _ in range(2):
            await world.harness.discard(effect)
        found = await world.harness.read()
        assert (found, found.origin) == (world.before, start.origin)

    async def test_history_tells_our_changes_from_those_of_people(self, world: World) -> None:
        """Commits of prompts alone: the hub takes no words for moves of tags and for folders."""
        applied = await change(world.harness, world.before, world.after)
        await change(world.harness, world.after, world.before, kind="undo")
        world.put("prompts/support.md", b"by hand\n")
        told = await world.again().history()
        assert (told[0].effect, told[0].by) == (None, "Ann")
        ours = [entry for entry in told if entry.effect is not None]
        assert {entry.effect for entry in ours} == {applied.key}
        assert {entry.origin.partition("@")[0] for entry in ours} == {"support", "triage"}
        assert {entry.message for entry in ours} == {"Say so when the payment tool fails"}
        assert len({entry.origin for entry in told}) == len(told)
        assert len(await world.harness.history(limit=1)) == 1
