"""A chat model that says what a script tells it to, one answer a call.

For tests, and for an operator's dry run: `models.editor: "scripted:answers.jsonl"`. Each line of
the file is one answer:

    {"text": "any text"}
    {"answer": {...}}          a call of the tool the model was given, else the JSON as text
    {"error": "what failed"}   the call fails with it, as a provider's would

with `"tokens": [in, out]` and `"cost": usd` beside it where the use is to be reported. A process
starts at the first line; a call after the last one fails.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from contracts.errors import ConfigError
from contracts.json_types import Json, JsonObject

_KINDS = ("text", "answer", "error")


class ScriptedError(Exception):
    """The failure that a script asks for, or a call after its last answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedAnswer:
    """One answer: an `error` to raise, an `answer` as a tool call, or `text`."""

    text: str = ""
    answer: JsonObject | None = None
    error: Exception | None = None
    tokens: tuple[int, int] | None = None
    """Input and output, where the use is reported."""
    seconds: float = 0.0
    """How long the call takes."""
    cost: float | None = None
    """In USD, where the cost is reported."""


class ScriptedModel(BaseChatModel):
    """Answers from a queue, whatever it is asked, and keeps what it was asked."""

    _answers: deque[ScriptedAnswer] = PrivateAttr()
    _asked: list[list[BaseMessage]] = PrivateAttr(default_factory=list)

    def __init__(self, answers: Iterable[ScriptedAnswer]) -> None:
        super().__init__()
        self._answers = deque(answers)

    @property
    def asked(self) -> Sequence[Sequence[BaseMessage]]:
        """The messages of every call so far."""
        return self._asked

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self,
        tools: Sequence[dict[str, object] | type | Callable[..., object] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: object,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """The same model, answering by calls of the first of these tools."""
        del tool_choice
        names = [convert_to_openai_tool(tool)["function"]["name"] for tool in tools]
        return self.bind(tool_names=names, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: object,
    ) -> ChatResult:
        del stop, run_manager
        return _result(self._next(messages), kwargs.get("tool_names"))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: object,
    ) -> ChatResult:
        del stop, run_manager
        answer = self._next(messages)
        await asyncio.sleep(answer.seconds)
        return _result(answer, kwargs.get("tool_names"))

    def _next(self, messages: list[BaseMessage]) -> ScriptedAnswer:
        self._asked.append(list(messages))
        if not self._answers:
            raise ScriptedError(f"the script has no answer for call {len(self._asked)}")
        return self._answers.popleft()


def _result(answer: ScriptedAnswer, tool_names: object) -> ChatResult:
    if answer.error is not None:
        raise answer.error
    message = AIMessage(content=answer.text)
    if answer.answer is not None and isinstance(tool_names, list) and tool_names:
        call = {"name": tool_names[0], "args": dict(answer.answer), "id": "call-1"}
        message = AIMessage(content=answer.text, tool_calls=[{**call, "type": "tool_call"}])
    elif answer.answer is not None:
        message = AIMessage(content=json.dumps(answer.answer, ensure_ascii=False))
    if answer.tokens is not None:
        into, out = answer.tokens
        message.usage_metadata = UsageMetadata(
            input_tokens=into, output_tokens=out, total_tokens=into + out
        )
    if answer.cost is not None:
        message.response_metadata = {"token_usage": {"cost": answer.cost}}
    return ChatResult(generations=[ChatGeneration(message=message)])


def read_script(file: Path, *, key: str) -> tuple[ScriptedAnswer, ...]:
    """The answers of a script file; `key` is the setting that named it.

    Raises:
        ConfigError: there is no such file, or a line is no answer.
    """
    try:
        lines = file.read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"{key}: the script {str(file)!r} cannot be read: {why}") from None
    return tuple(
        _answer(line, f"{key}: line {number} of {file.name}")
        for number, line in enumerate(lines, 1)
        if line.strip()
    )


def _answer(line: str, where: str) -> ScriptedAnswer:
    try:
        value: Json = json.loads(line)
    except ValueError:
        raise ConfigError(f"{where}: not JSON") from None
    kinds = [kind for kind in _KINDS if isinstance(value, dict) and kind in value]
    if not isinstance(value, dict) or len(kinds) != 1 or set(value) - {*kinds, "tokens", "cost"}:
        raise ConfigError(f"{where}: needs one of text, answer, error; and tokens, cost at most")
    kind, said = kinds[0], value[kinds[0]]
    text, answer = said if isinstance(said, str) else None, said if isinstance(said, dict) else None
    if (answer if kind == "answer" else text) is None:
        raise ConfigError(f"{where}: {kind} is of the wrong type")
    tokens = value.get("tokens")
    counted = isinstance(tokens, list) and len(tokens) == 2 and {int} == set(map(type, tokens))
    if "tokens" in value and not counted:
        raise ConfigError(f"{where}: tokens needs two whole numbers, [in, out]")
    cost = value.get("cost")
    if cost is not None and (isinstance(cost, bool) or not isinstance(cost, int | float)):
        raise ConfigError(f"{where}: cost needs a number, in USD")
    return ScriptedAnswer(
        text=(text or "") if kind == "text" else "",
        answer=answer,
        error=ScriptedError(text) if kind == "error" else None,
        tokens=cast("tuple[int, int]", tuple(tokens)) if isinstance(tokens, list) else None,
        cost=cost,
    )
