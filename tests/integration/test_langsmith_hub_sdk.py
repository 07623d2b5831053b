"""The official SDK writes to the fake of LangSmith's hub, and reads what our harness wrote."""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate

from connectors.harness.langsmith_hub import LangsmithHubHarness
from contracts.harness import HarnessSnapshot
from tests.contract.harness_suite import change
from tests.fakes.langsmith_hub import FakeHub
from tests.fakes.serving import serve
from tests.hub_worlds import (
    access_of,
    chat_manifest,
    edited,
    harness_of,
    text_manifest,
    with_model,
)


@pytest.fixture
def hub() -> FakeHub:
    return FakeHub()


@pytest.fixture
def url(hub: FakeHub) -> Iterator[str]:
    with serve(hub.app()) as url:
        yield url


@pytest.fixture
def client(hub: FakeHub, url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("LANGSMITH_API_KEY", "LANGSMITH_ENDPOINT", "LANGSMITH_TENANT_ID"):
        monkeypatch.delenv(name, raising=False)
    from langsmith import Client

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = Client(api_url=url, api_key=hub.key, auto_batch_tracing=False)
        yield made
        made.close()


def pulled(client: Any, name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return client.pull_prompt(name, skip_cache=True)


async def edit(harness: LangsmithHubHarness, old: str, new: str) -> HarnessSnapshot:
    """Replace a text in every file, as an approved change; what it was before."""
    before, after = await edited(harness, old, new)
    await change(harness, before, after)
    return before


async def test_what_the_sdk_pushed_is_edited_and_pulled_by_the_tag(
    client: Any, hub: FakeHub, url: str
) -> None:
    client.push_prompt(
        "support", object=PromptTemplate.from_template("Hi {name}. Be brief."),
        commit_tags="production",
    )  # fmt: skip
    client.push_prompt(
        "triage", commit_tags=["production", "staging"],
        object=ChatPromptTemplate.from_messages([("system", "Be brief."), ("human", "{q}")]),
    )  # fmt: skip
    harness = harness_of(url, hub, prompts=("support", "triage"))
    before = await edit(harness, "brief", "kind")
    assert {path: file.data for path, file in before.files.items()} == {
        "prompts/support.md": b"Hi {name}. Be brief.",
        "prompts/triage.chat.md": b"=== system ===\nBe brief.\n=== user ===\n{q}\n",
    }
    assert pulled(client, "support:production").format(name="Ann") == "Hi Ann. Be kind."
    said = pulled(client, "triage:production").invoke({"q": "?"}).to_messages()
    assert [(m.type, m.content) for m in said] == [("system", "Be kind."), ("human", "?")]
    assert (
        pulled(client, "triage:staging")
        .invoke({"q": "?"})
        .to_string()
        .startswith("System: Be brief.")
    )
    assert pulled(client, "triage:production").metadata["lc_hub_commit_hash"] in str(
        [c.commit_hash for c in client.list_prompt_commits("triage")]
    )


async def test_what_the_harness_wrote_the_sdk_goes_on_from(
    client: Any, hub: FakeHub, url: str
) -> None:
    hub.prompt("support", text_manifest("Be brief."))
    await edit(harness_of(url, hub, prompts=("support",)), "brief", "kind")
    commit = client.pull_prompt_commit("support:production", skip_cache=True)
    assert "Tracemend-Effect: " in commit.description
    client.push_prompt(
        "support", object=PromptTemplate.from_template("Be quick."), commit_tags="next"
    )
    listed = list(client.list_prompt_commits("support"))
    assert [str(c.parent_commit_hash) for c in listed][:1] == [commit.commit_hash]


async def test_the_model_of_a_prompt_stays_with_it(client: Any, hub: FakeHub, url: str) -> None:
    kept = with_model(chat_manifest())
    hub.prompt("triage", kept)
    await edit(harness_of(url, hub, prompts=("triage",)), "Be brief.", "Be kind.")
    commit = client.pull_prompt_commit("triage:production", include_model=True, skip_cache=True)
    assert commit.manifest == with_model(chat_manifest("You help {name}.\nBe kind."))
    assert "last" not in client.pull_prompt_commit("triage:production", skip_cache=True).manifest


async def test_skills_and_agents_of_the_sdk_are_edited(client: Any, hub: FakeHub, url: str) -> None:
    from langsmith.schemas import FileEntry, SkillEntry

    client.push_skill("ask", files={"SKILL.md": FileEntry(content="Be brief.")})
    client.push_agent("desk", files={
        "AGENTS.md": FileEntry(content="Be brief."), "tools.json": FileEntry(content="brief"),
        "skills/ask": SkillEntry(repo_handle="ask"),
    })  # fmt: skip
    harness = harness_of(url, hub, skills=("ask",), agents=("desk",))
    before = await edit(harness, "brief", "kind")
    assert set(before.files) == {"skills/ask/SKILL.md", "agents/desk/AGENTS.md"}
    assert client.pull_skill("ask").files["SKILL.md"].content == "Be kind."
    agent = client.pull_agent("desk")
    assert agent.files["AGENTS.md"].content == "Be kind."
    assert agent.files["tools.json"].content == "brief"
    assert agent.files["skills/ask"].repo_handle == "ask"
    client.push_skill("ask", files={"SKILL.md": None, "b.md": FileEntry(content="b")},
                      parent_commit=client.pull_skill("ask").commit_hash)  # fmt: skip
    assert set((await harness.read()).files) == {"skills/ask/b.md", "agents/desk/AGENTS.md"}


def test_the_sdk_meets_the_conflicts_of_the_fake(client: Any, hub: FakeHub) -> None:
    from langsmith.schemas import FileEntry
    from langsmith.utils import LangSmithConflictError, LangSmithNotFoundError

    first = hub.prompt("support", text_manifest("one"))
    hub.prompt("support", text_manifest("two"))
    with pytest.raises(LangSmithConflictError):
        client.push_prompt("support", object=PromptTemplate.from_template("three"),
                           parent_commit_hash=first.hash)  # fmt: skip
    with pytest.raises(LangSmithConflictError, match="Nothing to commit"):
        client.push_prompt("support", object=PromptTemplate.from_template("two"))
    with pytest.raises(LangSmithNotFoundError):
        client.pull_prompt_commit("support:staging", skip_cache=True)
    stale = hub.folder("ask", "skill", {"SKILL.md": "a"})
    hub.folder("ask", "skill", {"SKILL.md": "b"})
    with pytest.raises(LangSmithConflictError):
        client.push_skill("ask", files={"SKILL.md": FileEntry(content="c")},
                          parent_commit=stale.hash)  # fmt: skip


def test_the_sdk_cannot_open_the_fake_with_another_key(hub: FakeHub, url: str) -> None:
    from langsmith import Client
    from langsmith.utils import LangSmithAuthError

    hub.prompt("support", text_manifest("one"))
    client = Client(api_url=url, api_key="wrong", auto_batch_tracing=False)
    with pytest.raises(LangSmithAuthError):
        client.pull_prompt_commit("support", skip_cache=True)
    client.close()
    assert access_of(url, hub).api_key.get_secret_value() == hub.key
