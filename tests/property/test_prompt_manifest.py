"""The text of a hub's prompt and its manifest: it comes back, and nothing else moves."""

import copy
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core._api import suppress_langchain_beta_warning
from langchain_core.load import dumpd, load
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import (
    ChatMessagePromptTemplate,
    ChatPromptTemplate,
    MessagesPlaceholder,
    PromptTemplate,
)

from connectors.prompts.manifest import ManifestError, manifest_text, with_text
from connectors.prompts.text import chat_messages, chat_text
from contracts.json_types import Json
from tests.hub_worlds import CHAT, chat_manifest, text_manifest, with_model

PLAIN = st.text(st.characters(exclude_characters="{}", exclude_categories=["Cs"]))
LINES = st.sampled_from(["", "=== system ===", r"\=== user ===", "a", "\r", "b {x} c", "{{x}}"])
CONTENT = st.one_of(PLAIN, st.lists(LINES).map("\n".join))
ROLE = st.sampled_from(["system", "user", "assistant"])


@given(PLAIN, CONTENT, st.sampled_from(["f-string", "mustache"]), st.booleans())
def test_a_text_prompt_changes_in_its_template_alone(
    old: str, new: str, form: str, model: bool
) -> None:
    made = text_manifest(old, form)
    kept = with_model(made) if model else made
    before = copy.deepcopy(kept)
    assert (manifest_text(kept).text, manifest_text(kept).chat) == (old, False)
    changed = with_text(kept, new)
    assert kept == before
    assert manifest_text(changed).text == new
    assert with_text(changed, old) == before


@given(st.lists(st.tuples(ROLE, CONTENT), min_size=1), st.data())
def test_a_chat_changes_in_its_contents_alone(
    said: list[tuple[str, str]], data: st.DataObject
) -> None:
    made = [{"role": role, "content": content} for role, content in said]
    kept = with_text(chat_of(said), chat_text(cast("list[dict[str, Json]]", made)))
    text = manifest_text(kept).text
    assert chat_messages(text) == made
    at = data.draw(st.integers(0, len(made) - 1))
    new = [{**m, "content": data.draw(CONTENT)} if n == at else m for n, m in enumerate(made)]
    changed = with_text(kept, chat_text(cast("list[dict[str, Json]]", new)))
    assert chat_messages(manifest_text(changed).text) == new
    assert with_text(changed, text) == kept


def chat_of(said: list[tuple[str, str]]) -> Json:
    """A chat with these roles, whatever they say."""
    messages: list[Any] = [(role, "x") for role, _ in said]
    return cast("Json", dumpd(ChatPromptTemplate.from_messages(messages)))


def test_a_chat_of_every_kind_of_message_reads_as_one_text() -> None:
    messages: list[Any] = [
        ("system", "Be {tone}."), SystemMessage("Plain {x}."), MessagesPlaceholder("history"),
        ChatMessagePromptTemplate.from_template("Mind {y}.", role="critic"), ("human", "{q}"),
        HumanMessage("H"), AIMessage("", tool_calls=[{"name": "pay", "args": {}, "id": "1"}]),
        ToolMessage("paid", tool_call_id="1"),
    ]  # fmt: skip
    kept = cast("Json", dumpd(ChatPromptTemplate.from_messages(messages)))
    said = manifest_text(kept)
    assert said.chat
    assert said.text == (
        "=== system ===\nBe {tone}.\n=== system ===\nPlain {x}.\n=== placeholder history ===\n"
        "=== critic ===\nMind {y}.\n=== user ===\n{q}\n=== user ===\nH\n=== assistant ===\n\n"
        "=== tool ===\npaid\n"
    )
    assert with_text(kept, said.text) == kept
    changed = with_text(kept, said.text.replace("paid", "refused"))
    assert cast("Any", changed)["kwargs"]["messages"][7]["kwargs"]["content"] == "refused"
    assert (
        cast("Any", changed)["kwargs"]["messages"][6] == cast("Any", kept)["kwargs"]["messages"][6]
    )


def test_messages_are_added_and_left_out_beside_those_that_stay() -> None:
    kept = with_model(chat_manifest())
    more = CHAT.replace("=== user ===", "=== user ===\nAn example {q}.\n=== user ===")
    added = with_text(kept, more)
    assert manifest_text(added).text == more
    assert with_text(added, CHAT) == kept
    with suppress_langchain_beta_warning():
        template = load(cast("Any", added)["kwargs"]["first"], allowed_objects="core")
    assert set(template.input_variables) == {"name", "question", "q"}


REFUSED: list[tuple[Json, str, str]] = [
    (chat_manifest(), "no chat", "a chat prompt begins with"),
    (chat_manifest(), CHAT.replace("=== placeholder history ===\n", ""), "a place for messages"),
    (chat_manifest(), CHAT.replace("history", "past"), "a place for messages"),
    (chat_manifest(), CHAT + "=== tool ===\nx\n", "role 'tool' is not added"),
    (chat_manifest(), CHAT.removesuffix("\n"), "would not come back"),
    (chat_manifest(), CHAT.replace("history ===\n", "history ===\n\n"), "would not come back"),
]


@pytest.mark.parametrize(("kept", "text", "why"), REFUSED)
def test_a_text_that_would_not_come_back_is_refused(kept: Json, text: str, why: str) -> None:
    with pytest.raises(ManifestError, match=why):
        with_text(kept, text)


def _with(path: list[Any], value: Json) -> Json:
    kept: Any = chat_manifest()
    here = kept
    for key in path[:-1]:
        here = here[key]
    here[path[-1]] = value
    return cast("Json", kept)


UNREADABLE: list[tuple[Json, str]] = [
    (None, "no object"), ([], "no object"), ({}, "neither|which is no text"),
    ({"lc": 1, "type": "constructor", "id": ["x", "FewShotPromptTemplate"], "kwargs": {}},
     "'FewShotPromptTemplate', which is no text"),
    (_with(["kwargs", "messages"], "x"), "no list of messages"),
    (_with(["kwargs", "messages"], []), "no messages"),
    (_with(["kwargs", "messages", 0], 3), "message 1 is no object"),
    (_with(["kwargs", "messages", 0, "kwargs", "prompt"], []), "message 1 holds more than text"),
    (_with(["kwargs", "messages", 3, "kwargs", "content"], [{"type": "image_url"}]),
     "message 4 holds more than text"),
    (_with(["kwargs", "messages", 3, "kwargs", "content"], "\ud800"), "not valid Unicode"),
    (_with(["kwargs", "messages", 0, "id"], ["a", "Evil\nName"]), "is a 'Evil"),
    ({"lc": 1, "type": "constructor", "id": ["x", "RunnableSequence"], "kwargs": {"first": None}},
     "beginning is no object"),
]  # fmt: skip


@pytest.mark.parametrize(("kept", "why"), UNREADABLE)
def test_what_is_no_text_is_refused_in_one_line(kept: Json, why: str) -> None:
    with pytest.raises(ManifestError, match=why) as told:
        manifest_text(kept)
    assert "\n" not in str(told.value)


def test_a_sequence_within_sequences_without_end_is_refused() -> None:
    kept: Json = dumpd(PromptTemplate.from_template("x"))
    for _ in range(9):
        kept = with_model(kept)
    with pytest.raises(ManifestError):
        manifest_text(kept)
