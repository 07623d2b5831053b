"""Which assertions a case file may hold, and what each takes."""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import regex
from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for

from contracts.json_types import Json, JsonObject

LONGEST_PATTERN = 1_000
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")

ABSENCE: Final = frozenset(
    {"no_symptom", "not_contains", "tool_not_called", "max_seconds", "max_usd"}
)
"""Kinds that an agent that does nothing satisfies."""


def assertion_problem(assertion: Json) -> str | None:
    """Why this is no assertion, as the end of a sentence that names the place; None if it is."""
    if not isinstance(assertion, Mapping) or len(assertion) != 1:
        return "needs one `kind: argument`"
    kind, argument = next(iter(assertion.items()))
    check = _ARGUMENTS.get(kind)
    if check is None:
        return unknown_key(kind, tuple(_ARGUMENTS))
    problem = check(argument)
    return None if problem is None else f"`{kind}`: {problem}"


def unknown_key(key: str, known: Sequence[str]) -> str:
    """A sentence about a key that means nothing here, with the nearest one that does."""
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.0)
    return f"unknown key {key!r}, nearest known key is {near[0]!r}"


def is_weak(assertions: Sequence[JsonObject]) -> bool:
    """Whether an agent that does nothing could satisfy all of them."""
    return all(kind in ABSENCE for assertion in assertions for kind in assertion)


def _text(argument: Json) -> str | None:
    return None if isinstance(argument, str) and argument else f"needs a text, got {argument!r}"


def _anything(argument: Json) -> str | None:
    del argument
    return None


def _yes(argument: Json) -> str | None:
    return None if argument in (True, None) else f"takes `true` or nothing, got {argument!r}"


def _limit(argument: Json) -> str | None:
    good = is_number(argument) and float(argument) >= 0.0  # type: ignore[arg-type]  # a number
    return None if good else f"needs a number from 0 on, got {argument!r}"


def is_number(value: Json) -> bool:
    """An int or float; JSON's true and false are neither."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _pattern(argument: Json) -> str | None:
    if not isinstance(argument, str) or not argument:
        return f"needs a pattern, got {argument!r}"
    if len(argument) > LONGEST_PATTERN:
        return f"a pattern has at most {LONGEST_PATTERN} characters, this one {len(argument)}"
    try:
        regex.compile(argument)
    except regex.error as error:
        return f"not a pattern: {error}"
    return None


def _schema(argument: Json) -> str | None:
    if not isinstance(argument, Mapping):
        return "needs a JSON Schema object"
    try:
        schema = dict(argument)
        validator_for(schema).check_schema(schema)
    except SchemaError as error:
        return f"not a JSON Schema: {error.message}"
    return None


def _number(argument: Json) -> str | None:
    if is_number(argument):
        return None
    if not isinstance(argument, Mapping):
        return f"needs a number or {{value, tolerance, path}}, got {argument!r}"
    return (
        _keys(argument, ("value", "tolerance", "path"))
        or (None if is_number(argument.get("value")) else "needs `value`, a number")
        or (_limit(argument["tolerance"]) if "tolerance" in argument else None)
        or (_text(argument["path"]) if "path" in argument else None)
    )


def _call(argument: Json) -> str | None:
    if isinstance(argument, str):
        return _text(argument)
    if not isinstance(argument, Mapping):
        return f"needs {{name, args}}, got {argument!r}"
    args = argument.get("args", {})
    return (
        _keys(argument, ("name", "args"))
        or (_text(argument.get("name")) and "needs `name`, a text")
        or (None if isinstance(args, Mapping) else "`args` is an object")
    )


def _function(argument: Json) -> str | None:
    """A dotted function of the operator's, alone or with arguments by name."""
    if isinstance(argument, str):
        good = _DOTTED.fullmatch(argument)
        return None if good else f"needs a dotted function such as checks.queued, got {argument!r}"
    if not isinstance(argument, Mapping):
        return f"needs a dotted function or {{function, args}}, got {argument!r}"
    name = argument.get("function")
    return (
        _keys(argument, ("function", "args"))
        or (_function(name) if isinstance(name, str) else "needs `function`, a dotted name")
        or (None if isinstance(argument.get("args", {}), Mapping) else "`args` is an object")
    )


def _judge(argument: Json) -> str | None:
    """A question that is answered with yes or no, alone or with its pinned model."""
    if isinstance(argument, str):
        return _text(argument)
    if not isinstance(argument, Mapping):
        return f"needs a question or {{question, model}}, got {argument!r}"
    return (
        _keys(argument, ("question", "model"))
        or (_text(argument.get("question")) and "needs `question`, a text")
        or (_text(argument["model"]) if "model" in argument else None)
    )


def _order(argument: Json) -> str | None:
    names = isinstance(argument, Sequence) and not isinstance(argument, str) and list(argument)
    if not names or len(names) < 2 or any(_text(name) for name in names):
        return f"needs a list of at least two tool names, got {argument!r}"
    return None


def _keys(argument: Mapping[str, Json], known: Sequence[str]) -> str | None:
    return next((unknown_key(key, known) for key in argument if key not in known), None)


_ARGUMENTS: Final[Mapping[str, Callable[[Json], str | None]]] = {
    "no_symptom": _text,
    "not_empty": _yes,
    "equals": _anything,
    "contains": _text,
    "not_contains": _text,
    "regex": _pattern,
    "json_schema": _schema,
    "number": _number,
    "tool_called": _call,
    "tool_not_called": _call,
    "tool_order": _order,
    "max_seconds": _limit,
    "max_usd": _limit,
    "python": _function,
    "judge": _judge,
}
