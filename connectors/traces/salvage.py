"""JSON that is not quite JSON: bytes that are not UTF-8, NaN, lone surrogates, a torn end."""

import json
import re
from dataclasses import dataclass

import orjson

from contracts.json_types import Json

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_CLOSER = {"{": "}", "[": "]"}
_SPAN_KEYS = frozenset({'"spanId"', '"span_id"'})


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What could be parsed of one piece of text."""

    value: Json
    replaced: bool = False
    """Bytes that are not UTF-8 were replaced."""
    torn_at: int | None = None
    """Line (from 1, within the text) at which it stops being JSON; the value is what was before."""


def load(data: bytes) -> Document:
    """Parse, with what can be saved of text that is torn, wrongly encoded, or not quite JSON.

    Never raises; where nothing can be saved the value is None and `torn_at` is set.
    """
    try:
        return Document(value=orjson.loads(data))
    except ValueError:
        pass
    text = data.decode("utf-8", "replace")
    replaced = "\ufffd" in text and b"\xef\xbf\xbd" not in data
    try:
        return Document(value=orjson.loads(text), replaced=replaced)
    except ValueError:
        pass
    try:
        return Document(value=_scrubbed(json.loads(text), 0), replaced=replaced)
    except (ValueError, RecursionError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else 1
    prefix = closed_prefix(text)
    if prefix:
        try:
            return Document(value=orjson.loads(prefix), replaced=replaced, torn_at=line)
        except ValueError:
            pass
    return Document(value=None, replaced=replaced, torn_at=line)


def closed_prefix(text: str) -> str:
    """The text up to the last whole span, with every open bracket closed; empty without one."""
    stack: list[str] = []
    holds_id: list[bool] = []
    best, closers = 0, ""
    for match in _TOKEN.finditer(text):
        piece = match[0]
        if piece in _CLOSER:
            stack.append(_CLOSER[piece])
            holds_id.append(False)
        elif piece in ("}", "]"):
            if not stack or stack.pop() != piece:
                break
            if holds_id.pop():
                best, closers = match.end(), "".join(reversed(stack))
        elif piece in _SPAN_KEYS and stack and stack[-1] == "}":
            holds_id[-1] = True
    return text[:best] + closers if best else ""


def _scrubbed(value: Json, depth: int) -> Json:
    """The value without lone surrogates, infinities and integers that no JSON writer takes."""
    out = value
    if depth > 200:
        out = None
    elif isinstance(value, str):
        out = value.encode("utf-8", "replace").decode("utf-8")
    elif isinstance(value, dict):
        out = {str(_scrubbed(k, depth)): _scrubbed(v, depth + 1) for k, v in value.items()}
    elif isinstance(value, list):
        out = [_scrubbed(item, depth + 1) for item in value]
    elif isinstance(value, int | float) and not abs(value) < 1 << 63:
        out = None
    return out
