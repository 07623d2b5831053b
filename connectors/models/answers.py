"""Find the one answer of a known shape in what a model said. Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar, cast

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from connectors.review.clean import one_line

MAX_CHARS = 100_000
"""Of an answer that are read; far over what any answer of ours needs."""
_MAX_STARTS = 64
"""Braces at which an object is tried, so that a text of nothing else stays cheap."""
_DECODER = json.JSONDecoder(strict=False)  # weak models leave line ends bare inside strings

M = TypeVar("M", bound=BaseModel)


def _share(value: float) -> float:
    share = value / 100 if 1 < value <= 100 else value
    if not 0 <= share <= 1:
        raise ValueError("must be between 0 and 1")
    return share


Share = Annotated[float, AfterValidator(_share), Field(description="0 to 1")]
"""A share from 0 to 1; some models answer in per cent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed(Generic[M]):
    """A value, or what is wrong with the answer."""

    value: M | None
    problem: str | None


def read_call(arguments: Mapping[str, object], schema: type[M]) -> Parsed[M]:
    """The arguments of a tool call as a value."""
    try:
        return Parsed(value=schema.model_validate(arguments), problem=None)
    except ValidationError as error:
        return Parsed(value=None, problem=_sentence(error))


def read_text(text: str, schema: type[M]) -> Parsed[M]:
    """The one JSON object in a text that fits, whatever stands around it.

    Fences are not looked at: an object is found by its brace, so one inside a code fence, one with
    a fence in a string and one after a line of prose are alike. Two different ones that both fit
    are no answer: one of them may be a quote.
    """
    fits: list[M] = []
    misfit: Parsed[M] | None = None
    for value in _objects(text[:MAX_CHARS]):
        read = read_call(value, schema)
        if read.value is None:
            misfit = misfit or read
        elif read.value not in fits:
            fits.append(read.value)
    if len(fits) > 1:
        return Parsed(value=None, problem=f"the answer holds {len(fits)} objects, not one")
    if fits:
        return Parsed(value=fits[0], problem=None)
    return misfit or Parsed(value=None, problem="the answer holds no JSON object")


def _objects(text: str) -> Iterator[dict[str, object]]:
    """JSON objects of a text that do not lie in one another."""
    at, tried = text.find("{"), 0
    while at >= 0 and tried < _MAX_STARTS:
        tried += 1
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            at = text.find("{", at + 1)
            continue
        yield cast("dict[str, object]", value)  # what starts with a brace is an object
        at = text.find("{", end)


def _sentence(error: ValidationError) -> str:
    """Where the first problem is and what it is, without the value."""
    first = error.errors(include_url=False, include_input=False)[0]
    path = ".".join(str(part) for part in first["loc"])
    return one_line(f"{path}: {first['msg']}" if path else first["msg"], 200)
