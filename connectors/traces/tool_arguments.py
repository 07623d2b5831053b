"""What a tool was called with, in every form that recorders write it. Pure.

They write an object, its JSON, a whole tool-call message, or Python's way to print it; some keep no
more than the value of a lone argument, which then the model's own request names.
"""

import ast
import json
from collections.abc import Mapping, Sequence
from typing import Final, cast

from contracts.json_types import Json, canonical_json
from contracts.traces import Span, Trace

Asked = Mapping[str, Sequence[Mapping[str, Json]]]
"""What models asked for, by the name of the tool."""

MAX_PARSED_CHARS: Final = 200_000
_WRAPPERS: Final = frozenset({"input", "args", "arguments", "kwargs", "name", "id", "type"})
_INNER: Final = ("args", "arguments", "input", "kwargs")


def asked_by_models(trace: Trace) -> Asked:
    """Every request for a tool with readable arguments, in the order of the trace."""
    asked: dict[str, list[Mapping[str, Json]]] = {}
    for span in trace.spans:
        for message in span.messages_out:
            for _, name, raw in message.tool_calls:
                value = _parsed(raw)
                if isinstance(value, Mapping):
                    asked.setdefault(name, []).append(value)
    return asked


def recorded_arguments(span: Span, asked: Asked) -> Json | None:
    """The arguments as an object, or the bare value where its name is not known.

    None: they were not recorded, or not whole.
    """
    payload = span.input
    if payload is None or payload.truncated or len(payload.text) > MAX_PARSED_CHARS:
        return None
    value = _unwrapped(payload.value if payload.value is not None else _parsed(payload.text))
    if isinstance(value, Mapping):
        return value
    for arguments in asked.get(span.tool_name or span.name, ()):
        if len(arguments) == 1 and str(next(iter(arguments.values()))) == payload.text:
            return arguments
    return value


def _unwrapped(value: Json) -> Json:
    """The arguments inside a whole tool-call message."""
    value = _parsed(value)
    if isinstance(value, Mapping) and set(value) <= _WRAPPERS:
        for key in _INNER:
            inner = _parsed(value[key]) if key in value else None
            if isinstance(inner, Mapping):
                return inner
    return value


def _parsed(value: Json) -> Json:
    """JSON, or Python's way to print a structure; anything else stays as it is."""
    if not isinstance(value, str) or len(value) > MAX_PARSED_CHARS:
        return value
    if value.lstrip()[:1] not in ("{", "["):
        return value
    for read in (json.loads, ast.literal_eval):
        try:
            found = read(value.strip())
            canonical_json(found)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
        return cast("Json", found)
    return value
