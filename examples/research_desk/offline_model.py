"""A chat model that plays three roles by simple rules; it is not a language model.

Which role it plays, and how years are to be written, it reads in its system text. The coordinator
hands the question to the researcher, who finds, reads and cites one article and hands over to the
writer, who keeps a note and hands back; the coordinator answers. After an error it goes on with
what it has, and says what is missing. The same messages get the same answer.
"""

import json
from collections.abc import Callable, Sequence

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from openinference.instrumentation.langchain import LangChainInstrumentor

from examples.research_desk.library import TOPICS

NAME = "offline-desk-1"
Call = tuple[str, dict[str, str]]


class DeskModel(BaseChatModel):
    """Reads its role and the conversation, and acts accordingly."""

    prompt_version: str
    """Noted on the span of each call, as a client of managed prompts does."""

    @property
    def _llm_type(self) -> str:
        return NAME

    def bind_tools(
        self,
        tools: Sequence[dict[str, object] | type | Callable[..., object] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: object,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Offer the tools to the model; it chooses by itself."""
        del tool_choice
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: object,
    ) -> ChatResult:
        del stop, kwargs
        message = _reply(messages)
        sent = sum(len(str(one.content)) for one in messages) // 4
        message.usage_metadata = {
            "input_tokens": sent, "output_tokens": 12, "total_tokens": sent + 12,
        }  # fmt: skip
        finish = "tool_calls" if message.tool_calls else "stop"
        message.response_metadata = {"model_name": NAME, "finish_reason": finish}
        self._note_prompt(run_manager)
        return ChatResult(
            generations=[ChatGeneration(message=message)], llm_output={"model_name": NAME}
        )

    def _note_prompt(self, run_manager: CallbackManagerForLLMRun | None) -> None:
        instrumentor = LangChainInstrumentor()
        if run_manager is None or not instrumentor.is_instrumented_by_opentelemetry:
            return
        span = instrumentor.get_span(run_manager.run_id)
        if span is not None:
            span.set_attributes({"prompt.name": "desk", "prompt.version": self.prompt_version})


def _reply(messages: Sequence[BaseMessage]) -> AIMessage:
    system = "\n".join(str(m.content) for m in messages if isinstance(m, SystemMessage))
    asked = next(str(m.content) for m in messages if isinstance(m, HumanMessage))
    done = {m.name: m for m in messages if isinstance(m, ToolMessage)}
    if "You are the coordinator" in system:
        step = _coordinate(done)
    elif "You are the researcher" in system:
        step = _research(asked, done, short_years="two digits" in system)
    else:
        step = _write(done)
    if isinstance(step, str):
        return AIMessage(content=step)
    number = sum(isinstance(m, ToolMessage) for m in messages) + 1
    call = {"name": step[0], "args": step[1], "id": f"call_{number}", "type": "tool_call"}
    return AIMessage(content="", tool_calls=[call])


Done = dict[str | None, ToolMessage]


def _coordinate(done: Done) -> Call | str:
    if "transfer_to_researcher" not in done:
        return "transfer_to_researcher", {}
    note = _note(done)
    saved = _value(done, "save_note").get("saved") is True
    return note if saved else f"{note} The note could not be kept."


def _research(asked: str, done: Done, *, short_years: bool) -> Call:
    topic = next((t for t in TOPICS if t in asked), asked)
    if "search" not in done:
        return "search", {"topic": topic}
    found = _value(done, "search").get("articles")
    if not isinstance(found, list) or not found:
        return "transfer_to_writer", {}
    article = str(found[0]["id"])
    if "read_article" not in done:
        return "read_article", {"article_id": article}
    year = str(_value(done, "read_article").get("year", ""))
    if year and "cite" not in done:
        return "cite", {"article_id": article, "year": year[2:] if short_years else year}
    return "transfer_to_writer", {}


def _write(done: Done) -> Call:
    if "save_note" not in done:
        return "save_note", {"text": _note(done)}
    return "transfer_to_coordinator", {}


def _note(done: Done) -> str:
    text = _value(done, "read_article").get("text")
    if not isinstance(text, str):
        return "I found nothing about it that I may read."
    source = _value(done, "cite").get("citation")
    return f"{text} Source: {source}." if source else f"{text} I have no source for it."


def _value(done: Done, tool: str) -> dict[str, object]:
    """What the tool answered last, where that is an object."""
    try:
        value = json.loads(str(done[tool].content))
    except (KeyError, json.JSONDecodeError):
        return {}
    return value if isinstance(value, dict) else {}
