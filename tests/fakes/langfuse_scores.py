"""Which scores the fake Langfuse gives for its parameters of scores v3."""

from collections.abc import Callable

from starlette.datastructures import QueryParams

from tests.fakes.langfuse_query import Row, at, instant, invalid, words

_SCORE_TYPES = ("NUMERIC", "BOOLEAN", "CATEGORICAL", "TEXT", "CORRECTION")


def score_place(row: Row) -> tuple[str, str, str]:
    return str(row["timestamp"]), "", str(row["id"])


def score_filter(params: QueryParams) -> Callable[[Row], bool]:
    traces, sessions = words(params, "traceId"), words(params, "sessionId")
    spans, runs = words(params, "observationId"), words(params, "experimentId")
    if sum(map(bool, (traces, sessions, runs))) > 1 or (spans and (sessions or runs)):
        raise invalid("traceId", "traceId, sessionId and experimentId exclude one another")
    if spans and not traces:
        raise invalid("observationId", "observationId requires traceId")
    kinds = [kind.upper() for kind in words(params, "dataType")]
    if any(kind not in _SCORE_TYPES for kind in kinds):
        raise invalid("dataType", "Invalid option", "invalid_value")
    if any(params.get(key) for key in ("value", "valueMin", "valueMax")) and len(kinds) != 1:
        raise invalid("dataType", "a value filter requires a single dataType")
    begin, end = instant(params, "fromTimestamp"), instant(params, "toTimestamp")
    same = {column: words(params, column) for column in ("id", "name", "environment")}
    sources = [source.upper() for source in words(params, "source")]

    def keep(row: Row) -> bool:
        subject = row["subject"]
        assert isinstance(subject, dict)
        kind = subject["kind"]
        trace = subject["id"] if kind == "trace" else subject.get("traceId")
        return (
            (not traces or trace in traces)
            and (not sessions or (kind == "session" and subject["id"] in sessions))
            and (not spans or (kind == "observation" and subject["id"] in spans))
            and not runs
            and (not kinds or row["dataType"] in kinds)
            and (not sources or row["source"] in sources)
            and all(not wanted or row[column] in wanted for column, wanted in same.items())
            and (begin is None or at(row, "timestamp") >= begin)
            and (end is None or at(row, "timestamp") < end)
        )

    return keep
