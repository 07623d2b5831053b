"""Trajectories in the Agent Trajectory Interchange Format (ATIF), versions 1.x.

Source: the ATIF specification of the Harbor project up to v1.7, and what its converters write: of
Claude Code, a step each for a message and for every call in it, calls without an answer at the end
of the list whenever they were made, and `extra` with the tool's own result. Steps are therefore put
in the order of their times.
"""

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from connectors.traces.logged import content_trace_id, offered, time_ns, usage
from connectors.traces.raw import Raw, RawSpan, as_id, as_int, as_objects, as_text
from connectors.traces.steps import Call, Lane, Recorder, Turn, TurnKind
from connectors.traces.turns import calls_of, error_of, text_of
from contracts.json_types import Json

NAME: Final = "atif"
MAX_TRAJECTORIES: Final = 1000  # of one document
_SOURCES: Final = frozenset({"user", "agent", "system"})
_IDS: Final = ("trajectory_id", "session_id")
_EXECUTED: Final = re.compile(r"Executed \S+(?: \S+)?\Z")
"""What a converter writes where the model only called a tool."""


def takes(value: Mapping[str, Json]) -> bool:
    """Whether the object is a trajectory."""
    version = value.get("schema_version")
    named = isinstance(version, str) and version.upper().startswith("ATIF")
    return named or ("agent" in value and _has_steps(value))


def _has_steps(value: Mapping[str, Json]) -> bool:
    steps = as_objects(value.get("steps"))
    return bool(steps) and all(as_text(step.get("source")) in _SOURCES for step in steps[:8])


def spans(value: Mapping[str, Json]) -> Iterator[Raw]:
    """The spans of one trajectory and of the subagents' that it holds."""
    if not as_objects(value.get("steps")):
        return
    own = as_id(value.get("trajectory_id"), 16) or as_id(value.get("session_id"), 16)
    trace_id = own or content_trace_id(NAME, value.get("steps"), value.get("agent"))
    recorder = Recorder(trace_id=trace_id)
    started_by: dict[str, RawSpan] = {}
    waiting: deque[tuple[Mapping[str, Json], RawSpan | None]] = deque([(value, None)])
    for _ in range(MAX_TRAJECTORIES):
        if not waiting:
            break
        trajectory, parent = waiting.popleft()
        lane = _lane(recorder, trajectory, parent)
        agent = _object(trajectory.get("agent"))
        _Steps(
            lane=lane,
            started_by=started_by,
            model=as_text(agent.get("model_name")),
            tools=offered(agent.get("tool_definitions")),
        ).read(trajectory)
        for inner in as_objects(trajectory.get("subagent_trajectories")):
            ids = [as_text(inner.get(key)) for key in _IDS]
            starters = (started_by[one] for one in ids if one in started_by)
            waiting.append((inner, next(starters, lane.root)))
    yield from recorder.done()


def _lane(recorder: Recorder, trajectory: Mapping[str, Json], parent: RawSpan | None) -> Lane:
    agent, extra = _object(trajectory.get("agent")), _object(trajectory.get("extra"))
    known = {
        "session.id": trajectory.get("session_id"),
        "user.id": extra.get("user_id"),
        "deployment.environment.name": extra.get("environment"),
        "service.version": agent.get("version"),
    }
    times = [time_ns(step.get("timestamp")) for step in as_objects(trajectory.get("steps"))]
    return recorder.lane(
        as_text(agent.get("name")) or "agent",
        parent=parent,
        began_ns=min((at for at in times if at is not None), default=None),
        attributes={k: v for k, v in known.items() if isinstance(v, str) and v and not parent},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steps:
    """Reads the steps of one agent into its lane."""

    lane: Lane
    started_by: dict[str, RawSpan]
    """Which span started the subagent of an id; filled on the way."""
    model: str
    tools: dict[str, Json]
    """Schemas of the tools, until the first model call has them."""

    def read(self, trajectory: Mapping[str, Json]) -> None:
        for place, (at, step) in enumerate(_in_time(as_objects(trajectory.get("steps")))):
            results = as_objects(_object(step.get("observation")).get("results"))
            if step.get("source") == "agent" and step.get("is_copied_context") is not True:
                self._acted(step, results, at, place)
            else:
                self._heard(step, results, at)
        self.lane.close()

    def _heard(
        self, step: Mapping[str, Json], results: list[Mapping[str, Json]], at: int | None
    ) -> None:
        """A message to the agent, or one that an earlier trajectory holds already."""
        told = [text_of(step.get("message")), *(text_of(r.get("content")) for r in results)]
        text = "\n".join(one for one in told if one)
        kind: TurnKind = "system" if step.get("source") == "system" else "user"
        self.lane.heard(Turn(kind=kind, text=text, at_ns=at))
        for result in results:
            self._refer(result, self.lane.root)

    def _acted(
        self,
        step: Mapping[str, Json],
        results: list[Mapping[str, Json]],
        at: int | None,
        place: int,
    ) -> None:
        calls = calls_of(step)
        text = text_of(step.get("message"))
        if calls and _EXECUTED.match(text):
            text = ""
        metrics = _object(step.get("metrics"))
        turn = Turn(
            kind="agent",
            text=text,
            calls=calls,
            at_ns=at,
            step=place,
            attributes=usage(
                model=as_text(step.get("model_name")) or self.model,
                sent=metrics.get("prompt_tokens"),
                received=metrics.get("completion_tokens"),
                cost_usd=metrics.get("cost_usd"),
                stop=_object(step.get("extra")).get("stop_reason"),
                spoke=bool(text or calls),
            )
            | self.tools,
        )
        self.tools.clear()  # said once: every call is offered the same
        called = as_int(step.get("llm_call_count")) != 0
        self.lane.said(turn, kind="LLM" if called else "CHAIN")
        for result in results:
            self._refer(result, self._answered(step, result, calls, place))

    def _answered(
        self,
        step: Mapping[str, Json],
        result: Mapping[str, Json],
        calls: tuple[Call, ...],
        place: int,
    ) -> RawSpan:
        called = as_text(result.get("source_call_id")) or None
        extra = _object(step.get("extra"))
        failed, error, error_type = error_of({**_object(result.get("extra")), **result})
        if len(calls) <= 1:
            failed |= extra.get("tool_result_is_error") is True
        turn = Turn(
            kind="tool",
            text=_own_result(extra, called) or text_of(result.get("content")),
            call_id=called,
            tool=next((call.tool for call in calls if call.id == called), ""),
            failed=failed,
            error=error,
            error_type=error_type,
            step=place,
        )
        return self.lane.answered(turn)

    def _refer(self, result: Mapping[str, Json], span: RawSpan) -> None:
        refs = result.get("subagent_trajectory_ref")
        for ref in as_objects([refs] if isinstance(refs, dict) else refs):
            for key in _IDS:
                named = as_text(ref.get(key))
                if named:
                    self.started_by.setdefault(named, span)


def _in_time(steps: list[Mapping[str, Json]]) -> list[tuple[int | None, Mapping[str, Json]]]:
    """Steps by time; one without a time stays behind the one before it."""
    timed: list[tuple[int, int | None, Mapping[str, Json]]] = []
    last = 0
    for step in steps:
        at = time_ns(step.get("timestamp"))
        last = last if at is None else at
        timed.append((last, at, step))
    timed.sort(key=lambda one: one[0])
    return [(at, step) for _, at, step in timed]


def _own_result(extra: Mapping[str, Json], called: str | None) -> str:
    """The tool's answer as the model got it, where a converter kept it beside its own rendering."""
    kept = _object(extra.get("tool_result_metadata"))
    own = _object(kept.get("raw_tool_result"))
    return text_of(own.get("content")) if called and own.get("tool_use_id") == called else ""


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}
