"""Bodies of requests, as `langgraph_sdk` sends them.

Unknown keys are left alone: nothing of a body but the request, the answer and what is named here
reaches the graph.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from contracts.json_types import Json
from memory.protocol import ThreadStatus

MAX_DEPTH = 60
"""Far more than any real body has; what is deeper is refused before anything walks it."""

StreamName = Literal[
    "values", "updates", "custom", "messages", "messages-tuple", "debug", "tasks", "checkpoints",
    "events", "tools", "lifecycle",
]  # fmt: skip
Meta = dict[str, Any]


def storable(value: object, depth: int = 0) -> None:
    """Whether both databases can keep it.

    Raises:
        ValueError: too deep, a number that is none, or characters that are no text.
    """
    if depth > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("holds a number that JSON does not have")
    if isinstance(value, str) and (
        "\0" in value or (not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value))
    ):
        raise ValueError("holds characters that are no text")
    if isinstance(value, Mapping):
        for key, inner in value.items():
            storable(key, depth + 1)
            storable(inner, depth + 1)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for inner in value:
            storable(inner, depth + 1)


class Body(BaseModel):
    """Any body."""

    model_config = ConfigDict(extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _is_storable(cls, value: Any) -> Any:  # noqa: ANN401  # pydantic hands over whatever came
        storable(value)
        return value


class ThreadCreate(Body):
    """`threads.create`."""

    thread_id: str | None = None
    metadata: Meta | None = None
    if_exists: Literal["raise", "do_nothing"] = "raise"
    supersteps: Json = None
    ttl: Json = None


class ThreadPatch(Body):
    """`threads.update`: merged into what was said before."""

    metadata: Meta | None = None
    ttl: Json = None


class ThreadCount(Body):
    """`threads.count`."""

    metadata: Meta | None = None
    values: Json = None
    status: ThreadStatus | None = None


class ThreadSearch(ThreadCount):
    """`threads.search`."""

    ids: Annotated[list[str], Field(max_length=1000)] | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 10
    offset: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    sort_by: Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"] = (
        "updated_at"
    )
    sort_order: Literal["asc", "desc"] = "desc"
    select: list[str] | None = None
    extract: Json = None


class AssistantCount(Body):
    """`assistants.count`."""

    metadata: Meta | None = None
    graph_id: str | None = None
    name: str | None = None


class AssistantSearch(AssistantCount):
    """`assistants.search`."""

    limit: Annotated[int, Field(ge=1, le=1000)] = 10
    offset: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    sort_by: Literal["assistant_id", "graph_id", "name", "created_at", "updated_at"] = "name"
    sort_order: Literal["asc", "desc"] = "asc"
    select: list[str] | None = None


class StateAt(Body):
    """`threads.get_state(checkpoint=…)`."""

    checkpoint: Meta
    select: list[str] | None = None


class History(Body):
    """`threads.get_history`."""

    limit: Annotated[int, Field(ge=1, le=1000)] = 10
    before: str | Meta | None = None
    metadata: Meta | None = None
    checkpoint: Meta | None = None
    select: list[str] | None = None


class Command(Body):
    """What a paused thread is told; `goto` and `update` could go around a person."""

    resume: Json = None
    goto: Json = None
    update: Json = None


class RunCreate(Body):
    """`runs.create`, `runs.wait` and `runs.stream`."""

    assistant_id: Annotated[str, Field(max_length=200)]
    input: Json = None
    command: Command | None = None
    context: Meta | None = None
    metadata: Meta | None = None
    config: Meta | None = None
    stream_mode: StreamName | Annotated[list[StreamName], Field(max_length=20)] = "values"
    if_not_exists: Literal["create", "reject"] = "reject"
    after_seconds: Annotated[float, Field(ge=0, le=30 * 86400)] | None = None
    on_completion: Literal["delete", "keep"] = "keep"
    interrupt_before: Json = None
    interrupt_after: Json = None
    checkpoint: Json = None
    checkpoint_id: Json = None
    webhook: Json = None
    feedback_keys: Json = None
    langsmith_tracer: Json = None

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        if self.input is not None and self.command is not None:
            raise ValueError("send `input` or `command`, not both")
        return self

    @property
    def modes(self) -> tuple[StreamName, ...]:
        """The stream modes asked for, each once."""
        asked = [self.stream_mode] if isinstance(self.stream_mode, str) else self.stream_mode
        return tuple(dict.fromkeys(asked or ["values"]))
