"""What a trace has that a failure may go with: release, prompt, model, tools, steps, arguments."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from contracts.findings import Factor
from contracts.json_types import Json
from contracts.traces import Trace
from nodes.insights.detect.view import View
from nodes.insights.facts import shape_of, squeezed
from nodes.insights.signature import clean

MAX_OF_FACTOR = 16
"""Values of one factor in one trace; of more the first by name are kept."""
VALUE_CHARS = 80
_SHAPED = re.compile(r"[^\s]{1,40}\Z")
"""Argument values of which a shape says something: no sentences."""

Pair = tuple[Factor, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """The features of one trace, which stands for its unit."""

    pairs: tuple[Pair, ...]
    """Sorted, without time and load. Values are masked and cleaned trace text."""
    minute: int | None
    """Of its start, since 1970 (UTC); None: no times were recorded."""


def traits_of(view: View, start: datetime | None) -> Traits:
    """The features of a trace. Pure: equal traces give equal features."""
    found: dict[Factor, set[str]] = {}
    for factor, value in _pairs(view):
        if value:
            found.setdefault(factor, set()).add(value)
    pairs: list[Pair] = []
    for factor, values in found.items():
        pairs += [(factor, value) for value in sorted(values)[:MAX_OF_FACTOR]]
    return Traits(
        pairs=tuple(sorted(pairs)), minute=None if start is None else int(start.timestamp()) // 60
    )


def _pairs(view: View) -> Iterator[Pair]:
    trace = view.trace
    yield "release", _short(trace.release)
    yield "version", _short(trace.version)
    yield "environment", _short(trace.environment)
    for tag in trace.tags[:MAX_OF_FACTOR]:
        yield "tag", _short(tag)
    yield from _of_spans(view, trace)
    for call in view.calls.values():
        tool = _short(call.tool)
        yield "tool", tool
        if call.arguments is not None:
            yield from _of_arguments(tool, call.arguments)


def _of_spans(view: View, trace: Trace) -> Iterator[Pair]:
    """Models, prompts and steps; equal ones are looked at once."""
    seen: set[tuple[str | None, ...]] = set()
    for span in trace.spans:
        node = span.attributes.get("node")
        where = node if isinstance(node, str) else None
        named = span.name if span.kind in ("agent", "chain") and not span.virtual else None
        key = (span.model, span.prompt_name, span.prompt_version, where, named)
        if key in seen:
            continue
        seen.add(key)
        yield "model", _short(span.model)
        if span.prompt_name:
            version = f" {_version(span.prompt_version)}" if span.prompt_version else ""
            yield "prompt", _short(f"{span.prompt_name}{version}")
        yield "step", _short(where or named)


def _of_arguments(tool: str, arguments: Mapping[str, Json]) -> Iterator[Pair]:
    """Which arguments a call had, and of what shape short values were."""
    names = sorted(_short(name) for name in arguments)[:MAX_OF_FACTOR]
    yield "arguments", f"{tool}({', '.join(names)})"[: 2 * VALUE_CHARS]
    for name, value in list(arguments.items())[:MAX_OF_FACTOR]:
        if value is None or value in ("", [], {}):
            yield "arguments", f"{tool}.{_short(name)} empty"
            continue
        said = str(value) if isinstance(value, int | float) else value
        if isinstance(said, str) and _SHAPED.match(said):
            yield "arguments", f"{tool}.{_short(name)} like {squeezed(shape_of(_short(said)))}"


def _version(text: str) -> str:
    return f"v{text}" if text[:1].isdigit() else text


def _short(text: str | None) -> str:
    return clean(text, VALUE_CHARS) if text else ""
