"""The fake of prompts and skills: the vendor's own SDK drives it, and it answers as recorded."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from langfuse.api import LangfuseAPI
from langfuse.api.commons.errors.error import Error
from langfuse.api.commons.errors.not_found_error import NotFoundError
from langfuse.api.core.api_error import ApiError
from langfuse.api.prompts.types import (
    ChatMessage,
    CreateChatPromptRequest,
    CreateChatPromptType,
    CreateTextPromptRequest,
    PlaceholderMessage,
    PlaceholderMessageType,
)
from langfuse.api.unstable.skills.types import SkillVersionFileInput, SkillVersionFileReference

from tests.contract.harness_suite import change
from tests.contract.langfuse_worlds import PROMPTS_AFTER, PROMPTS_BEFORE, PromptsWorld, skill
from tests.fakes.langfuse_prompts import PUBLIC, SECRET, FakePromptServer
from tests.fakes.langfuse_skills import hash_of
from tests.fakes.serving import serve
from tests.trace_worlds import shared

PROMPTS = "/api/public/v2/prompts"


@pytest.fixture
def fake() -> FakePromptServer:
    return FakePromptServer()


@pytest.fixture
def url(fake: FakePromptServer) -> Iterator[str]:
    with serve(fake.faults) as address:
        yield address


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    with httpx.Client(auth=(PUBLIC, SECRET)) as client:
        yield client


@pytest.fixture
def sdk(url: str, http: httpx.Client) -> LangfuseAPI:
    return LangfuseAPI(base_url=url, username=PUBLIC, password=SECRET, httpx_client=http)


def test_the_official_sdk_makes_labels_and_reads_text_prompts(sdk: LangfuseAPI) -> None:
    for text in ("Be brief.", "Be kind."):
        request = CreateTextPromptRequest(
            name="desk/main", prompt=text, config={"m": 1}, tags=["a"], commit_message="why"
        )
        made = sdk.prompts.create(request=request)
    assert (made.version, made.labels, made.commit_message) == (2, ["latest"], "why")
    with pytest.raises(NotFoundError):
        sdk.prompts.get("desk/main")
    sdk.prompt_version.update("desk/main", 1, new_labels=["production"])
    first = sdk.prompts.get("desk/main", resolve=False)
    assert (first.prompt, first.version, first.config) == ("Be brief.", 1, {"m": 1})
    sdk.prompt_version.update("desk/main", 2, new_labels=["production", "b"])
    sdk.prompt_version.update("desk/main", 2, new_labels=["c"])
    assert set(sdk.prompts.get("desk/main", version=2).labels) == {
        "production", "b", "c", "latest",
    }  # fmt: skip
    assert sdk.prompts.get("desk/main", version=1).labels == []
    page = sdk.prompts.list(name="desk/main", limit=1)
    assert [(row.name, row.versions) for row in page.data] == [("desk/main", [1, 2])]
    labelled = sdk.prompts.list(label="production").data
    assert [row.versions for row in labelled] == [[2]], "only what the filter leaves"


def test_the_official_sdk_makes_and_reads_chat_prompts(sdk: LangfuseAPI) -> None:
    request = CreateChatPromptRequest(
        name="desk/talk", type=CreateChatPromptType("chat"), labels=["production"],
        prompt=[ChatMessage(role="system", content="Be kind."),
                PlaceholderMessage(name="history", type=PlaceholderMessageType("placeholder"))],
    )  # fmt: skip
    sdk.prompts.create(request=request)
    found = sdk.prompts.get("desk/talk")
    assert [message.model_dump(exclude_none=True) for message in found.prompt] == [
        {"role": "system", "content": "Be kind."}, {"name": "history", "type": "placeholder"},
    ]  # fmt: skip
    with pytest.raises(Error, match="different prompt type"):
        sdk.prompts.create(request=CreateTextPromptRequest(name="desk/talk", prompt="x"))


def test_the_official_sdk_makes_labels_and_reads_skills(sdk: LangfuseAPI) -> None:
    skills = sdk.unstable.skills
    entry, note = skill("ask", "Ask.\n").data, b"A"
    first = skills.create_version(
        files=[SkillVersionFileInput(path="SKILL.md", content=entry.decode()),
               SkillVersionFileInput(path="notes/a.md", content="A")],
        commit_message="why",
    )  # fmt: skip
    assert (first.name, first.version, first.labels) == ("ask", 1, ["latest"])
    second = skills.create_version(
        files=[SkillVersionFileInput(path="SKILL.md", content=entry.decode() + "\n"),
               SkillVersionFileReference(path="notes/b.md", sha256hash=hash_of(note))],
    )  # fmt: skip
    skills.set_labels("ask", 1, labels=["production", "x"])
    skills.set_labels("ask", 1, labels=["production"])
    assert skills.get("ask").labels == ["production"]
    skills.set_labels("ask", 2, labels=["production"])
    assert skills.get("ask", label="production").version == second.version == 2
    assert skills.get("ask", version=1).labels == []
    hashes = [file.sha256hash for file in skills.get("ask").files]
    contents = skills.get_file_contents(sha256hashes=",".join(hashes))
    assert [one.content for one in contents.data] == [entry.decode() + "\n", "A"]
    [listed] = skills.list().data
    assert (listed.name, listed.latest_version, listed.production_version) == ("ask", 2, 2)
    with pytest.raises(NotFoundError):
        skills.get("ask", label="nobody")


async def test_what_we_write_the_official_sdk_reads(
    url: str, sdk: LangfuseAPI, fake: FakePromptServer
) -> None:
    world = PromptsWorld(url, fake)
    for path, file in PROMPTS_BEFORE.files.items():
        world.put(path, file.data)
    await change(world.harness, PROMPTS_BEFORE, PROMPTS_AFTER)
    main = sdk.prompts.get("desk/main")
    assert main.prompt == PROMPTS_AFTER.files["prompts/desk/main.md"].data.decode()
    talk = sdk.prompts.get("desk/talk").prompt
    assert isinstance(talk[0], ChatMessage)
    assert talk[0].content == "Be kind and brief.\n=== user ===\n"
    assert isinstance(talk[1], PlaceholderMessage)


def recording(name: str) -> dict[str, Any]:
    path = shared("specs", "langfuse-recorded", f"{name}.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def seeded(fake: FakePromptServer) -> None:
    for text, message in (("hi {{x}}", "first"), ("c2", None), ("c3", None), ("c4", None)):
        fake.prompts.put("p", text, message=message, by="API")


STABLE = ("projectId", "createdBy", "prompt", "name", "version", "type", "isActive", "config",
          "tags", "labels", "commitMessage", "resolutionGraph", "message", "error")  # fmt: skip


def alike(body: Any, expected: Any) -> None:
    """The same keys, and the same values where they are not made up by the server."""
    assert set(body) == set(expected)
    same = [key for key in STABLE if key in expected]
    assert {key: body[key] for key in same} == {key: expected[key] for key in same}


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("prompt_get_200", None),
        ("prompt_get_404", None),
        ("prompts_create_201", {"name": "p", "prompt": "c5", "type": "text"}),
        ("prompt_labels_patch_200", {"newLabels": ["Bad Label!"]}),
        ("prompt_labels_patch_400", {"newLabels": ["latest"]}),
    ],
)
def test_the_fake_answers_like_the_recorded_server(
    name: str, body: Any, url: str, http: httpx.Client, fake: FakePromptServer
) -> None:
    told = recording(name)
    seeded(fake)
    answer = http.request(told["method"], f"{url}{told['url']}", json=body)
    assert answer.status_code == told["status"]
    alike(answer.json(), told["body"])


@pytest.mark.parametrize("conflict", [400, 409])
async def test_parallel_creates_of_one_name_collide_as_recorded(
    url: str, fake: FakePromptServer, conflict: int
) -> None:
    fake.prompts.window_s, fake.prompts.conflict = 0.2, conflict
    async with httpx.AsyncClient(auth=(PUBLIC, SECRET)) as client:
        body = {"name": "p", "prompt": "x"}
        sent = [client.post(f"{url}{PROMPTS}", json=body) for _ in range(6)]
        answers = await asyncio.gather(*sent)
    assert sorted(answer.status_code for answer in answers) == [201, *[conflict] * 5]
    refused = next(answer.json() for answer in answers if answer.status_code == conflict)
    told = recording("prompts_create_400")["body"]
    assert set(refused) == set(told)
    assert refused["message"] == told["message"].partition(" This is likely")[0]


def test_a_server_without_skills_answers_with_a_page_as_recorded(http: httpx.Client) -> None:
    told = recording("skills_missing_404_html")
    with serve(FakePromptServer(skills=False).faults) as url:
        answer = http.get(f"{url}{told['url']}")
        api = LangfuseAPI(base_url=url, username=PUBLIC, password=SECRET, httpx_client=http)
        with pytest.raises(ApiError):
            api.unstable.skills.list()
    assert answer.status_code == told["status"] == 404
    assert answer.text.startswith("<!DOCTYPE html>")
    assert told["body"].startswith("<!DOCTYPE html>")


def test_a_wrong_key_and_an_unquoted_folder_are_refused(url: str, http: httpx.Client) -> None:
    assert httpx.get(f"{url}{PROMPTS}", auth=(PUBLIC, "other")).status_code == 401
    answer = http.get(f"{url}{PROMPTS}/desk/main/deep")
    assert (answer.status_code, answer.text[:9]) == (404, "<!DOCTYPE")
