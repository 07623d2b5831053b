"""The prompts of a harness by their names, whatever the files are called."""

import json

import pytest

from connectors.probe.prompts_store import PromptError, PromptFiles
from contracts.harness import HarnessFile, HarnessSnapshot


def files(**texts: str) -> PromptFiles:
    """Files under `prompts/`; `_0_` stands for a point."""
    named = {f"prompts/{name.replace('_0_', '.')}": text for name, text in texts.items()}
    return PromptFiles(
        HarnessSnapshot(files={p: HarnessFile(data=t.encode()) for p, t in named.items()})
    )


def test_a_chat_as_text_is_read_as_its_messages_under_its_own_name() -> None:
    prompts = files(talk_0_chat_0_md="=== system ===\nBe kind.\n=== placeholder history ===\n")
    assert list(prompts.names()) == ["talk"]
    assert prompts.get("talk.chat") is None
    found = prompts.get("talk")
    assert found is not None
    assert found.prompt == [
        {"role": "system", "content": "Be kind."}, {"type": "placeholder", "name": "history"},
    ]  # fmt: skip


def test_a_prompt_as_text_and_as_json_is_one_and_json_counts() -> None:
    prompts = files(a_0_md="text", a_0_json=json.dumps({"prompt": "json"}), b_0_md="b")
    assert list(prompts.names()) == ["a", "b"]
    found = prompts.get("a")
    assert found is not None
    assert found.prompt == "json"


def test_a_chat_that_is_none_is_named() -> None:
    with pytest.raises(PromptError, match=r"prompts/talk\.chat\.md: line 1: a chat prompt begins"):
        files(talk_0_chat_0_md="hello").get("talk")
