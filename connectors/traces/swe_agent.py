"""Trajectories of SWE-agent (`.traj`): thoughts, actions and observations of one run.

Source: SWE-agent/SWE-agent up to v1.1, both its text actions and function calling. Its own commands
are tools by their first word; any other action is a command for the shell. A file with a history
only is a demonstration, read from its messages.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from connectors.traces.logged import content_trace_id
from connectors.traces.raw import Raw, as_float, as_objects, as_text
from connectors.traces.steps import Call, Lane, Recorder, Turn
from connectors.traces.turns import calls_of, kind_of_role, text_of
from contracts.json_types import Json

NAME: Final = "swe-agent"
SHELL: Final = "bash"
MAX_ASIDE: Final = (
    8  # messages of the model that are no step, such as a second try after bad format
)
_COMMANDS: Final = frozenset(
    {"open", "goto", "scroll_up", "scroll_down", "create", "edit", "insert", "undo_edit",
     "search_dir", "search_file", "find_file", "str_replace_editor", "submit", "exit_forfeit",
     "connect_start", "connect_sendline", "connect_exec", "debug_start", "debug_continue",
     "debug_step", "debug_add_breakpoint", "debug_exec_command", "debug_stop", "disassemble",
     "decompile", "filemap"}
)  # fmt: skip


def takes(value: Mapping[str, Json]) -> bool:
    """Whether the object is a trajectory of SWE-agent, or a demonstration for it."""
    steps = value.get("trajectory")
    if isinstance(steps, list) and steps:
        first = steps[0]
        return isinstance(first, dict) and "action" in first and "observation" in first
    history = as_objects(value.get("history"))
    return bool(history) and all("role" in row and "agent" in row for row in history[:8])


def spans(value: Mapping[str, Json]) -> Iterator[Raw]:
    """The spans of one run."""
    history = [row for row in as_objects(value.get("history")) if row.get("is_demo") is not True]
    steps = as_objects(value.get("trajectory"))
    info = _object(value.get("info"))
    trace_id = content_trace_id(NAME, value.get("environment"), value.get("trajectory"), history)
    recorder = Recorder(trace_id=trace_id)
    lane = recorder.lane(NAME, attributes=_outcome(info))
    if steps:
        _from_steps(lane, steps, history)
    else:
        _from_history(lane, as_objects(value.get("history")))
    status = as_text(info.get("exit_status"))
    stopped = status.startswith(("exit_", "early_exit")) and not status.startswith("exit_forfeit")
    lane.close(
        answer=as_text(info.get("submission")) or None,
        failed=Turn(kind="agent", failed=True, error=f"exit status {status}") if stopped else None,
    )
    yield from recorder.done()


def _outcome(info: Mapping[str, Json]) -> dict[str, Json]:
    """How the run ended, and its counts, which are known for the run as a whole only."""
    stats = _object(info.get("model_stats"))
    counted = ("tokens_sent", "tokens_received", "api_calls", "instance_cost")
    known = {f"swe_agent.{key}": stats.get(key) for key in counted}
    known["swe_agent.exit_status"] = info.get("exit_status")
    return {key: value for key, value in known.items() if value}


def _from_steps(
    lane: Lane, steps: list[Mapping[str, Json]], history: list[Mapping[str, Json]]
) -> None:
    """Steps hold what was done; the history, how it began and the calls as the model wrote them."""
    acted = [row for row in history if kind_of_role(as_text(row.get("role"))) == "agent"]
    for row in history:
        kind = kind_of_role(as_text(row.get("role")))
        if kind not in ("system", "user"):
            break
        lane.heard(Turn(kind=kind, text=text_of(row.get("content"))))
    here = 0
    for place, step in enumerate(steps):
        action = as_text(step.get("action"))
        same = (i for i in range(here, min(here + MAX_ASIDE, len(acted)))
                if as_text(acted[i].get("action")).strip() == action.strip())  # fmt: skip
        found = next(same, None)
        calls = () if found is None else calls_of(acted[found])
        here = here if found is None else found + 1
        text = text_of(step.get("response")) or text_of(step.get("thought"))
        known = calls or (_call(action),) if action.strip() else ()
        lane.said(Turn(kind="agent", text=text, calls=known, step=place))
        if known:
            observed = text_of(step.get("observation"))
            called = known[0]
            answer = Turn(
                kind="tool", text=observed, call_id=called.id, tool=called.tool, step=place
            )
            span = lane.answered(answer)
            took = as_float(step.get("execution_time"))
            if took is not None:
                span.attributes["swe_agent.execution_time_s"] = took


def _from_history(lane: Lane, history: list[Mapping[str, Json]]) -> None:
    """Messages alone: what follows an action is what it brought about."""
    waiting: Call | None = None
    for place, row in enumerate(history):
        kind = kind_of_role(as_text(row.get("role")))
        text = text_of(row.get("content"))
        if kind == "agent":
            action = as_text(row.get("action"))
            calls = calls_of(row) or ((_call(action),) if action.strip() else ())
            lane.said(Turn(kind="agent", text=text, calls=calls, step=place))
            waiting = calls[0] if calls else None
        elif kind == "system" or (kind == "user" and waiting is None):
            lane.heard(Turn(kind=kind, text=text))
        else:
            called = waiting or Call(id=None, tool=SHELL)
            lane.answered(
                Turn(kind="tool", text=text, call_id=called.id, tool=called.tool, step=place)
            )
            waiting = None


def _call(action: str) -> Call:
    """The tool that an action is for."""
    word = action.split(None, 1)[0]
    if word in _COMMANDS:
        return Call(id=None, tool=word, arguments={"action": action})
    return Call(id=None, tool=SHELL, arguments={"command": action})


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}
