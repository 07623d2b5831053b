"""The protocol's JSON: what a thread, a state and a run look like to `langgraph_sdk`."""

import json
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, is_dataclass
from typing import cast

from fastapi.responses import JSONResponse
from langchain_core.runnables import RunnableConfig
from langgraph.types import Interrupt, PregelTask, StateSnapshot
from pydantic import BaseModel

from contracts.json_types import Json
from graph.server.protocol.names import GRAPH, assistant_id
from memory.protocol import RunRow, ThreadRow

HIDDEN = "tracemend:"
"""Keys of a thread's metadata that begin so are ours and are shown to nobody."""

Plain = dict[str, Json]


def plain(value: object) -> Json:
    """What LangGraph streams, as JSON. Only JSON types go through unchanged."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        # Half a surrogate pair is no text: every client's parser would refuse the whole answer.
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(plain(str(key))): plain(inner) for key, inner in value.items()}
    return _other(value)


def _other(value: object) -> Json:
    if isinstance(value, Interrupt):
        return interrupt(value)
    if isinstance(value, BaseModel):
        return plain(value.model_dump(mode="json"))
    if isinstance(value, BaseException):
        return type(value).__name__  # its text may quote what it failed on
    if isinstance(value, Sequence | Set) and not isinstance(value, bytes | bytearray):
        return [plain(inner) for inner in value]
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    return type(value).__name__


def dumps(value: object) -> bytes:
    """JSON bytes; beyond ASCII everything is escaped, so no line break hides in a text."""
    return json.dumps(plain(value), separators=(",", ":"), allow_nan=False).encode()


class Answer(JSONResponse):
    """A JSON answer of this protocol."""

    def render(self, content: object) -> bytes:
        """The body."""
        return dumps(content)


def interrupt(one: Interrupt[object]) -> Plain:
    """An interrupt; `response_schema` says what an answer must look like."""
    shown: Plain = {"id": one.id, "value": plain(one.value)}
    if one.response_schema is not None:
        shown["response_schema"] = plain(one.response_schema)
    return shown


def values_of(snapshot: StateSnapshot) -> Plain:
    """State values with `__interrupt__`, as `runs.wait` and the last `values` event give them."""
    shown = cast("Plain", plain(snapshot.values))
    if snapshot.interrupts:
        shown["__interrupt__"] = [interrupt(one) for one in snapshot.interrupts]
    return shown


def state(snapshot: StateSnapshot) -> Plain:
    """A thread's state at one checkpoint."""
    here, parent = _checkpoint(snapshot.config), _checkpoint(snapshot.parent_config)
    return {
        "values": plain(snapshot.values), "next": list(snapshot.next),
        "tasks": [_task(task) for task in snapshot.tasks],
        "metadata": plain(snapshot.metadata or {}), "created_at": snapshot.created_at,
        "checkpoint": here, "parent_checkpoint": parent,
        "interrupts": [interrupt(one) for one in snapshot.interrupts],
        "checkpoint_id": None if here is None else here["checkpoint_id"],
        "parent_checkpoint_id": None if parent is None else parent["checkpoint_id"],
    }  # fmt: skip


def _checkpoint(config: RunnableConfig | None) -> Plain | None:
    if config is None:
        return None
    named = config.get("configurable", {})
    return {
        "thread_id": str(named.get("thread_id", "")), "checkpoint_ns": "",
        "checkpoint_id": named.get("checkpoint_id"), "checkpoint_map": None,
    }  # fmt: skip


def _task(task: PregelTask) -> Plain:
    return {
        "id": task.id, "name": task.name, "path": plain(task.path),
        "error": None if task.error is None else type(task.error).__name__,
        "interrupts": [interrupt(one) for one in task.interrupts], "checkpoint": None,
        "state": None, "result": plain(task.result),
    }  # fmt: skip


def thread(row: ThreadRow, snapshot: StateSnapshot | None) -> Plain:
    """A thread; `snapshot` None: it is asked for without its values."""
    shown: Plain = {
        "thread_id": row.thread, "created_at": row.created_at, "updated_at": row.updated_at,
        "state_updated_at": row.updated_at, "metadata": said_of(row), "status": row.status,
        "config": {}, "error": row.problem if row.status == "error" else None,
    }  # fmt: skip
    if snapshot is not None:
        shown["state_updated_at"] = snapshot.created_at or row.updated_at
        shown["values"] = plain(snapshot.values) or None
        shown["interrupts"] = {
            task.id: [interrupt(one) for one in task.interrupts]
            for task in snapshot.tasks if task.interrupts
        }  # fmt: skip
    return shown


def said_of(row: ThreadRow) -> Plain:
    """A thread's metadata as its clients see it."""
    ours: Plain = {}
    if row.project:
        which = str(assistant_id(row.project))
        ours = {"project": row.project, "graph_id": GRAPH, "assistant_id": which}
    kept = {k: plain(v) for k, v in row.metadata.items() if not k.startswith(HIDDEN)}
    return {**kept, **ours}


def run(row: RunRow, project: str) -> Plain:
    """A run. One that was cancelled is `interrupted` to the SDK, with its reason."""
    said = dict(row.body)
    metadata = cast("Plain", plain(said.pop("metadata", None) or {}))
    cancelled = row.status == "cancelled"
    return {
        "run_id": row.run, "thread_id": row.thread, "assistant_id": str(assistant_id(project)),
        "created_at": row.created_at, "updated_at": row.updated_at,
        "status": "interrupted" if cancelled else row.status, "metadata": metadata,
        "kwargs": plain(said), "multitask_strategy": "reject",
        "cancel_reason": row.problem if cancelled else None,
        "error": row.problem if row.status == "error" else None,
    }  # fmt: skip


def picked(shown: Plain, select: Sequence[str] | None) -> Plain:
    """Only the keys that were asked for; `values.key` picks inside the values."""
    if not select:
        return shown
    top = {key: shown[key] for key in select if key in shown}
    values = shown.get("values")
    inner = [key.removeprefix("values.") for key in select if key.startswith("values.")]
    if inner and "values" not in top and isinstance(values, dict):
        top["values"] = {key: values[key] for key in inner if key in values}
    return top
