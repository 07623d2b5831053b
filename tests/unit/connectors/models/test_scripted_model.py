"""The scripted model answers as its file says, through LangChain's own interface."""

from pathlib import Path

import pytest
from pydantic import BaseModel

from connectors.models.scripted import ScriptedAnswer, ScriptedError, ScriptedModel, read_script
from contracts.errors import ConfigError


class Pick(BaseModel):
    """One number."""

    number: int


def _script(tmp_path: Path, *lines: str) -> ScriptedModel:
    file = tmp_path / "answers.jsonl"
    file.write_text("\n".join(lines) + "\n", "utf-8")
    return ScriptedModel(read_script(file, key="models.editor"))


async def test_text_answer_and_error_come_in_the_order_of_the_file(tmp_path: Path) -> None:
    model = _script(
        tmp_path, '{"text": "one", "tokens": [5, 2]}', "", '{"answer": {"number": 3}}',
        '{"error": "503 overloaded"}',
    )  # fmt: skip
    first = await model.ainvoke("a")
    assert first.text == "one"
    assert first.usage_metadata is not None
    assert first.usage_metadata["total_tokens"] == 7
    assert await model.with_structured_output(Pick).ainvoke("b") == Pick(number=3)
    with pytest.raises(ScriptedError, match="503 overloaded"):
        await model.ainvoke("c")
    with pytest.raises(ScriptedError, match="no answer for call 4"):
        await model.ainvoke("d")
    assert [messages[0].content for messages in model.asked] == ["a", "b", "c", "d"]


async def test_an_answer_without_a_tool_to_call_is_the_json_as_text() -> None:
    model = ScriptedModel([ScriptedAnswer(answer={"number": 3})])
    assert (await model.ainvoke("a")).text == '{"number": 3}'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1 of answers.jsonl: not JSON"),
        ('["text"]', "needs one of text, answer, error"),
        ('{"text": "a", "error": "b"}', "needs one of text, answer, error"),
        ('{"text": "a", "delay": 3}', "needs one of text, answer, error"),
        ('{"text": 1}', "text is of the wrong type"),
        ('{"answer": "x"}', "answer is of the wrong type"),
        ('{"text": "a", "tokens": [1]}', "tokens needs two whole numbers"),
        ('{"text": "a", "tokens": [true, 1]}', "tokens needs two whole numbers"),
    ],
)
def test_a_line_that_is_no_answer_is_named(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        _script(tmp_path, line)
