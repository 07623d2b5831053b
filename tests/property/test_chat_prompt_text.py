"""A chat prompt as text and back loses nothing, whatever it says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.prompts.text import PromptTextError, chat_messages, chat_text
from contracts.json_types import Json

LINES = st.sampled_from(["", "=== system ===", r"\=== user ===", "say === x === now", "\r", "a"])
CONTENT = st.one_of(st.text(), st.lists(LINES).map("\n".join))
SAID = st.builds(
    lambda role, content: {"role": role, "content": content},
    st.sampled_from(["system", "user", "assistant", "tool_2"]), CONTENT,
)  # fmt: skip
PLACE = st.builds(
    lambda name: {"type": "placeholder", "name": name}, st.sampled_from(["history", "a b", "= ="])
)


@given(st.lists(st.one_of(SAID, PLACE), min_size=1))
def test_messages_come_back_as_they_were(messages: list[dict[str, Json]]) -> None:
    assert chat_messages(chat_text(messages)) == messages


@given(st.lists(SAID, min_size=1))
def test_a_text_that_was_read_is_written_the_same(messages: list[dict[str, Json]]) -> None:
    text = chat_text(messages)
    assert chat_text(chat_messages(text)) == text


@pytest.mark.parametrize("text", ["", "hello", "\n=== user ===\nx", "=== placeholder ===\n"])
def test_what_is_no_chat_is_refused(text: str) -> None:
    with pytest.raises(PromptTextError):
        chat_messages(text)


def test_a_role_that_no_line_can_name_is_refused() -> None:
    with pytest.raises(PromptTextError, match="message 2"):
        chat_text([{"role": "user", "content": "a"}, {"role": "x\ny", "content": "b"}])
