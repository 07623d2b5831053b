"""A model that cannot be opened is one line that names the setting and says what to do."""

import importlib.util
from pathlib import Path

import pytest

from connectors.models.chat import ANSWER_TOKENS, open_model
from connectors.models.scripted import ScriptedModel
from contracts.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpt-5", r"models\.editor: got 'gpt-5', needs provider:name"),
        (":x", r"models\.editor: got ':x', needs provider:name"),
        ("nobody:x", r"models\.editor: 'nobody:x' cannot be opened: .*provider"),
        ("scripted:absent.jsonl", r"models\.editor: the script '.*absent.jsonl' cannot be read"),
    ],
)
def test_a_name_that_leads_nowhere_says_so(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        open_model(name)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(
    importlib.util.find_spec("langchain_anthropic") is not None, reason="its package is installed"
)
def test_a_package_that_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match=r"pip install langchain-anthropic`$"):
        open_model("anthropic:claude-haiku")


def test_the_setting_that_named_the_model_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^models\.analyst: "):
        open_model("gpt-5", key="models.analyst")


def test_a_provider_is_asked_to_keep_answers_short_and_retries_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: dict[str, object] = {}

    def opening(model: str, **options: object) -> ScriptedModel:
        asked.update(options, model=model)
        return ScriptedModel([])

    monkeypatch.setattr("langchain.chat_models.init_chat_model", opening)
    open_model("ollama:qwen3:8b")
    assert (asked["model"], asked["model_provider"]) == ("qwen3:8b", "ollama")
    assert (asked["max_tokens"], asked["max_retries"]) == (ANSWER_TOKENS, 2)


def test_a_key_in_a_providers_error_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-" + "A1b2" * 8

    def opening(*_: object, **__: object) -> ScriptedModel:
        raise RuntimeError(f"bad key {secret}\nand more")

    monkeypatch.setattr("langchain.chat_models.init_chat_model", opening)
    with pytest.raises(ConfigError, match="RuntimeError: bad key") as caught:
        open_model("openai:x")
    assert secret not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_script_is_found_beside_the_settings(tmp_path: Path) -> None:
    (tmp_path / "answers.jsonl").write_text('{"text": "hello"}\n', "utf-8")
    model = open_model("scripted:answers.jsonl", root=tmp_path)
    assert model.invoke("hi").text == "hello"
