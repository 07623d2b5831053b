"""A chat model that needs no network: a simulator of a model that follows its instructions.

It is not a language model. It knows the trade (which tools a refund takes, see
`following.request`) and does what its system text says, as far as it understands it: the grammar
is in `following.directives`. Text that it does not understand changes nothing but the number of
tokens. Without any instruction it gives up at the first error and says so, passes an order id as
the customer wrote it, and calls a tool without what should have come before. It is deterministic:
the same messages get the same answer.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from examples.refund_agent.following.directives import Directives, read_directives
from examples.refund_agent.following.plan import Answer, Done, Situation, next_step
from examples.refund_agent.following.request import understand
from examples.refund_agent.prices import OFFLINE_MODEL, cost_usd, count_tokens
from examples.refund_agent.tracing import note_cost

Parameters = Mapping[str, tuple[str, ...]]


class OfflineModel(BaseChatModel):
    """Reads the system text and the bound tools, and acts accordingly."""

    @property
    def _llm_type(self) -> str:
        return OFFLINE_MODEL

    @property
    def _identifying_params(self) -> dict[str, object]:
        return {"model_name": OFFLINE_MODEL}

    def bind_tools(
        self,
        tools: Sequence[dict[str, object] | type | Callable[..., object] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: object,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Offer the tools to the model. It chooses by itself, so `tool_choice` is refused."""
        if tool_choice not in {None, "auto"}:
            raise ValueError(f"the offline model cannot be told its tool: got {tool_choice!r}")
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: object,
    ) -> ChatResult:
        del stop  # there is no text to cut off
        offered = kwargs.get("tools")
        tools = offered if isinstance(offered, list) else []
        message = _reply(messages, _parameters(tools))
        sent = [text for m in messages for text in (str(m.content), *_calls(m))]
        received = [str(message.content), *_calls(message)]
        used_in = count_tokens(*sent, *(json.dumps(tool) for tool in tools))
        used_out = count_tokens(*received)
        message.usage_metadata = {
            "input_tokens": used_in,
            "output_tokens": used_out,
            "total_tokens": used_in + used_out,
        }
        cost = cost_usd(OFFLINE_MODEL, used_in, used_out)
        if run_manager is not None and cost is not None:
            note_cost(run_manager.run_id, cost)
        finish = "tool_calls" if message.tool_calls else "stop"
        message.response_metadata = {"model_name": OFFLINE_MODEL, "finish_reason": finish}
        generation = ChatGeneration(message=message, generation_info={"finish_reason": finish})
        return ChatResult(generations=[generation], llm_output={"model_name": OFFLINE_MODEL})


def _reply(messages: Sequence[BaseMessage], tools: Parameters) -> AIMessage:
    system = "\n\n".join(str(m.content) for m in messages if isinstance(m, SystemMessage))
    asked = " ".join(str(m.content) for m in messages if isinstance(m, HumanMessage))
    history = _history(messages)
    step = next_step(
        Situation(
            request=understand(asked),
            tools=tools,
            rules=_rules(system, tuple(tools.items())),
            history=history,
        )
    )
    if isinstance(step, Answer):
        return AIMessage(content=step.text)
    call_id = f"call_{len(history) + 1}"
    call = {"name": step.tool, "args": dict(step.arguments), "id": call_id, "type": "tool_call"}
    return AIMessage(content="", tool_calls=[call])


@lru_cache(maxsize=64)
def _rules(system: str, tools: tuple[tuple[str, tuple[str, ...]], ...]) -> Directives:
    names = tuple(name for name, _ in tools)
    parameters = tuple(dict.fromkeys(p for _, names_ in tools for p in names_))
    return read_directives(system, names, parameters)


def _parameters(tools: Sequence[Mapping[str, object]]) -> Parameters:
    """Name and parameter names of each tool in the OpenAI form."""
    found = {}
    for tool in tools:
        function = tool["function"]
        if isinstance(function, dict):
            found[str(function["name"])] = tuple(function["parameters"].get("properties", {}))
    return found


_ERROR_TEXT = re.compile(r"\s*error\b|.*\bHTTP [45]\d\d\b", re.I)


def _history(messages: Sequence[BaseMessage]) -> list[Done]:
    calls = {
        call["id"]: call for m in messages if isinstance(m, AIMessage) for call in m.tool_calls
    }
    done = []
    for message in messages:
        if isinstance(message, ToolMessage) and message.tool_call_id in calls:
            call, content = calls[message.tool_call_id], str(message.content)
            failed = message.status == "error" or _ERROR_TEXT.match(content) is not None
            done.append(Done(call["name"], call["args"], content, failed))
    return done


def _calls(message: BaseMessage) -> list[str]:
    """The tool calls of a message as text, for the count of tokens."""
    if not isinstance(message, AIMessage):
        return []
    return [json.dumps({"name": c["name"], "arguments": c["args"]}) for c in message.tool_calls]
