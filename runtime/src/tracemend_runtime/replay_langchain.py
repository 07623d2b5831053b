"""A LangChain tool that asks the replay service where it would have called something."""

import asyncio
import functools
import inspect
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, cast

from langchain_core.callbacks import AsyncCallbackManagerForToolRun, CallbackManagerForToolRun
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, ToolException

from tracemend_runtime.replay import Call, Errors, ask, errors_near

# What the model asked for, as LangChain records it: before defaults and types are filled in.
_ASKED: ContextVar[object] = ContextVar("_ASKED")
# The tool that is really being called: one without an async form is called by its sync one.
_CALLED: ContextVar[BaseTool | None] = ContextVar("_CALLED", default=None)
_NO_CONFIG: RunnableConfig = {}


def replaying_tool(tool: BaseTool, errors: Errors) -> BaseTool:
    """A copy of the tool, of a class of its own that derives from the tool's."""
    schema = tool.get_input_schema()  # of a class without a schema it is read off `_run`
    copy = tool.model_copy()
    if copy.args_schema is None:
        copy.args_schema = schema
    functions = [getattr(tool, name, None) for name in ("func", "coroutine", "_run")]
    near = errors_near(next(function for function in functions if function is not None))
    made = _class_of(type(tool), (*errors, *near, ToolException))
    object.__setattr__(copy, "__class__", made)  # pydantic's own would take it for a field
    return copy


@functools.cache
def _class_of(base: type[BaseTool], errors: tuple[type[Exception], ...]) -> type[BaseTool]:
    class Replaying(base):  # type: ignore[misc, valid-type]  # the base is a value
        def run(self, tool_input: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  as LangChain has it
            token = _ASKED.set(tool_input)
            try:
                return super().run(tool_input, *args, **kwargs)
            finally:
                _ASKED.reset(token)

        async def arun(self, tool_input: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            token = _ASKED.set(tool_input)
            try:
                return await super().arun(tool_input, *args, **kwargs)
            finally:
                _ASKED.reset(token)

        def _run(
            self,
            *args: Any,  # noqa: ANN401
            config: RunnableConfig = _NO_CONFIG,
            run_manager: CallbackManagerForToolRun | None = None,
            **kwargs: Any,  # noqa: ANN401
        ) -> Any:  # noqa: ANN401
            if _CALLED.get() is not self:
                said = ask(self.name, _arguments(self), errors, address=_told(config))
                if not isinstance(said, Call):
                    return _given(self, said)
            extra = _taken(super()._run, {"config": config, "run_manager": run_manager})
            return super()._run(*args, **extra, **kwargs)

        async def _arun(
            self,
            *args: Any,  # noqa: ANN401
            config: RunnableConfig = _NO_CONFIG,
            run_manager: AsyncCallbackManagerForToolRun | None = None,
            **kwargs: Any,  # noqa: ANN401
        ) -> Any:  # noqa: ANN401
            said = await asyncio.to_thread(
                ask, self.name, _arguments(self), errors, address=_told(config)
            )
            if not isinstance(said, Call):
                return _given(self, said)
            extra = _taken(super()._arun, {"config": config, "run_manager": run_manager})
            token = _CALLED.set(self)
            try:
                return await super()._arun(*args, **extra, **kwargs)
            finally:
                _CALLED.reset(token)

    Replaying.__name__ = Replaying.__qualname__ = base.__name__
    return cast("type[BaseTool]", Replaying)


def _told(config: RunnableConfig) -> object:
    """The address in the run's metadata, where a LangGraph server puts what it was sent."""
    return (config.get("metadata") or {}).get("tracemend.replay")


def _arguments(tool: BaseTool) -> object:
    """What the model asked for, without what the graph adds (state, store, runtime)."""
    asked = _ASKED.get()
    names = tuple(tool.args)
    if isinstance(asked, Mapping):
        return {k: v for k, v in asked.items() if k in names} if names else dict(asked)
    return {names[0]: asked} if len(names) == 1 else asked


def _given(tool: BaseTool, text: str) -> object:
    return (text, None) if tool.response_format == "content_and_artifact" else text


def _taken(function: object, offered: Mapping[str, object]) -> dict[str, object]:
    """What of this the function takes; `**kwargs` of a tool are arguments of the model."""
    parameters = inspect.signature(cast("Any", function)).parameters
    return {name: value for name, value in offered.items() if name in parameters}
