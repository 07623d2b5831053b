"""The same call again and again with the same answer: a loop, no polling.

Meaning: at least three equal calls of one tool with equal answers, and no news in between.
Evidence: the last of them, its arguments, and how the run ended. Known limits: the same wish in
other words is `similar_calls`; without a recorded answer nothing is said.
"""

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass

from contracts.json_types import Json
from contracts.traces import SpanId
from nodes.insights.detect import shell
from nodes.insights.detect.system_text import about_repeating, asked_for
from nodes.insights.detect.view import ToolCall, View

KIND = "repeated_call"
LEAST = 3
MIN_WORDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """Equal calls without any news in between; the last is where it is reported."""

    calls: tuple[ToolCall, ...]


_Key = tuple[str, str | frozenset[str], str]
_WORD = re.compile(r"\w+")


def loops(view: View, failed: Set[SpanId]) -> Iterator[Loop]:
    """Runs of at least three equal calls with equal answers.

    Arguments are equal where their words are, in whatever order, case and punctuation: asking for
    the same in the same words is no other call. A call that was not made before, or that answers
    otherwise than before, is news: it starts the count afresh, so that a poller whose answer
    changes, and the waits in between, are work. Calls that failed are retries of a failure, which
    has its own finding.

    Args:
        view: the trace.
        failed: spans with a failure of their own.
    """
    seen: set[_Key] = set()
    runs: dict[_Key, list[ToolCall]] = {}
    found: dict[_Key, list[ToolCall]] = {}
    for call in view.calls.values():
        if call.span.id in failed:
            continue
        key = (call.tool, _wording(call), call.answer_key)
        if key not in seen:
            seen.add(key)
            runs = {key: [call]}
            continue
        run = runs.setdefault(key, [])
        run.append(call)
        if len(run) >= LEAST:
            found[key] = run
    for run in found.values():
        if run[0].span.output is not None:  # without a recorded answer nobody knows
            yield Loop(calls=tuple(run))


def loop_facts(view: View, loop: Loop) -> dict[str, Json]:
    """How many calls, and where the instructions forbid it already."""
    first = loop.calls[0].span.started_at
    asking = [s for s in view.trace.spans if s.kind == "llm" and s.started_at <= first]
    asked = asked_for(asking[-1], about_repeating) if asking else None
    facts: dict[str, Json] = {"calls": len(loop.calls)}
    return facts | ({"rule": asked.text, "rule_line": asked.line} if asked is not None else {})


def _wording(call: ToolCall) -> str | frozenset[str]:
    """The words of the arguments; their exact key where they have hardly any."""
    values = [v for v in (call.arguments or {}).values() if isinstance(v, str)]
    plain = len(values) == len(call.arguments or {})  # else: compared as they are
    if not plain or shell.command_of(call.arguments) is not None:
        return call.arguments_key  # in a command or code the order of words says something
    words = frozenset(word for value in values for word in _WORD.findall(value.lower()))
    return words if len(words) >= MIN_WORDS else call.arguments_key
