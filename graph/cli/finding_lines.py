"""Findings, choices and hand-offs as lines for a person."""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from contracts.json_types import Json
from graph.cli.session import one_line
from graph.finding_views import objects

Document = Mapping[str, Json]

LEFT = 24
"""Width of the first column of `show`."""


def list_lines(found: Sequence[Document]) -> Iterator[str]:
    """Findings in a list: three or four lines each."""
    for one in found:
        yield f"{one['id']}  {_text(one, 'title')}"
        yield f"  {counts_line(one)}"
        for contrast in objects(one["contrasts"])[:2]:
            yield f"  {one_line(str(contrast['sentence']))}"
        yield f"  {standing_line(one)}"


def counts_line(one: Document) -> str:
    """Units, rate with its interval, change, severity."""
    low, middle, high = cast("Sequence[float]", one["rate"])
    return (
        f"{one['units']} of {one['units_total']}, rate {middle:.3f} [{low:.3f}, {high:.3f}], "
        f"{one['change']}, {one['severity']}; cause {one['cause']}, remedy {one['remedy']}"
    )


def standing_line(one: Document) -> str:
    """Where it stands, and why it is or is not worked on."""
    said = [str(one["state"])]
    merged = one["merged_into"]
    closed = one["closed"]
    if isinstance(merged, Mapping):
        said.append(f"put into {merged['signature']} by {one_line(str(merged['by']))}")
    elif isinstance(closed, Mapping):
        said.append(
            f"by {one_line(str(closed['by']))}: {one_line(str(closed['reason']))}; until its rate "
            f"is above {closed['units']} of {closed['units_total']}"
        )
    elif one["unseen_since"] is not None:
        seen = f"; seen last {_day(one['last_seen'])}" if one["last_seen"] else ""
        said.append(f"not seen in the latest analysis, since {_day(one['unseen_since'])}{seen}")
    elif one["actionable"]:
        said.append("actionable")
    else:
        said.append(f"left alone: {one['why_not']}")
    return f"{', '.join(said)}  ({one['signature']})"


def show_lines(one: Document) -> Iterator[str]:
    """Everything of one finding."""
    yield f"{one['id']}  {_text(one, 'title')}"
    yield _row("counted", f"{counts_line(one)}")
    yield _row("stands", standing_line(one))
    if one["first_seen"]:
        yield _row("seen", f"{_day(one['first_seen'])} to {_day(one['last_seen'])}")
    if one["read"] not in ("complete", None):
        yield _row("read", f"{one['read']}: counts hold for what was read")
    for reason in _strings(one["reasons"]):
        yield _row("ranked", reason)
    yield _row("cause", f"{one['cause_summary']}")
    agreed = (
        "" if one["agreement"] is None else f", answers agree {float(_num(one, 'agreement')):.0%}"
    )
    yield _row(
        "", f"confidence {float(_num(one, 'confidence')):.2f} by {one['diagnosed_by']}{agreed}"
    )
    yield _row("wrong if", str(one["falsifier"]))
    yield _row("remedies", ", ".join(_strings(one["remedies"])) + " (best first)")
    for contrast in objects(one["contrasts"]):
        yield _row("what they share", str(contrast["sentence"]))
    yield from _evidence_lines(one)
    yield from _reach_lines(one)
    for left_out in _strings(one["cases_left_out"]):
        yield _row("case", left_out)
    for merged in objects(one["merged"]):
        yield _row(
            "holds also", f"{merged['signature']}, {merged['units']} units: {merged['why']}"
        )  # fmt: skip
    for wording in objects(one["wordings"]):
        yield _row("wording", f"~{wording['mark']}  {wording['template']}")
    yield from _history_lines(one)


def _evidence_lines(one: Document) -> Iterator[str]:
    for line in objects(one["evidence"]):
        kind = "evidence" if line.get("failed", True) else "how it goes well"
        yield _row(kind, f"trace {line['trace_id']}, span {line['span_id']}")
        yield _row("", f"“{one_line(str(line['quote']))}”")


def _reach_lines(one: Document) -> Iterator[str]:
    for reach in objects(one["reach"]):
        yield _row("what it spoiled", str(reach.get("sentence", "")))
        path = " → ".join(_strings(reach.get("path")))
        if path:
            yield _row("", path)


def _history_lines(one: Document) -> Iterator[str]:
    for lesson in objects(one["tried"]):
        why = f" ({lesson['reason']})" if lesson["reason"] else ""
        yield _row(
            "tried before",
            f"{_day(lesson['at'])} {lesson['edit']}: {lesson['decision']}{why}, "
            f"{lesson['outcome']}",
        )
    for proposal in objects(one["proposals"]):
        yield _row("proposal", f"{proposal['id']} r{proposal['revision']} {proposal['state']}")
    for choice in objects(one["said"]):
        yield _row("said", choice_line(choice))
    handoff = one["handoff"]
    if isinstance(handoff, Mapping):
        yield _row("hand-off", handoff_standing(handoff))


def choice_line(one: Document) -> str:
    """One choice: who, when, what."""
    kind = one["kind"]
    what = {
        "merge": f"put {one['signature']} into {one.get('into')}",
        "split": f"keeps {one['signature']} out of {one.get('from')}",
        "rename": f"calls {one['signature']} “{one.get('title')}”",
        "close": f"closed {one['signature']}: {one.get('reason')}",
        "reopen": f"reopened {one['signature']}: {one.get('reason')}",
    }[str(kind)]
    return one_line(f"{one['id']}  {_day(one['at'])}  {one['by']} {what}")


def handoff_line(one: Document) -> str:
    """One hand-off in a list."""
    head = f"{one['finding']}  {one['where']}: {_text(one, 'title')}"
    return f"{head}\n  {handoff_standing(one)}"


def handoff_standing(one: Document) -> str:
    """Whether it is open, was sent, failed, or why it is closed."""
    if one["state"] == "closed":
        return f"closed {_day(one['closed_at'])}: {_closed_because(one['closed'])}"
    said = f"open since {_day(one['filed_at'])}"
    if one["problem"] is not None:
        return (
            f"{said}; NOT SENT at {_minute(one['tried_at'])} (round {one['tries']}): "
            f"{one_line(str(one['problem']))}"
        )
    if one["sent_at"] is not None:
        return f"{said}; sent {_minute(one['sent_at'])}"
    return f"{said}; not sent"


def _closed_because(closed: Json) -> str:
    if not isinstance(closed, Mapping):
        return "no reason was kept"
    if closed.get("reason") == "rate_fell":
        filed = closed["filed"]
        before = (
            f"{filed['units']} of {filed['units_total']}" if isinstance(filed, Mapping) else "?"
        )
        return (
            f"its rate fell, {closed['units']} of {closed['units_total']} after {before} "
            f"when it was filed (exact p {float(_num(closed, 'p')):.2g})"
        )
    return one_line(f"{closed.get('reason')}, by {closed.get('by')}")


def _row(name: str, text: str) -> str:
    return f"  {name:<{LEFT - 4}}{one_line(text)}"


def _text(one: Document, key: str) -> str:
    return one_line(str(one[key]))


def _num(one: Document, key: str) -> float:
    value = one.get(key)
    return float(value) if isinstance(value, int | float) else 0.0


def _strings(value: Json) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list | tuple) else []


def _day(value: Json) -> str:
    return str(value)[:10]


def _minute(value: Json) -> str:
    return f"{str(value)[:16]}Z"
