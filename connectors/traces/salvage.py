"""JSON that is not quite JSON: bytes that are not UTF-8, NaN, lone surrogates, a torn end."""

import json
import re
from dataclasses import dataclass
from typing import cast

import orjson

from contracts.json_types import Json

# A string that never ends is one piece up to the end: no quotation mark inside it is tried again.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[{}\[\]]', re.DOTALL)
_BLANK = re.compile(r"[\s,]*")
_CLOSER = {"{": "}", "[": "]"}
_ROW_KEY = '"id"'  # of rows that name their own id so; only the outermost ones are rows
_DEEPEST = 5
_DEEPEST_READ = 1000  # brackets in brackets; the parser takes no more of them either
_CUTS = 8  # places to cut a head at that are tried, from its end
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
    several = _one_after_another(text)
    if several is not None:
        return Document(value=several, replaced=replaced)
    prefix = closed_prefix(text)
    if prefix:
        try:
            return Document(value=orjson.loads(prefix), replaced=replaced, torn_at=line)
        except ValueError:
            pass
    return Document(value=None, replaced=replaced, torn_at=line)


def _one_after_another(text: str) -> list[Json] | None:
    """Documents that were printed one after another, such as spans on a console; None: not so."""
    decoder = json.JSONDecoder()
    found: list[Json] = []
    at = _BLANK.match(text, 0).end()  # type: ignore[union-attr]  # it matches everywhere
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return None
        found.append(_scrubbed(value, 0))
        at = _BLANK.match(text, at).end()  # type: ignore[union-attr]
    return found


def closed_prefix(text: str) -> str:
    """The text up to the last whole span, with every open bracket closed; empty without one."""
    still_open = ""
    holds_id: list[bool] = []
    best, closers, depth = 0, "", _DEEPEST
    for match in _TOKEN.finditer(text):
        piece = match[0]
        if piece in _CLOSER:
            if len(still_open) == _DEEPEST_READ:
                break
            still_open = _CLOSER[piece] + still_open
            holds_id.append(False)
        elif piece in ("}", "]"):
            if still_open[:1] != piece:
                break
            still_open = still_open[1:]
            if holds_id.pop():
                best, closers = match.end(), still_open
        elif still_open[:1] == "}":
            if piece in _SPAN_KEYS:
                holds_id[-1] = True
            elif piece == _ROW_KEY and still_open[1:2] == "]" and len(still_open) <= depth:
                holds_id[-1] = True
                depth = len(still_open)
    return text[:best] + closers if best else ""


def head_value(head: bytes) -> Json:
    """The beginning of a document as JSON: up to the last whole value, open brackets closed.

    None where nothing of it is whole.
    """
    text = head.decode("utf-8", "replace")
    closers = ""
    cuts: list[tuple[int, str]] = []
    for match in _TOKEN.finditer(text):
        piece = match[0]
        if piece in _CLOSER:
            if len(closers) == _DEEPEST_READ:
                break
            closers = _CLOSER[piece] + closers
            cuts.append((match.end(), closers))
        elif piece in ("}", "]"):
            if closers[:1] != piece:
                return None
            closers = closers[1:]
            cuts.append((match.end(), closers))
            if not closers:  # one whole document; others may follow it
                break
        if len(cuts) > _CUTS:
            del cuts[:-_CUTS]
    for end, closers in reversed(cuts):
        try:
            return cast("Json", orjson.loads(text[:end] + closers))
        except ValueError:
            continue
    return None


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
