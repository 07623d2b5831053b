"""Chat messages as programs log them, to turns: who speaks, which tools are called and answered.

Knows the messages of OpenAI (`tool_calls`, the older `function_call`), Anthropic (content blocks),
LangChain (`type` and `data`), ShareGPT (`from` and `value`) and Inspect (`function` as a name).
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import orjson

from connectors.traces.logged import json_text, time_ns, usage
from connectors.traces.raw import as_objects, as_text
from connectors.traces.steps import Call, Turn, TurnKind
from contracts.json_types import Json

_ROLES: Final[dict[str, TurnKind]] = {
    "system": "system", "developer": "system",
    "user": "user", "human": "user",
    "assistant": "agent", "ai": "agent", "gpt": "agent", "model": "agent", "bot": "agent",
    "chatgpt": "agent", "function_call": "agent",
    "tool": "tool", "function": "tool", "observation": "tool", "tool_response": "tool",
    "tool-response": "tool", "function_response": "tool", "ipython": "tool",
}  # fmt: skip
_TIMES: Final = ("timestamp", "created_at", "time", "ts")
_COUNTED: Final = frozenset(
    {"model", "usage", "usage_metadata", "cost_usd", "finish_reason", "stop_reason"}
)
_IMAGES: Final = frozenset({"image", "image_url", "input_image", "audio", "input_audio", "video"})
_CALLS: Final = frozenset({"tool_use", "tool_call", "server_tool_use"})
_UNSAID: Final = frozenset({"thinking", "redacted_thinking", "reasoning", "tool_result", *_CALLS})
_TERMINAL: Final = re.compile(r"(?:computer|code)?[ _-]?(?:terminal|executor)\Z", re.IGNORECASE)
_EXITED: Final = re.compile(r"\bexit ?code(?: was)?: (\d{1,3})\b", re.IGNORECASE)
_FENCED: Final = re.compile(r"```[\w+-]*[ \t]*\r?\n(.*?)```", re.DOTALL)
_ASIDE: Final = re.compile(r"\s*\([^()]*\)\Z")


def role_of(row: Mapping[str, Json]) -> str:
    """The role as recorded, under any of its names; empty where there is none."""
    for key in ("role", "from"):
        value = row.get(key)
        if isinstance(value, str) and value:
            return value
    kind = as_text(row.get("type"))
    return kind if kind.lower() in _ROLES else ""


def is_message(value: Json) -> bool:
    """Whether the value is a chat message: someone, and what they said or called."""
    if not isinstance(value, dict) or not role_of(value):
        return False
    if "content" in value or "value" in value or isinstance(value.get("data"), dict):
        said = value.get("content", value.get("value"))
        return said is None or isinstance(said, str | list | dict)
    return isinstance(value.get("tool_calls"), list)


def is_known_role(role: str) -> bool:
    """Whether some vendor's messages have this role."""
    return role.strip().lower() in _ROLES


def kind_of_role(role: str) -> TurnKind:
    """What a role is; one that no vendor knows is an agent's name."""
    return _ROLES.get(role.strip().lower(), "agent")


def turns_of(row: Mapping[str, Json], step: int | None = None) -> list[Turn]:
    """The turns of one message, in order: answers of tools first, then what was said."""
    role = role_of(row)
    inner = row.get("data")
    if isinstance(inner, dict) and "role" not in row:
        row = inner
    kind = kind_of_role(role)
    content = row.get("content", row.get("value"))
    at = next((time_ns(row[key]) for key in _TIMES if key in row), None)
    turns: list[Turn] = []
    if not isinstance(content, str):
        turns += [_result(part, step, at) for part in as_objects(content) if _is_result(part)]
    text = text_of(content)
    if kind == "tool":
        return [*turns, _answer(row, text, step, at)] if text or not turns else turns
    if kind == "agent":
        return [*turns, _said(row, role, text, step, at)]
    if text or not turns:
        speaker = as_text(row.get("name"))
        turns.append(Turn(kind=kind, text=text, speaker=speaker, at_ns=at, step=step))
    return turns


def _said(row: Mapping[str, Json], role: str, text: str, step: int | None, at: int | None) -> Turn:
    known = is_known_role(role)
    calls = calls_of(row)
    if role == "function_call":
        calls, text = _written_call(text), ""
    failed, error, error_type = error_of(row)
    return Turn(
        kind="agent",
        text=text,
        speaker=as_text(row.get("name")) if known else agent_name(role),
        label="" if known else role,
        calls=calls,
        failed=failed,
        error=error,
        error_type=error_type,
        at_ns=at,
        step=step,
        attributes=_usage(row, spoke=bool(text or calls)) if _COUNTED & row.keys() else {},
    )


def _usage(row: Mapping[str, Json], *, spoke: bool) -> dict[str, Json]:
    counted = row.get("usage") or row.get("usage_metadata")
    counts = counted if isinstance(counted, dict) else {}
    return usage(
        model=row.get("model"),
        sent=counts.get("prompt_tokens", counts.get("input_tokens")),
        received=counts.get("completion_tokens", counts.get("output_tokens")),
        cost_usd=row.get("cost_usd", counts.get("cost_usd")),
        stop=row.get("finish_reason", row.get("stop_reason")),
        spoke=spoke,
    )


def _answer(row: Mapping[str, Json], text: str, step: int | None, at: int | None) -> Turn:
    failed, error, error_type = error_of(row)
    called = row.get("tool_call_id")
    several = row.get("tool_call_ids")
    if called is None and isinstance(several, list) and several:
        called = several[0]
    return Turn(
        kind="tool",
        text=text,
        call_id=as_text(called) or None,
        tool=as_text(row.get("name")) or as_text(row.get("function")),
        failed=failed,
        error=error,
        error_type=error_type,
        at_ns=at,
        step=step,
    )


def _is_result(part: Mapping[str, Json]) -> bool:
    return part.get("type") == "tool_result"


def _result(part: Mapping[str, Json], step: int | None, at: int | None) -> Turn:
    return Turn(
        kind="tool",
        text=text_of(part.get("content")),
        call_id=as_text(part.get("tool_use_id")) or None,
        failed=part.get("is_error") is True,
        at_ns=at,
        step=step,
    )


def error_of(row: Mapping[str, Json]) -> tuple[bool, str, str]:
    """(failed, message, type) as the message itself says; Inspect's type `unknown` is none."""
    error = row.get("error")
    if isinstance(error, dict) and error:
        kind = as_text(error.get("type"))
        return True, as_text(error.get("message")), "" if kind == "unknown" else kind
    if isinstance(error, str) and error:
        return True, error, ""
    marked = any(row.get(key) is True for key in ("is_error", "isError", "error"))
    return marked or row.get("status") == "error", "", ""


def calls_of(row: Mapping[str, Json]) -> tuple[Call, ...]:
    """The tool calls of a message, from every place where vendors put them."""
    found = [_call(call) for call in as_objects(row.get("tool_calls"))]
    content = row.get("content")
    if not isinstance(content, str):
        found += [
            _call(part) for part in as_objects(content) if as_text(part.get("type")) in _CALLS
        ]
    legacy = row.get("function_call")
    if isinstance(legacy, dict):
        found.append(_call(legacy))
    return tuple(found)


def _call(call: Mapping[str, Json]) -> Call:
    function = call.get("function")
    inner = function if isinstance(function, dict) else call
    given = (inner.get(key) for key in ("arguments", "args", "input"))
    name = function if isinstance(function, str) else as_text(inner.get("name"))
    return Call(
        id=as_text(call.get("id")) or as_text(call.get("tool_call_id")) or None,
        tool=name or as_text(inner.get("function_name")),
        arguments=next((one for one in given if one is not None), None),
    )


def _written_call(text: str) -> tuple[Call, ...]:
    """A call that is the text of its message."""
    try:
        value: Json = orjson.loads(text)
    except ValueError:
        value = None
    return (_call(value),) if isinstance(value, dict) else (Call(id=None, tool="", arguments=text),)


def text_of(content: Json) -> str:
    """What was said: text, or the texts of its parts; what a model only thought is left out."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list):
        return "\n".join(text for text in map(_part, content) if text)
    return _part(content) if isinstance(content, dict) else json_text(content)


def _part(part: Json) -> str:
    if not isinstance(part, dict):
        return json_text(part)
    kind = part.get("type")
    if isinstance(kind, str) and kind in _UNSAID:
        return ""
    if isinstance(kind, str) and kind in _IMAGES:
        return f"[{kind.removeprefix('input_').removesuffix('_url')}]"
    for key in ("text", "content", "refusal", "value"):
        value = part.get(key)
        if isinstance(value, str):
            return value
    return json_text(part)


def agent_name(role: str) -> str:
    """The agent in a role such as `Orchestrator (-> WebSurfer)`."""
    named = role.strip()[:256]
    return _ASIDE.sub("", named) or named


def as_terminal(turn: Turn, asked: str) -> Turn:
    """The turn of a speaker that only runs code, as the answer of a tool; any other as it is.

    AutoGen writes `exitcode: 1 (execution failed)`, Magentic-One `Unix exit code: 1`.

    Args:
        turn: what was said.
        asked: the message before, whose code was run.
    """
    if turn.kind == "tool" or not _TERMINAL.match(turn.speaker):
        return turn
    match = _EXITED.search(turn.text[:200])
    code = "\n".join(_FENCED.findall(asked))
    return Turn(
        kind="tool",
        text=turn.text,
        tool=turn.speaker,
        given={"code": code} if code else None,
        failed=match is not None and int(match[1]) != 0,
        at_ns=turn.at_ns,
        step=turn.step,
    )


def agents_among(turns: Iterable[Turn], named: Iterable[str]) -> frozenset[str]:
    """Names that stand at user messages and are agents: those known as such, or one of several.

    A group chat is logged from the view of one agent, so that the others are its "users".
    """
    known = set(named)
    users: set[str] = set()
    agents: set[str] = set()
    for turn in turns:
        if turn.speaker:
            (users if turn.kind == "user" else agents).add(turn.speaker)
    if known & users or len(users | agents) > MAX_PAIR:
        return frozenset(users)
    return frozenset(users & agents)


MAX_PAIR: Final = 2
"""Names in a log of one person and one agent."""
