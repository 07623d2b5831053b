"""The editor and the analyst over HTTP: LangChain's own OpenAI client, a server that answers badly.

A weak or hostile answer costs a try, never a crash; what was used is counted as the server says.
"""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from langchain_openai.chat_models import _client_utils
from pydantic import BaseModel

from connectors.models.chat import Budget, ask, open_model
from connectors.review.clean import one_line
from contracts.json_types import Json, JsonObject
from contracts.proposals import Draft
from nodes.evolution.model_draft import Written, model_drafts
from nodes.evolution.prompt import Brief
from tests.card_worlds import INCLUDE, MAIN, QUOTES, finding, harness, skill_text
from tests.fakes.openai_server import KEY, OpenAIServer, Reply
from tests.fakes.serving import serve
from tests.unit.evolution.test_editor_model import judging

RULE = "- Call `payment_api` again after a 504, at most 3 times, before you give up."
EDIT: JsonObject = {
    "operations": [{"op": "insert_after", "path": "instructions/main.md",
                    "anchor": "- Never promise a delivery date.", "text": RULE}],
    "why": "One more call is enough.", "falsifier": "Later calls fail as often.",
    "evidence": ["e1"],
}  # fmt: skip
GOOD = Reply(content=json.dumps(EDIT))


def changed(**keys: Json) -> Reply:
    return Reply(content=json.dumps({**EDIT, **keys}))


WEAK: dict[str, Reply] = {
    "prose": Reply(content="I would tell the agent to try again."),
    "half": Reply(content=json.dumps(EDIT)[:80], finish="length"),
    "nothing": Reply(content=""),
    "null": Reply(content=None),
    "refusal": Reply(content=None, refusal="I cannot help with that."),
    "list": Reply(content="[1, 2]"),
    "wrong types": changed(operations="all of them", evidence={"e1": True}),
    "many operations": changed(operations=[{"op": "replace", "path": "a", "anchor": "b",
                                            "text": "c"}] * 100),
    "unknown evidence": changed(evidence=["e99"]),
    "other path": changed(operations=[{"op": "add_skill", "path": "../../etc/skills/x/SKILL.md",
                                       "anchor": None, "text": "x"}]),
    "hidden characters": changed(
        operations=[{**EDIT["operations"][0], "text": f"{RULE}\u202e"}]  # type: ignore[index,dict-item]
    ),
    "another tool": Reply(content=None, arguments="{}", tool="run_shell", finish="tool_calls"),
    "half a call": Reply(content=None, arguments='{"operations": [', finish="tool_calls"),
    "too long": Reply(content="x" * 3_000_000),
    "no choices": Reply(body=b'{"id": "1", "object": "chat.completion", "choices": []}'),
    "no json": Reply(body=b"<html>busy</html>"),
    "bad request": Reply(status=400),
}  # fmt: skip


@asynccontextmanager
async def serving(fake: OpenAIServer, key: str = KEY) -> AsyncIterator[BaseChatModel]:
    """The model that the fake serves; its client is closed with the loop that it was used in."""
    with serve(fake.app) as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", f"{url}/v1")
        patch.setenv("OPENAI_API_KEY", key)
        model = open_model("openai:gpt-5-mini")
        assert isinstance(model, ChatOpenAI)
        try:
            yield model
        finally:
            await model.root_async_client.close()
            # The package keeps one client a process; here every test has a loop of its own.
            _client_utils._cached_async_httpx_client.cache_clear()


async def drafted(
    replies: Sequence[Reply], *, schemas: bool = True
) -> tuple[Written[Draft], OpenAIServer]:
    fake = OpenAIServer(replies, schemas=schemas)
    async with serving(fake) as model:
        base = harness(main=MAIN, lookup=skill_text("lookup", "- Look the order up first."))
        brief = Brief(
            finding=finding(), unit="trace", evidence=QUOTES, snapshot=base, include=INCLUDE
        )
        written = await model_drafts(
            model, "openai:gpt-5-mini", brief, judging(base, [line.quote for line in QUOTES]),
            count=1, tokens=40_000, timeout_s=20.0, total_s=60.0,
        )  # fmt: skip
    return written, fake


async def test_an_edit_over_the_wire_is_the_draft_with_what_it_used() -> None:
    written, fake = await drafted([GOOD])
    (draft,) = written.held
    assert draft.operations[0].text == RULE
    assert (written.tries, written.tokens) == (1, 1_000)
    assert "payment_api: 504 Gateway Timeout" in json.dumps(fake.asked[0]["messages"])


async def test_what_a_reviewer_would_not_see_is_cleaned_out_of_the_reasons() -> None:
    written, _ = await drafted([changed(why="One more\x1b]0;x\x07 call\u202e is enough.")])
    (draft,) = written.held
    assert draft.why.isprintable()
    assert "One more" in draft.why


@pytest.mark.parametrize("weak", WEAK.values(), ids=WEAK.keys())
async def test_a_weak_answer_costs_a_try_and_the_next_one_is_taken(weak: Reply) -> None:
    written, fake = await drafted([weak, GOOD])
    assert [draft.operations[0].text for draft in written.held] == [RULE]
    assert written.tries == len(fake.asked) == 2


@pytest.mark.parametrize("weak", WEAK.values(), ids=WEAK.keys())
async def test_only_weak_answers_end_in_one_line(weak: Reply) -> None:
    written, fake = await drafted([weak] * 20)
    assert not written.held
    assert written.problem
    assert written.problem == one_line(written.problem, 10_000)
    assert len(fake.asked) <= 9


async def test_a_server_that_is_busy_is_asked_again_by_its_client() -> None:
    written, fake = await drafted([Reply(status=503), GOOD])
    assert len(written.held) == 1
    assert len(fake.asked) == 2


async def test_a_server_without_schemas_is_asked_for_text() -> None:
    written, fake = await drafted([GOOD], schemas=False)
    assert len(written.held) == 1
    assert "response_format" not in fake.asked[-1]


async def test_a_wrong_key_is_one_line_without_the_key() -> None:
    class Said(BaseModel):
        word: str

    async with serving(OpenAIServer([]), "sk-another-key-of-somebody") as model:
        budget = Budget(tokens=20_000, count_tokens=len, timeout_s=20)
        answer = await ask(model, [HumanMessage("hello")], Said, budget=budget)
    assert answer.parsed is None
    assert answer.problem
    assert "sk-another" not in answer.problem
    assert "\n" not in answer.problem
