"""A chat model that calls tools as a function of what it was told, through LangChain's own door."""

from collections.abc import Callable, Sequence
from uuid import uuid4

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

Thinks = Callable[[Sequence[BaseMessage]], AIMessage]


def calls(*wanted: tuple[str, dict[str, object]], text: str = "") -> AIMessage:
    """An answer that calls tools: pairs of name and arguments."""
    made = [
        ToolCall(name=name, args=dict(args), id=f"call-{uuid4().hex[:8]}", type="tool_call")
        for name, args in wanted
    ]
    return AIMessage(content=text, tool_calls=made)


def results(messages: Sequence[BaseMessage]) -> list[str]:
    """What tools returned so far."""
    return [message.text for message in messages if isinstance(message, ToolMessage)]


class ToolModel(BaseChatModel):
    """Thinks with a function; keeps what it was told and which tools it was given."""

    _thinks: Thinks = PrivateAttr()
    _asked: list[list[BaseMessage]] = PrivateAttr(default_factory=list)
    _tools: list[str] = PrivateAttr(default_factory=list)

    def __init__(self, thinks: Thinks) -> None:
        super().__init__()
        self._thinks = thinks

    @property
    def asked(self) -> Sequence[Sequence[BaseMessage]]:
        """The messages of every call so far."""
        return self._asked

    @property
    def tools(self) -> Sequence[str]:
        """Names of the tools it was given."""
        return self._tools

    @property
    def _llm_type(self) -> str:
        return "tool-model"

    def bind_tools(
        self,
        tools: Sequence[dict[str, object] | type | Callable[..., object] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: object,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        del tool_choice
        self._tools[:] = [convert_to_openai_tool(tool)["function"]["name"] for tool in tools]
        return self.bind(**kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: object,
    ) -> ChatResult:
        del stop, run_manager, kwargs
        self._asked.append(list(messages))
        return ChatResult(generations=[ChatGeneration(message=self._thinks(messages))])
