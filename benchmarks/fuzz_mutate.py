"""Mutations of documents: of their bytes, and of the JSON that they hold. Pure, by a given rng."""

import ast
import json
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Final, cast

import orjson

from contracts.json_types import Json

Holder = dict[str, Json] | list[Json]

MAX_STEPS: Final = 5
MAX_NODES: Final = 4_000
_DEEP: Final = "%DEEP%"
"""Stands for a nesting that is deeper than a JSON writer goes; written by hand afterwards."""
DEPTHS: Final = (40, 250, 900, 3_000, 60_000)

NUMBERS: Final[tuple[Json, ...]] = (
    0, -1, 1, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30, 10**400, 0.5, -0.0, 1e308,
    1e-320, float("nan"), float("inf"), float("-inf"), True, False,
)  # fmt: skip
IDS: Final[tuple[Json, ...]] = (
    None, "", " ", "0", "0" * 16, "0" * 32, "x" * 5_000, {}, [], 5, -1, True, {"id": "a"}, ["a"],
    "a\x00b", "\ud800", "\u202eid", "AAAAAAAAAAA=", "AAAAAAAAAAAAAAAAAAAAAA==", "virtual-root",
    "../../etc", "ffffffffffffffff", "12345678-1234-1234-1234-123456789abc", "a" * 200, '"', "\\",
)  # fmt: skip
TIMES: Final[tuple[Json, ...]] = (
    None, "", "now", 0, -1, 1, 1.5, "1.5e9", "-1", 1_795_510_800, 1_795_510_800_000,
    "1795510800000000000", 1_795_510_800_000_000_000, 253_402_300_799_999_999_999, 2**63, 10**40,
    float("nan"), float("inf"), "NaN", "99999-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59",
    "0000-00-00T00:00:00Z", "1969-12-31T23:59:59Z", "2026-11-24 09:00:00.123456",
    "2026-11-24T09:00:00", "2026-11-24T09:00:00.123456789012Z", "2026-W48-2", "20261124T090000",
    "2026-02-30T00:00:00Z", "2026-11-24T24:00:00Z", "2026-11-24T09:00:60Z", [1_795_510_800, 5],
    [2**62, 2**62], ["a"], {"seconds": 1}, [-1, -1], "2026-11-24T09:00:00+99:99", "٢٠٢٦-11-24",
)  # fmt: skip
TEXTS: Final[tuple[Json, ...]] = (
    "", " ", "null", "{", "[", '"', "{}", "[]", '{"a": 1}', '[{"role": "user"}]', "[[[[", "NaN",
    "-Infinity", "\x00", "\x1b[31m", "\ud800", "\udfff\ud800", "\ufeff", "\u2028", "error",
    "Error: no", "Traceback (most recent call last)", "ERROR", "GENERATION", "TOOL", "LLM",
    "assistant", "tool", "{'a': 1}", "<tool_call>{</tool_call>", "```json\n{\n```", "٣", "²", "1_0",
    '{"messages": [{"role": 5}]}', '{"input": {"input": {"input": "x"}}}', '"\\ud800"',
    "data:image/png;base64,AAAA", "9" * 5_000, "\\\"" * 400, "(" * 300, " " * 3_000 + "x",
    '{"id": ["langchain", "schema", "messages", "HumanMessage"], "kwargs": {"content": 5}}',
    "2026-11-24T09:00:00Z", "attachment://x", "GraphInterrupt", '{"error": {}}', "a\nb: c\n" * 200,
)  # fmt: skip
SHAPES: Final[tuple[Json, ...]] = (
    None, {}, [], [[]], [{}], [None], {"": None}, {"a": {"b": {"c": []}}}, [1, "a", None, {}], "{}",
    {"type": "text", "text": {}}, {"role": None, "content": None}, [[["a", 1], ["b", 2]]],
    {"key": "k", "value": {"intValue": {}}}, [{"key": {}, "value": []}], _DEEP,
    {"content": [{"type": "text", "text": 5}, "x", None]}, {"name": {}, "arguments": []},
)  # fmt: skip
_ALL: Final = (NUMBERS, IDS, TIMES, TEXTS, SHAPES)


def words_of(folder: Path) -> tuple[str, ...]:
    """The words that the readers in a folder look for: short string constants of their source."""
    found: set[str] = set()
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                word = node.value
                if 0 < len(word) <= 48 and " " not in word and word.isprintable():
                    found.add(word)
    return tuple(sorted(found))


class Mutator:
    """Makes inputs of the documents of one format; the same rng makes the same input."""

    def __init__(self, seeds: Sequence[bytes], words: Sequence[str]) -> None:
        self._seeds = tuple(seeds)
        self._words = tuple(words)

    def of_bytes(self, rng: Random) -> bytes:
        """Changed bytes of a document; it need be no JSON any more."""
        data = bytearray(rng.choice(self._seeds))
        for _ in range(rng.randint(1, MAX_STEPS)):
            self._change_bytes(rng, data)
        return bytes(data)

    def of_structure(self, rng: Random) -> bytes:
        """A document with another shape or other values."""
        seed = rng.choice(self._seeds)
        try:
            box: list[Json] = [cast("Json", orjson.loads(seed))]
        except ValueError:  # lines
            return self.of_bytes(rng)
        for _ in range(rng.randint(1, MAX_STEPS)):
            self._change_node(rng, box)
        return written(box[0], rng)

    def _change_bytes(self, rng: Random, data: bytearray) -> None:
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((1, 2, 8, 64, 1024)))
        match rng.randrange(9):
            case 0:
                data[at:end] = bytes(byte ^ 1 << rng.randrange(8) for byte in data[at : at + 1])
            case 1:
                del data[at:]
            case 2:
                del data[at:end]
            case 3:
                data[at:at] = data[at:end] * rng.choice((1, 2, 50))
            case 4:
                other = rng.choice(self._seeds)
                data[at:] = other[rng.randrange(len(other)) :]
            case 5:
                data[at:end] = rng.choice(_BYTES)
            case 6:
                _other_number(rng, data, at)
            case 7:
                data[at:at] = json.dumps(rng.choice(rng.choice(_ALL))).encode()
            case _:
                opening, closing = rng.choice(_NESTS)
                depth = rng.choice(DEPTHS)
                data[at:at] = opening * depth + closing * rng.choice((0, depth))

    def _change_node(self, rng: Random, box: list[Json]) -> None:
        nodes = _nodes(box)
        holder, key = rng.choice(nodes)
        match rng.randrange(7):
            case 0:
                _delete(holder, key)
            case 1:
                self._copy_or_rename(rng, holder, key)
            case 2:
                self._other_shape(rng, holder, key)
            case 3:
                _swap(rng, nodes)
            case 4:
                _other_value(rng, [n for n in nodes if _is_id(n[1])], IDS)
            case 5:
                _other_value(rng, [n for n in nodes if _is_time(n[1])], TIMES)
            case _:
                any_word = rng.random() < 0.3
                value = rng.choice(self._words) if any_word else _strange(rng, rng.choice(_ALL))
                _set(holder, key, value)

    def _copy_or_rename(self, rng: Random, holder: Holder, key: str | int) -> None:
        """The same value in a second place, or under another key."""
        value = _get(holder, key)
        if isinstance(holder, dict):
            if rng.random() < 0.5:
                del holder[str(key)]
            holder[rng.choice(self._words)] = _copied(value)
        else:
            holder.insert(int(key), _copied(value))

    def _other_shape(self, rng: Random, holder: Holder, key: str | int) -> None:
        """The value inside another, as text, shuffled, grown, or another document in its place."""
        value = _get(holder, key)
        match rng.randrange(4):
            case 0:
                _set(holder, key, rng.choice(([value], {"value": value}, [value, {}])))
            case 1:
                _set(holder, key, json.dumps(value) if _plain(value) else str(value))
            case 2:
                if isinstance(value, dict):
                    value[rng.choice(self._words)] = _strange(rng, rng.choice(_ALL))
                elif isinstance(value, list):
                    rng.shuffle(value)
            case _:
                _set(holder, key, cast("Json", orjson.loads(rng.choice(self._seeds))))


_BYTES: Final = (
    b"\xff", b"\xed\xa0\x80", b"\xc0\xaf", b"\x00", b"\x1f\x8b", b"\\ud800", b"\\u0000", b'"',
    b"\\",
    b"\n", b"{", b"}", b"[", b"]", b",", b":", b"NaN", b"-Infinity", b"null", b"1e999", b"\xf0\x9f",
    b'\\"' * 300, b"\xef\xbb\xbf", b"'", b"PK\x03\x04", b"PAR1", b"\r\n\r\n", b"/*",
)  # fmt: skip


_NESTS: Final = ((b"[", b"]"), (b'{"a":', b"}"))


def written(value: Json, rng: Random) -> bytes:
    """The value as JSON text, not always of the strict kind, with deep nestings put in."""
    indent = 1 if rng.random() < 0.1 else None
    text = json.dumps(value, ensure_ascii=rng.random() < 0.7, indent=indent)
    data = text.encode("utf-8", "surrogatepass")
    while (mark := f'"{_DEEP}"'.encode()) in data:
        depth = rng.choice(DEPTHS)
        opening, closing = rng.choice(_NESTS)
        data = data.replace(mark, opening * depth + b"1" + closing * depth, 1)
    return data


def _nodes(box: list[Json]) -> list[tuple[Holder, str | int]]:
    """Every place in the document that a value stands at."""
    found: list[tuple[Holder, str | int]] = []
    stack: list[Holder] = [box]
    while stack and len(found) < MAX_NODES:
        holder = stack.pop()
        keys: list[str | int] = list(holder if isinstance(holder, dict) else range(len(holder)))
        for key in keys:
            found.append((holder, key))
            value = _get(holder, key)
            if isinstance(value, dict | list):
                stack.append(value)
    return found


def _get(holder: Holder, key: str | int) -> Json:
    return holder[key]  # type: ignore[index]  # the key is of this holder


def _set(holder: Holder, key: str | int, value: Json) -> None:
    holder[key] = value  # type: ignore[index]  # the key is of this holder


def _delete(holder: Holder, key: str | int) -> None:
    if isinstance(holder, list) and len(holder) == 1:
        holder[0] = None
    else:
        del holder[key]  # type: ignore[arg-type]  # the key is of this holder


def _swap(rng: Random, nodes: list[tuple[Holder, str | int]]) -> None:
    """The values of two places, exchanged; of leaves only, so that no document holds itself."""
    (one, its), (two, theirs) = rng.choice(nodes), rng.choice(nodes)
    here, there = _get(one, its), _get(two, theirs)
    if not isinstance(here, dict | list) and not isinstance(there, dict | list):
        _set(one, its, there)
        _set(two, theirs, here)


def _other_value(
    rng: Random, nodes: list[tuple[Holder, str | int]], values: Sequence[Json]
) -> None:
    """At one of the places, the value of another (cycles, ids twice) or a strange one."""
    if nodes:
        other = _copied(_get(*rng.choice(nodes)))
        value = rng.choice((_strange(rng, values), _strange(rng, values), other, other))
        made_up = isinstance(other, str) and rng.random() < 0.05
        _set(*rng.choice(nodes), f"virtual-{other}" if made_up else value)


def _strange(rng: Random, values: Sequence[Json]) -> Json:
    """One of the values, as an object of its own: it may be changed later."""
    return deepcopy(rng.choice(values))


def _copied(value: Json) -> Json:
    return cast("Json", orjson.loads(orjson.dumps(value))) if _plain(value) else None


def _plain(value: Json) -> bool:
    """Whether a strict writer takes it."""
    try:
        orjson.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


def _is_id(key: str | int) -> bool:
    return isinstance(key, str) and key.lower().endswith("id")


def _is_time(key: str | int) -> bool:
    low = key.lower() if isinstance(key, str) else ""
    return any(word in low for word in ("time", "start", "end", "date", "_at", "duration"))


def _other_number(rng: Random, data: bytearray, at: int) -> None:
    """Another number in place of the first one behind a place."""
    begin = next((i for i in range(at, min(len(data), at + 500)) if 48 <= data[i] < 58), None)
    if begin is None:
        return
    end = begin
    while end < len(data) and 48 <= data[end] < 58:
        end += 1
    data[begin:end] = json.dumps(rng.choice(NUMBERS)).encode()
