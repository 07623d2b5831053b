"""Any LangChain chat model by name, asked for one answer of a known shape.

Source: langchain `init_chat_model` and `BaseChatModel.with_structured_output`
(https://reference.langchain.com/python/langchain/chat_models/), tried with langchain 1.5.
"""

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Generic, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langsmith import tracing_context
from pydantic import BaseModel

from configs.redaction import redact_head
from connectors.models.answers import MAX_CHARS, Parsed, read_call, read_text
from connectors.models.scripted import ScriptedModel, read_script
from connectors.review.clean import one_line
from contracts.errors import ConfigError

ANSWER_TOKENS = 8_000
"""The most that one answer may take; a call starts only where the budget still has room for it."""
TIMEOUT_S = 120.0
"""For one answer, the provider library's own retries included."""
RETRIES = 2
SCRIPTED = "scripted"
_NAME = re.compile(r"[a-z][a-z0-9_-]*:\S+")
_INSTALL = re.compile(r"pip install [\w.-]+")

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one call may still use, and how text is counted."""

    tokens: int
    count_tokens: Callable[[str], int]
    answer_tokens: int = ANSWER_TOKENS
    timeout_s: float = TIMEOUT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[M]):
    """What one call gave: `parsed`, or the `problem` that there is instead."""

    parsed: M | None
    problem: str | None
    tokens: int
    """Input and output, as the provider reports it, else counted. 0: no call was made."""
    text: str = ""
    """What the model said, cut, to be shown to it with the problem."""
    failed: bool = False
    """The call itself failed, so there is no answer to correct."""
    cost_usd: float | None = None
    """As the provider reports it; None: it does not, and nobody knows."""


def open_model(
    name: str,
    *,
    key: str = "models.editor",
    root: Path | None = None,
    answer_tokens: int = ANSWER_TOKENS,
) -> BaseChatModel:
    """The chat model `provider:name`; no call is made.

    `scripted:<file>` answers from a file, for tests and dry runs (connectors/models/scripted.py).

    Args:
        name: such as `openai:gpt-5-mini` or `ollama:qwen3`.
        key: the setting that holds the name, for the message.
        root: the folder that a script's path is relative to.
        answer_tokens: the most that it may write in one answer.

    Raises:
        ConfigError: the name is none, its provider is unknown, or the provider's package or key is
            missing.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{key}: got {name!r}, needs provider:name such as 'openai:gpt-5-mini'")
    provider, _, rest = name.partition(":")
    if provider == SCRIPTED:
        return ScriptedModel(read_script((root or Path()) / rest, key=key))
    # Imported here: the package loads slowly, and most installations name no model.
    from langchain.chat_models import init_chat_model  # noqa: PLC0415

    try:
        return init_chat_model(
            rest, model_provider=provider, max_tokens=answer_tokens, timeout=TIMEOUT_S,
            max_retries=RETRIES,
        )  # fmt: skip
    except ImportError as error:
        command = _INSTALL.search(str(error))
        install = command[0] if command else f"pip install langchain-{provider.replace('_', '-')}"
        raise ConfigError(
            f"{key}: {name!r} needs the package of its provider: `{install}`"
        ) from None
    except Exception as error:  # noqa: BLE001  # providers' constructors share no error class
        raise ConfigError(f"{key}: {name!r} cannot be opened: {_said(error)}") from None


async def ask(
    model: BaseChatModel,
    messages: Sequence[BaseMessage],
    schema: type[M],
    *,
    budget: Budget,
    structured: bool = True,
) -> Answer[M]:
    """One answer that fits `schema`, or why there is none. Never raises for what a model does.

    The model's own structured output is asked for where it has one; what comes back as text all
    the same is searched for the one JSON object that fits.

    Args:
        model: from `open_model`.
        messages: must say what the answer looks like, for models that read it nowhere else.
        schema: what the answer must be.
        budget: the call is not made when the messages and a full answer might go over it.
        structured: False asks for plain text, for a provider that refused the schema.
    """
    sent = sum(budget.count_tokens(str(message.content)) for message in messages)
    if sent + budget.answer_tokens > budget.tokens:
        needs = f"{sent} tokens and {budget.answer_tokens} for the answer"
        return Answer(
            parsed=None, tokens=0, failed=True,
            problem=f"over the token budget: the call takes {needs}, {budget.tokens} are left",
        )  # fmt: skip
    try:
        async with asyncio.timeout(budget.timeout_s):
            raw, parsed = await _call(model, messages, schema, structured=structured)
    except TimeoutError:
        problem = f"no answer within {budget.timeout_s:g} s"
        # What it had written by then is unknown, and is counted as all that it might have.
        tokens = sent + budget.answer_tokens
        return Answer(parsed=None, problem=problem, tokens=tokens, failed=True)
    except Exception as error:  # noqa: BLE001  # providers' errors share no class
        problem = f"the call failed: {_said(error)}"
        return Answer(parsed=None, problem=problem, tokens=sent, failed=True)
    text = _shown(raw)
    tokens = _used(raw) or sent + budget.count_tokens(text)
    found = Parsed(value=parsed, problem=None) if parsed is not None else _read(raw, schema)
    return Answer(
        parsed=found.value, problem=found.problem, tokens=tokens,
        text=redact_head(text, MAX_CHARS), cost_usd=cost_of(raw),
    )  # fmt: skip


async def _call(
    model: BaseChatModel, messages: Sequence[BaseMessage], schema: type[M], *, structured: bool
) -> tuple[AIMessage, M | None]:
    """The message, and what the library made of it."""
    asked = None
    if structured:
        try:
            asked = model.with_structured_output(schema, include_raw=True)
        except (NotImplementedError, ValueError):
            asked = None  # a model without tools; its text is read instead
    # The messages hold text of the agent's traces: no tracing backend of ours gets them.
    with tracing_context(enabled=False):
        if asked is None:
            said = await model.ainvoke(list(messages))
            return _message(said), None
        both = await asked.ainvoke(list(messages))
    if not isinstance(both, dict):
        raise TypeError(f"the model gave {type(both).__name__} in place of a message")
    parsed = both.get("parsed")
    return _message(both.get("raw")), parsed if isinstance(parsed, schema) else None


def _message(said: object) -> AIMessage:
    if not isinstance(said, AIMessage):
        raise TypeError(f"the model gave {type(said).__name__} in place of a message")
    return said


def _read(raw: AIMessage, schema: type[M]) -> Parsed[M]:
    """The answer in a tool call, in one that is not quite JSON, or in the text."""
    if raw.tool_calls:
        return read_call(raw.tool_calls[0]["args"], schema)
    broken = [call.get("args") or "" for call in raw.invalid_tool_calls]
    return read_text("\n".join([*broken, raw.text]), schema)


def _shown(raw: AIMessage) -> str:
    calls = [json.dumps(call["args"], ensure_ascii=False) for call in raw.tool_calls]
    broken = [call.get("args") or "" for call in raw.invalid_tool_calls]
    said = "\n".join(filter(None, [raw.text, *calls, *broken]))
    return said.encode("utf-8", "replace").decode()  # half a surrogate pair can be sent nowhere


def _used(raw: AIMessage) -> int:
    return raw.usage_metadata["total_tokens"] if raw.usage_metadata is not None else 0


def cost_of(raw: AIMessage) -> float | None:
    """What the call cost, where the provider says it beside the tokens it counted."""
    said = raw.response_metadata
    for place in (said.get("token_usage"), said.get("usage"), said):
        cost = place.get("cost") if isinstance(place, dict) else None
        if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < inf:
            return float(cost)
    return None


def _said(error: Exception) -> str:
    """An outside error in one line: its class, and its message without secrets."""
    return one_line(f"{type(error).__name__}: {error}", 200)
