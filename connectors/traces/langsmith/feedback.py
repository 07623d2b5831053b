"""Feedback to scores: the statistics that come with each run."""

from collections.abc import Iterator, Mapping

from connectors.traces.langsmith.values import as_list, as_object
from connectors.traces.raw import as_float, as_int
from contracts.json_types import Json
from contracts.traces import Score, SpanId

MAX_SCORES = 64  # of one run
MAX_COMMENT_CHARS = 2000


def stats_scores(run: Mapping[str, Json], span_id: str | None) -> Iterator[Score]:
    """Scores of `feedback_stats`: one a key, the mean of its values or its most frequent word.

    Args:
        run: as recorded.
        span_id: the run they are about; None: the whole trace.
    """
    stats = as_object(run.get("feedback_stats"))
    for key, recorded in list(stats.items())[:MAX_SCORES]:
        one = as_object(recorded)
        comments = [text for text in as_list(one.get("comments")) if isinstance(text, str)]
        value = _value(one)
        counted = as_int(one.get("n"))
        if not key or counted == 0 or (value is None and not comments and not counted):
            continue
        yield Score(
            name=key[:256],
            value=value,
            source="feedback",
            comment=comments[0][:MAX_COMMENT_CHARS] if comments else None,
            span_id=SpanId(span_id) if span_id else None,
        )


def _value(one: Mapping[str, Json]) -> float | str | None:
    mean = as_float(one.get("avg"))
    if mean is not None:
        return mean
    counts = {word: as_int(n) or 0 for word, n in as_object(one.get("values")).items()}
    return max(sorted(counts), key=lambda word: counts[word])[:256] if counts else None
