"""Talks between a person, an agent and its tools, as traces."""

import json
from collections.abc import Mapping

from benchmarks.logs import trace_of
from contracts.findings import Symptom
from contracts.json_types import Json
from contracts.traces import Trace
from nodes.insights.detect.all import detect_trace

Row = dict[str, Json]


def rules(text: str) -> Row:
    return {"role": "system", "content": text}


def person(text: str) -> Row:
    return {"role": "user", "content": text}


def agent(text: str) -> Row:
    return {"role": "assistant", "content": text}


def call(tool: str, arguments: Mapping[str, Json], answer: Json, said: str = "") -> list[Row]:
    """The agent's request and the tool's answer; give it with a star."""
    sent = json.dumps({"tool": tool, "arguments": dict(arguments)}, sort_keys=True)
    key = f"c{abs(hash(sent))}"
    request: Json = {
        "id": key,
        "type": "function",
        "function": {"name": tool, "arguments": json.dumps(dict(arguments))},
    }
    told = answer if isinstance(answer, str) else json.dumps(answer)
    return [
        {"role": "assistant", "content": said or None, "tool_calls": [request]},
        {"role": "tool", "tool_call_id": key, "name": tool, "content": told},
    ]


def talk(*rows: Row) -> Trace:
    """The trace of a talk."""
    trace = trace_of({"messages": list(rows)})
    assert trace is not None
    return trace


def seen(trace: Trace, kind: str) -> list[Symptom]:
    """The trace's symptoms of one kind."""
    return [symptom for symptom in detect_trace(trace) if symptom.kind == kind]
