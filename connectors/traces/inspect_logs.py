"""Inspect eval logs: a whole `.json` log, or one sample as it stands in an `.eval` archive.

Source: UKGovernmentBEIS/inspect_ai, log versions 2 and 3. Each sample of each epoch is one run,
read from its events where they hold the model calls, else from its messages. Texts kept apart
(`attachment://`, before that `tc://`, and the message pool) are put back. Targets and scores are
verdicts: scores go beside the trace, the target nowhere.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from connectors.traces.inspect_events import all_events, events_of_run, take_events
from connectors.traces.inspect_texts import Resolver
from connectors.traces.logged import content_trace_id, json_text, time_ns
from connectors.traces.raw import Raw, RawNote, as_float, as_id, as_int, as_objects, as_text
from connectors.traces.steps import Lane, Recorder, Turn, first_time
from connectors.traces.turns import text_of, turns_of
from contracts.json_types import Json
from contracts.traces import Score

NAME: Final = "inspect"
RUN: Final = "sample"
"""Name of every run's own span, in a whole log as in an archive, whose samples name no task."""
MAX_SCORES: Final = 64
_CONTEXT: Final = {
    "session.id": "session_id",
    "user.id": "user_id",
    "deployment.environment.name": "environment",
}
"""What is read of metadata, by the attribute that it becomes; the rest may tell the answer."""


def takes(value: Mapping[str, Json]) -> bool:
    """Whether the object is an eval log, its header, or one sample."""
    evaluated = value.get("eval")
    if isinstance(evaluated, dict) and "version" in value:
        return "task" in evaluated or "eval_id" in evaluated or "run_id" in evaluated
    return _is_sample(value)


def _is_sample(value: Mapping[str, Json]) -> bool:
    kept = ("id", "epoch", "input", "messages")
    return all(key in value for key in kept) and isinstance(value["messages"], list)


def spans(value: Mapping[str, Json]) -> Iterator[Raw]:
    """The spans and scores of every sample; a header has none."""
    if _is_sample(value):
        yield from _sample(value, {})
        return
    evaluated = value.get("eval")
    for sample in as_objects(value.get("samples")):
        if isinstance(sample.get("messages"), list):
            yield from _sample(sample, evaluated if isinstance(evaluated, dict) else {})


def _sample(sample: Mapping[str, Json], evaluated: Mapping[str, Json]) -> Iterator[Raw]:
    own = as_id(sample.get("uuid"), 16)
    resolver = Resolver.of(sample)
    recorded = all_events(sample)
    begun = recorded[0].get("timestamp") if recorded else None
    told = [sample.get(key) for key in ("id", "epoch", "input", "messages", "started_at")]
    trace_id = own or content_trace_id(NAME, told, begun)
    events = events_of_run(recorded)
    turns = [] if events else _turns(sample, resolver)
    began = time_ns(sample.get("started_at")) or time_ns(begun) or first_time(turns)
    if began is None:
        began = time_ns(evaluated.get("created"))
    recorder = Recorder(trace_id=trace_id)
    lane = recorder.lane(RUN, began_ns=began, attributes=_attributes(sample, evaluated))
    if events:
        take_events(lane, events, resolver)
    for turn in turns:
        lane.take(turn)
    _close(lane, sample, resolver)
    yield from recorder.done()
    scores = tuple(_scores(sample))
    if scores:
        yield RawNote(trace_id=trace_id, scores=scores)


def _turns(sample: Mapping[str, Json], resolver: Resolver) -> list[Turn]:
    """The turns of the messages, which tell neither tokens nor times."""
    rows = [resolver.message(row) for row in as_objects(sample.get("messages"))]
    return [turn for step, row in enumerate(rows) for turn in turns_of(row, step)]


def _close(lane: Lane, sample: Mapping[str, Json], resolver: Resolver) -> None:
    asked = sample.get("input")
    request: str | None
    if isinstance(asked, str):
        request = text_of(resolver.value(asked))
    else:
        rows = [resolver.message(row) for row in as_objects(asked)]
        users = [text_of(row.get("content")) for row in rows if row.get("role") == "user"]
        request = users[0] if users else None
    lane.close(
        request=request, ended_ns=time_ns(sample.get("completed_at")), failed=_failure(sample)
    )


def _failure(sample: Mapping[str, Json]) -> Turn | None:
    """How the log says that the run failed: by an error, or stopped at one of its limits."""
    error = sample.get("error")
    if isinstance(error, dict) and error:
        return Turn(
            kind="agent",
            failed=True,
            error=as_text(error.get("message")),
            stack=as_text(error.get("traceback")),
        )
    limit = sample.get("limit")
    if not isinstance(limit, dict) or limit.get("type") in (None, "operator"):
        return None  # a person who stopped the run is no failure of it
    most = as_float(limit.get("limit"))
    size = "" if most is None else f" of {most:g}"
    reached = f"reached max: the {as_text(limit.get('type'))} limit{size} was exceeded"
    return Turn(kind="agent", failed=True, error=reached)


def _attributes(sample: Mapping[str, Json], evaluated: Mapping[str, Json]) -> dict[str, Json]:
    known: dict[str, Json] = {
        "inspect.task": evaluated.get("task"),
        "inspect.sample_id": sample.get("id"),
        "inspect.epoch": as_int(sample.get("epoch")),
        "inspect.uuid": sample.get("uuid"),
        "tag.tags": evaluated.get("tags"),
    }
    for metadata in (evaluated.get("metadata"), sample.get("metadata")):
        if isinstance(metadata, dict):
            known.update({k: metadata[key] for k, key in _CONTEXT.items() if key in metadata})
    return {
        key: value
        for key, value in known.items()
        if (isinstance(value, str | int) and value != "") or (key == "tag.tags" and value)
    }


def _scores(sample: Mapping[str, Json]) -> Iterator[Score]:
    scores = sample.get("scores")
    if not isinstance(scores, dict):
        single = sample.get("score")
        scores = {"score": single} if isinstance(single, dict) else {}
    for name, score in list(scores.items())[:MAX_SCORES]:
        value: Json = score.get("value") if isinstance(score, dict) else score
        comment = as_text(score.get("explanation")) if isinstance(score, dict) else ""
        plain = value if isinstance(value, float | int | str | bool) else json_text(value)
        yield Score(
            name=str(name)[:256],
            value=plain if plain != "" else None,
            source="eval",
            comment=comment[:8192] or None,
        )
