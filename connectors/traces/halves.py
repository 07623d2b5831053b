"""Several records of one span to one, and times that cannot be: joined, marked and counted."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from connectors.traces.raw import RawSpan
from contracts.json_types import sha256_hex
from contracts.traces import Span

MARK = "tracemend."
SLACK_NS = 1_000_000  # clocks of one machine, read by two threads


def one_each(records: Sequence[RawSpan], marks: dict[str, int]) -> dict[str, RawSpan]:
    """One record a span id, in the order in which the ids first came.

    A record that is still open and one that is closed are halves of one span (create, then update)
    and are joined; of others the newest stays. `marks` gets `late_halves` (records that said
    themselves that they were open; any other repetition counts as a duplicate) and
    `duplicate_conflicts` (repeated with another body).
    """
    by_id: dict[str, list[RawSpan]] = {}
    for raw in records:
        by_id.setdefault(raw.span_id, []).append(raw)
    return {key: same[0] if len(same) == 1 else _one(same, marks) for key, same in by_id.items()}


def _one(same: list[RawSpan], marks: dict[str, int]) -> RawSpan:
    closed = [raw for raw in same if not _unfinished(raw)]
    halves = [raw for raw in same if _unfinished(raw)]
    if not (closed and halves):
        return _newest(same, marks)
    kept = _newest(closed, marks)
    for half in sorted(halves, key=_age, reverse=True):
        kept = _joined(half, kept)
    told = sum(half.open for half in halves)
    if told:
        marks["late_halves"] = marks.get("late_halves", 0) + told
    return kept


def _newest(same: list[RawSpan], marks: dict[str, int]) -> RawSpan:
    kept = max(same, key=_age)
    if any(_body(raw) != _body(kept) for raw in same):
        marks["duplicate_conflicts"] = marks.get("duplicate_conflicts", 0) + 1
    return kept


def _unfinished(raw: RawSpan) -> bool:
    return raw.open or raw.end_ns is None


def _joined(half: RawSpan, whole: RawSpan) -> RawSpan:
    """The closed record, with what only the earlier half knew."""
    starts = [ns for ns in (half.start_ns, whole.start_ns) if ns is not None]
    return replace(
        whole,
        parent_id=whole.parent_id or half.parent_id,
        name=whole.name or half.name,
        start_ns=min(starts, default=None),
        attributes={**half.attributes, **whole.attributes},
        events=whole.events or half.events,
        resource={**half.resource, **whole.resource},
        open=False,
    )


def _body(raw: RawSpan) -> str:
    return (
        f"{raw.start_ns}{raw.end_ns}{raw.status}{raw.status_message}{raw.name}{raw.parent_id}"
        f"{raw.attributes}{raw.events}"
    )


def _age(raw: RawSpan) -> tuple[int, int, int, int, str]:
    """Later writes are newer, then later ends; what still ties is told apart by content alone."""
    known = (raw.updated_ns or -1, raw.end_ns or -1, raw.start_ns or -1, len(raw.attributes))
    whole = f"{_body(raw)}{raw.resource}{raw.replaced}"
    return (*known, sha256_hex(whole.encode("utf-8", "surrogatepass")))


def mark_times(
    spans: dict[str, Span],
    newest: Mapping[str, RawSpan],
    parents: Mapping[str, str | None],
    marks: dict[str, int],
) -> None:
    """Mark spans that end before they start (`clock_skew`) or lie outside their parent's time.

    The times stay as recorded, but for an end before the start, which is moved to it: clocks of two
    machines differ, and a child may outlive its parent. Nothing concludes from such a time alone.
    """
    for key, raw in newest.items():
        start, end = raw.start_ns, raw.end_ns
        if start is None:
            continue
        if end is not None and end < start:
            _mark(spans, key, "clock_skew", marks)
        parent = parents[key]
        above = newest[parent] if parent is not None else None
        if above is None or above.start_ns is None:
            continue
        late = above.end_ns is not None and (end or start) > above.end_ns + SLACK_NS
        if start < above.start_ns - SLACK_NS or late:
            _mark(spans, key, "outside_parent", marks)


def _mark(spans: dict[str, Span], key: str, name: str, marks: dict[str, int]) -> None:
    span = spans[key]
    spans[key] = replace(span, attributes={**span.attributes, MARK + name: True})
    marks[name] = marks.get(name, 0) + 1
