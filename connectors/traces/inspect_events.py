"""The events of an Inspect sample, to spans: model calls, tools, and agents within agents."""

from collections.abc import Iterator, Mapping
from typing import Final

from connectors.traces.inspect_texts import Resolver
from connectors.traces.logged import offered, time_ns, usage
from connectors.traces.raw import RawSpan, as_objects, as_text
from connectors.traces.steps import Lane, Turn
from connectors.traces.turns import calls_of, error_of, kind_of_role, text_of, turns_of
from contracts.json_types import Json

MAX_EVENTS: Final = 200_000  # of one sample
MAX_NESTED: Final = 64  # spans around an event that are looked at
_READ: Final = ("model", "tool", "span_begin")
_SCORERS: Final = ("scorer", "scorers")
_AFTER_SHOWN: Final = 64  # messages of a call's input that are looked at from its end


def all_events(sample: Mapping[str, Json]) -> list[Mapping[str, Json]]:
    """The events of the sample, in older logs those of its transcript."""
    events = as_objects(sample.get("events"))
    if events:
        return events[:MAX_EVENTS]
    transcript = sample.get("transcript")
    old = as_objects(transcript.get("events") if isinstance(transcript, dict) else None)
    return old[:MAX_EVENTS]


def events_of_run(events: list[Mapping[str, Json]]) -> list[Mapping[str, Json]]:
    """Those that are read; none where they hold no model call that ended."""
    found = [e for e in _unjudged(events) if e.get("event") in _READ]
    spoke = any(e.get("event") == "model" and _message(e) is not None for e in found)
    return found if spoke else []


def _unjudged(events: list[Mapping[str, Json]]) -> Iterator[Mapping[str, Json]]:
    """The events of the run itself: a scorer's model is told the right answer.

    Scorers stand in spans of their own, in older logs between the steps that begin and end them.
    """
    judging: set[str] = set()
    steps: list[bool] = []
    within = 0  # steps of scorers that have begun and not ended
    for event in events:
        kind = event.get("event")
        here = as_text(event.get("span_id"))
        if kind == "span_begin":
            scorer = event.get("type") in _SCORERS or as_text(event.get("parent_id")) in judging
            if scorer:
                judging.add(as_text(event.get("id")))
        elif kind == "step":
            if event.get("action") == "begin":
                steps.append(event.get("type") in _SCORERS)
                within += steps[-1]
            elif steps:
                within -= steps.pop()
        if here not in judging and not within:
            yield event


def _message(event: Mapping[str, Json]) -> Mapping[str, Json] | None:
    output = event.get("output")
    choices = as_objects(output.get("choices") if isinstance(output, dict) else None)
    message = choices[0].get("message") if choices else None
    return message if isinstance(message, dict) else None


def take_events(lane: Lane, events: list[Mapping[str, Json]], resolver: Resolver) -> None:
    """Read the events into the lane, those of an agent within it into one of its own.

    Older logs keep what happened within a tool inside the tool's event.
    """
    lanes = _Lanes(lane, events)
    waiting: list[tuple[Mapping[str, Json], Lane | None]] = [(e, None) for e in reversed(events)]
    left = MAX_EVENTS
    while waiting and left:
        left -= 1
        event, within = waiting.pop()
        here = lanes.of(event) if within is None else within
        if event.get("event") == "model":
            _model(here, event, resolver)
        elif event.get("event") == "tool":
            span = _tool(here, event, resolver)
            lanes.started(event, span)
            inner = as_objects(event.get("events"))
            if any(one.get("event") in ("model", "tool") for one in inner):
                own = lanes.within(event, span)
                waiting += [(one, own) for one in reversed(inner)]
    lanes.close()


class _Lanes:
    """The lane of every agent of a sample, by the span that Inspect gives its events."""

    def __init__(self, main: Lane, events: list[Mapping[str, Json]]) -> None:
        self._main = main
        self._begun = {
            as_text(event.get("id")): event
            for event in events
            if event.get("event") == "span_begin" and event.get("id")
        }
        self._lanes: dict[str, Lane] = {}
        self._starters: dict[str, RawSpan] = {}

    def of(self, event: Mapping[str, Json]) -> Lane:
        """The lane of the innermost agent around the event."""
        agents: list[str] = []
        here = as_text(event.get("span_id"))
        seen: set[str] = set()
        while here in self._begun and here not in seen and len(seen) < MAX_NESTED:
            seen.add(here)
            if self._begun[here].get("type") == "agent":
                agents.append(here)
            here = as_text(self._begun[here].get("parent_id"))
        lane = self._main
        for key in reversed(agents):
            if key not in self._lanes:
                begun = self._begun[key]
                self._lanes[key] = lane.recorder.lane(
                    as_text(begun.get("name")) or "agent",
                    parent=self._starters.get(key, lane.root),
                    began_ns=time_ns(begun.get("timestamp")),
                )
            lane = self._lanes[key]
        return lane

    def within(self, event: Mapping[str, Json], span: RawSpan) -> Lane:
        """A lane for what happened inside the tool of the event."""
        lane = self._main.recorder.lane(
            span.name, parent=span, began_ns=time_ns(event.get("timestamp"))
        )
        self._lanes[f"tool {span.span_id}"] = lane
        return lane

    def started(self, event: Mapping[str, Json], span: RawSpan) -> None:
        """Remember the tool that a later agent was started by."""
        agent = as_text(event.get("agent_span_id"))
        if agent:
            self._starters[agent] = span

    def close(self) -> None:
        """End the lanes of all agents but the sample's own."""
        for lane in self._lanes.values():
            lane.close()
            self._main.now = max(self._main.now, lane.now)  # the whole ends after its parts


def _model(lane: Lane, event: Mapping[str, Json], resolver: Resolver) -> None:
    if event.get("pending") is True:
        return
    begun = time_ns(event.get("timestamp"))
    for turn in _news(lane, resolver.sent(event), resolver):
        lane.heard(turn)
    message = resolver.message(_message(event) or {})
    text, calls = text_of(message.get("content")), calls_of(message)
    output = event.get("output")
    said: Mapping[str, Json] = output if isinstance(output, dict) else {}
    counted = said.get("usage")
    counts: Mapping[str, Json] = counted if isinstance(counted, dict) else {}
    choices = as_objects(said.get("choices"))
    failed, error, _ = error_of({"error": event.get("error") or said.get("error")})
    lane.said(
        Turn(
            kind="agent",
            text=text,
            calls=calls,
            failed=failed,
            error=error,
            at_ns=begun,
            ended_ns=time_ns(event.get("completed")),
            attributes=usage(
                model=said.get("model") or event.get("model"),
                sent=_prompt_tokens(counts),
                received=counts.get("output_tokens"),
                cost_usd=counts.get("total_cost"),
                stop=choices[0].get("stop_reason") if choices else None,
                spoke=bool(text or calls),
            )
            | offered(event.get("tools")),
        )
    )


def _prompt_tokens(counts: Mapping[str, Json]) -> Json:
    """What was sent, with what came out of a cache or went into one where it is counted apart."""
    parts = [counts.get(k) for k in
             ("input_tokens", "input_tokens_cache_read", "input_tokens_cache_write")]  # fmt: skip
    sent = [part if isinstance(part, int) else 0 for part in parts]
    total, got = counts.get("total_tokens"), counts.get("output_tokens")
    if isinstance(total, int) and isinstance(got, int) and total - got == sum(sent):
        return total - got
    return parts[0]


def _news(lane: Lane, rows: list[Mapping[str, Json]], resolver: Resolver) -> list[Turn]:
    """What the call was told that the lane does not hold: all at first, then what came last."""
    first = not lane.begun
    told: list[Turn] = []
    for row in reversed(rows if first else rows[-_AFTER_SHOWN:]):
        kind = kind_of_role(as_text(row.get("role")))
        if kind == "agent" and not first:
            break
        if kind in ("user", "system"):
            told[:0] = turns_of(resolver.message(row))
    return told


def _tool(lane: Lane, event: Mapping[str, Json], resolver: Resolver) -> RawSpan:
    failed, error, error_type = error_of(event)
    return lane.answered(
        Turn(
            kind="tool",
            text=text_of(resolver.value(event.get("result"))),
            call_id=as_text(event.get("id")) or None,
            tool=as_text(event.get("function")),
            given=resolver.value(event.get("arguments")),
            failed=failed or event.get("failed") is True,
            error=error,
            error_type=error_type,
            at_ns=time_ns(event.get("timestamp")),
            ended_ns=time_ns(event.get("completed")),
        )
    )
