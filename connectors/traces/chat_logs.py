"""Logs of chat messages: one run is a list of messages, alone or in a document about it.

Takes runs of tau-bench (`traj`), group chats with the question beside them (`history`), documents
with `messages` (OpenAI, Anthropic, LangChain) or `conversations` (ShareGPT), dialogues written as
one text (`messages_display`), and a bare list of messages. Whatever else stands beside the messages
is left alone, since such logs carry the verdict of whoever collected them.

Sources: sierra-research/tau-bench runs; ag2ai/Agents_Failure_Attribution and Magentic-One logs;
OpenAI chat fine-tuning lines.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from connectors.traces.logged import content_trace_id, offered, time_ns
from connectors.traces.raw import Raw, as_id, as_text
from connectors.traces.steps import Lane, Recorder, Turn, first_time
from connectors.traces.turns import (
    agents_among,
    as_terminal,
    is_known_role,
    is_message,
    kind_of_role,
    role_of,
    turns_of,
)
from contracts.json_types import Json

NAME: Final = "chat-log"
_LISTS: Final = ("traj", "messages", "history", "conversations")
_DISPLAY: Final = "messages_display"
_OTHERS: Final = frozenset(
    {"epoch", "schema_version", "trajectory", "observations", "spans", "resourceSpans", "run_type",
     "resource_spans", "batches", "inputs", "span_id", "spanId", "samples"}
)  # fmt: skip
"""Keys of other formats, whose records may hold messages too."""
_FOREIGN: Final = frozenset({"agent", "message_type"})
"""Keys of a SWE-agent history's messages."""
_LOOKED_AT: Final = 32  # messages of a log by which it is told
_CONTEXT: Final = {
    "session.id": ("session_id", "conversation_id", "thread_id"),
    "user.id": ("user_id",),
    "deployment.environment.name": ("environment",),
}
_SPOKEN: Final = re.compile(r"^(system|user|assistant|tool|function): ?", re.MULTILINE)
_NOTHING: Final = "None"  # how a dialogue in one text writes a message that only calls a tool


def takes(value: Mapping[str, Json]) -> bool:
    """Whether the object is a run as a chat log."""
    if not _OTHERS.isdisjoint(value):
        return False
    display = value.get(_DISPLAY)
    if isinstance(display, str):
        return _SPOKEN.match(display) is not None
    return _messages(value) is not None


def takes_list(items: Sequence[Json]) -> bool:
    """Whether the list is one run: messages, and at least one of them by an agent."""
    if isinstance(items, str) or not items:
        return False
    looked = items[:_LOOKED_AT]
    if not all(is_message(item) for item in looked):
        return False
    rows = [item for item in looked if isinstance(item, dict)]
    if any(len(_FOREIGN & row.keys()) > 1 for row in rows):
        return False
    roles = [role_of(row) for row in rows]
    spoke = any(kind_of_role(role) in ("agent", "tool") for role in roles)
    return spoke and any(is_known_role(role) for role in roles)


def spans(value: Mapping[str, Json]) -> Iterator[Raw]:
    """The spans of one run."""
    display = value.get(_DISPLAY)
    if isinstance(display, str):
        turns = _displayed(display)
        yield from _recorded(turns, content_trace_id(NAME, display), {})
        return
    messages = _messages(value)
    if messages is None:
        return
    trace_id = as_id(value.get("trace_id"), 16)
    if trace_id is None:
        beside = [value.get(key) for key in ("id", "task_id", "trial", "question_ID")]
        trace_id = content_trace_id(NAME, beside, messages)
    yield from _recorded(_turns(messages, value), trace_id, value)


def list_spans(items: Sequence[Json]) -> Iterator[Raw]:
    """The spans of a run that is a bare list of messages."""
    messages = list(items)
    yield from _recorded(_turns(messages, {}), content_trace_id(NAME, messages), {})


def _messages(value: Mapping[str, Json]) -> Sequence[Json] | None:
    """The messages of a document, under whichever key they stand."""
    for key in _LISTS:
        found = value.get(key)
        if isinstance(found, list) and takes_list(found):
            return found
    return None


def _turns(messages: Sequence[Json], document: Mapping[str, Json]) -> list[Turn]:
    """All turns, with the agents of a group chat told from the people in it."""
    prompts = document.get("system_prompt")
    turns = [
        turn
        for step, row in enumerate(messages)
        if isinstance(row, dict) and role_of(row)
        for turn in turns_of(row, step)
    ]
    first = next((n for n, turn in enumerate(turns) if turn.kind == "agent"), None)
    if first is not None and (tools := offered(document.get("tools"))):
        told = {**turns[first].attributes, **tools}
        turns[first] = replace(turns[first], attributes=told)
    agents = agents_among(turns, prompts if isinstance(prompts, dict) else ())
    out: list[Turn] = []
    before = ""
    for turn in turns:
        if turn.kind == "user" and turn.speaker in agents:
            turn = replace(turn, kind="agent")  # noqa: PLW2901  (the same turn, seen rightly)
        out.append(as_terminal(turn, before))
        before = turn.text
    return out


def _recorded(turns: Sequence[Turn], trace_id: str, document: Mapping[str, Json]) -> Iterator[Raw]:
    prompts = document.get("system_prompt")
    began = first_time(turns) or time_ns(document.get("created_at", document.get("timestamp")))
    recorder = Recorder(trace_id=trace_id)
    lane = recorder.lane("agent", began_ns=began, attributes=_context(document))
    for turn in turns:
        if turn.kind == "agent" and isinstance(prompts, dict):
            lane.said(turn, as_text(prompts.get(turn.speaker)))
        else:
            lane.take(turn)
    _close(lane, turns, as_text(document.get("question")))
    yield from recorder.done()


def _close(lane: Lane, turns: Sequence[Turn], question: str) -> None:
    """The request is the question, what a person said first, or the message that began it all."""
    asked = question or lane.request or next((turn.text for turn in turns), None)
    lane.close(request=asked)


def _context(document: Mapping[str, Json]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for attribute, keys in _CONTEXT.items():
        for key in keys:
            value = document.get(key)
            if isinstance(value, str) and value:
                found[attribute] = value
                break
    return found


def _displayed(text: str) -> list[Turn]:
    """The turns of a dialogue in one text, each beginning with its role."""
    pieces = _SPOKEN.split(text)
    turns: list[Turn] = []
    for step, (role, said) in enumerate(zip(pieces[1::2], pieces[2::2], strict=False)):
        words = said.strip("\n")
        called = role == "assistant" and words == _NOTHING
        row: dict[str, Json] = {"role": role, "content": "" if called else words}
        if called:
            row["tool_calls"] = [{"name": ""}]
        turns += turns_of(row, step)
    return turns
