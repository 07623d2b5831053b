"""The part of LangSmith's filter language that readers use: and, or, comparisons, in, has."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime

from contracts.json_types import Json

Run = Mapping[str, Json]
Test = Callable[[Run], bool]

_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[A-Za-z_][\w.]*|-?\d+(?:\.\d+)?|[(),\[\]])')


class FilterError(Exception):
    """The text is no filter; the API answers 400."""


def compiled(text: str) -> Test:
    """What a filter text asks of a run (in the v2 shape)."""
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != re.sub(r'\s+(?=(?:[^"]*"[^"]*")*[^"]*$)', "", text):
        raise FilterError(f"cannot parse {text[:80]!r}")
    test, rest = _expression(tokens)
    if rest:
        raise FilterError(f"left over: {rest[:3]}")
    return test


def _expression(tokens: list[str]) -> tuple[Test, list[str]]:
    if len(tokens) < 3 or tokens[1] != "(":
        raise FilterError("an operator and its arguments are needed")
    operator, rest = tokens[0], tokens[2:]
    if operator in ("and", "or"):
        tests = []
        while True:
            test, rest = _expression(rest)
            tests.append(test)
            separator, rest = rest[0], rest[1:]
            if separator == ")":
                break
        combine = all if operator == "and" else any
        return (lambda run: combine(test(run) for test in tests)), rest
    field, comma, *rest = rest
    if comma != ",":
        raise FilterError("two arguments are needed")
    value, rest = _value(rest)
    if not rest or rest[0] != ")":
        raise FilterError("a bracket is missing")
    return _test(operator, field, value), rest[1:]


def _value(tokens: list[str]) -> tuple[Json, list[str]]:
    if tokens[0] != "[":
        return _literal(tokens[0]), tokens[1:]
    end = tokens.index("]")
    return [_literal(one) for one in tokens[1:end] if one not in (",",)], tokens[end + 1 :]


def _literal(token: str) -> Json:
    if token in ("true", "false", "null") or token[0] in '"-0123456789':
        value: Json = json.loads(token)
        return value
    raise FilterError(f"no literal: {token!r}")


def _test(operator: str, field: str, value: Json) -> Test:
    if field not in ("id", "trace_id", "name", "run_type", "status", "start_time", "end_time",
                     "error", "is_root", "tags"):  # fmt: skip
        raise FilterError(f"unknown field {field!r}")
    if operator not in _OPERATORS:
        raise FilterError(f"unknown operator {operator!r}")
    compare = _OPERATORS[operator]

    def test(run: Run) -> bool:
        return compare(_comparable(field, run.get(field)), _comparable(field, value))

    return test


def _comparable(field: str, value: Json) -> object:
    if field in ("run_type", "status") and isinstance(value, str):
        return value.lower()
    if field.endswith("_time") and isinstance(value, str):
        return datetime.fromisoformat(value).timestamp()
    return value


_OPERATORS: dict[str, Callable[..., bool]] = {
    "eq": lambda a, b: a == b,
    "neq": lambda a, b: a != b,
    "gt": lambda a, b: a is not None and a > b,
    "gte": lambda a, b: a is not None and a >= b,
    "lt": lambda a, b: a is not None and a < b,
    "lte": lambda a, b: a is not None and a <= b,
    "in": lambda a, b: a in b,
    "has": lambda a, b: b in (a or ()),
}
