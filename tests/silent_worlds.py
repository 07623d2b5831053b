"""Small runs of agents in which nothing has an error status, for the detectors of silent failures.

Every run is a list of steps; `call` is a model call with its messages, `tool` a tool's own span.
"""

from collections.abc import Sequence

from contracts.findings import Symptom
from contracts.json_types import Json
from contracts.traces import Trace
from nodes.insights.detect.all import detect_trace
from tests.trace_worlds import OtlpSpan, span, trace_of

Said = tuple[str, str]
"""(role, text)"""


def call(
    number: int,
    said: str = "",
    *,
    system: str = "",
    user: str = "",
    more: Sequence[Said] = (),
    asks: Sequence[tuple[str, str]] = (),
    offers: Sequence[str] = (),
    tokens: int | None = None,
    parent: int = 0,
    name: str = "ChatCompletion",
    error: tuple[str, str] | None = None,
    also: dict[str, Json] | None = None,
) -> OtlpSpan:
    """A model call: what it was told, what it said, and which tools it asked for."""
    attributes: dict[str, Json] = dict(also or {})
    told = [("system", system), ("user", user)]
    for at, (role, text) in enumerate([one for one in told if one[1]] + list(more)):
        attributes[f"llm.input_messages.{at}.message.role"] = role
        attributes[f"llm.input_messages.{at}.message.content"] = text
    if said or asks:
        out = "llm.output_messages.0.message."
        attributes |= {out + "role": "assistant", out + "content": said, "output.value": said}
        for at, (tool, arguments) in enumerate(asks):
            asked = f"{out}tool_calls.{at}.tool_call."
            attributes |= {
                asked + "id": f"c{number}{at}",
                asked + "function.name": tool,
                asked + "function.arguments": arguments,
            }
    for at, tool in enumerate(offers):
        schema = f'{{"type":"function","function":{{"name":"{tool}","parameters":{{"type":"object","properties":{{}}}}}}}}'  # noqa: E501  # one schema
        attributes[f"llm.tools.{at}.tool.json_schema"] = schema
    if tokens is not None:
        attributes["llm.token_count.prompt"] = tokens
    return span(number, "LLM", name, parent=parent, error=error, also=attributes)


def symptoms(*steps: OtlpSpan) -> tuple[Symptom, ...]:
    """Everything that is seen in the run."""
    return detect_trace(run(*steps))


def run(*steps: OtlpSpan) -> Trace:
    """The trace of the steps."""
    return trace_of(*steps)


def kinds(*steps: OtlpSpan) -> set[str]:
    """Kinds of what counts."""
    return {symptom.kind for symptom in symptoms(*steps) if symptom.counts}


def at(kind: str, *steps: OtlpSpan) -> list[int]:
    """Numbers of the steps at which a kind counts."""
    return [int(s.span_id, 16) - 1 for s in symptoms(*steps) if s.kind == kind and s.counts]


def the(kind: str, *steps: OtlpSpan) -> Symptom:
    """The one symptom of the kind."""
    (found,) = [symptom for symptom in symptoms(*steps) if symptom.kind == kind]
    return found
