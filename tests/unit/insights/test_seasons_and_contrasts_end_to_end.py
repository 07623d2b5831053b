"""From recorded spans to findings: seasons are no news, and a new prompt is named as the cause."""

import asyncio
import random
from collections.abc import Sequence

import pytest

from contracts.json_types import Json
from contracts.traces import Trace, TraceQuery
from graph.cli.listing import analysis_lines
from nodes.insights.analyze import Analysis, analyze
from nodes.insights.report import analysis_json
from tests.trace_worlds import SECOND, MemorySource, OtlpSpan, root, span, tool, trace_of

HOUR = 3_600
DAY = 24 * HOUR
DENIED = ("PolicyError", "the refund desk denied this request")


def at(number: int, seconds: float, spans: Sequence[OtlpSpan]) -> Trace:
    """The spans of one trace, moved to a moment after START."""
    moved = int(seconds) * SECOND
    for one in spans:
        for key in ("startTimeUnixNano", "endTimeUnixNano"):
            one[key] = str(int(str(one[key])) + moved)
    return trace_of(*spans)


def run(
    number: int, seconds: float, *, fails: bool, version: str = "13", release: str = "1.3"
) -> Trace:
    """A refund run with a managed prompt; it fails or pays."""
    marks: dict[str, Json] = {"service.version": release}
    prompt: dict[str, Json] = {"prompt.name": "refund", "prompt.version": version}
    paid = (None, DENIED) if fails else ({"paid": number}, None)
    return at(number, seconds, [
        root(f"refund {number}", trace=number, also=marks),
        span(1, "LLM", "ask", trace=number, also=prompt),
        tool(2, "pay", {"n": number}, paid[0], trace=number, error=paid[1]),
    ])  # fmt: skip


def analysed(now: Sequence[Trace], before: Sequence[Trace]) -> Analysis:
    baseline = (MemorySource(before), TraceQuery())
    return asyncio.run(analyze(MemorySource(now), TraceQuery(), project="p", baseline=baseline))


def week(chance: random.Random, *, night_share: float, per_hour: int) -> list[Trace]:
    """Seven days: of the runs at night (the first six hours) a share fails, by day almost none."""
    traces: list[Trace] = []
    for hour in range(7 * 24):
        night = hour % 24 < 6
        for _ in range(per_hour):
            fails = chance.random() < (night_share if night else 0.01)
            traces.append(run(len(traces), hour * HOUR + chance.randrange(HOUR), fails=fails))
    return traces


def one_night(chance: random.Random, share: float, start: int) -> list[Trace]:
    """The first six hours of the next week."""
    return [
        run(start + n, 7 * DAY + n * 6 * HOUR // 120, fails=chance.random() < share)
        for n in range(120)
    ]


def test_a_night_that_fails_as_every_night_does_is_no_news() -> None:
    chance = random.Random(3)  # noqa: S311  (a simulation)
    before = week(chance, night_share=0.3, per_hour=6)
    (found,) = analysed(one_night(chance, 0.3, 5_000), before).findings
    assert found.change == "same"
    pooled = found.units / found.units_total
    assert found.baseline_units is not None
    assert found.baseline_total is not None
    assert pooled > 2 * found.baseline_units / found.baseline_total
    assert "matched by hour" in found.reasons[1]


def test_a_night_that_fails_more_than_other_nights_is_risen() -> None:
    chance = random.Random(4)  # noqa: S311  (a simulation)
    before = week(chance, night_share=0.2, per_hour=6)
    (found,) = analysed(one_night(chance, 0.6, 5_000), before).findings
    assert (found.change, found.actionable) == ("risen", True)


@pytest.fixture(scope="module")
def prompted() -> Analysis:
    """A new prompt version, with a release of its own, after which nine in ten runs fail."""
    chance = random.Random(5)  # noqa: S311  (a simulation)
    now = [run(n, n * 300, fails=False) for n in range(200)]
    now += [
        run(200 + n, (200 + n) * 300, fails=chance.random() < 0.9, version="14", release="1.4")
        for n in range(25)
    ]
    return analysed(now, [run(1_000 + n, n * 300 - 2 * DAY, fails=False) for n in range(200)])


def test_a_new_prompt_version_is_named_with_the_release_it_came_with(prompted: Analysis) -> None:
    (found,) = prompted.findings
    first = found.contrasts[0]
    assert (first.factor, first.value) == ("prompt", "refund v14")
    assert first.sentence.startswith("only since prompt refund v14 (")
    assert first.sentence.endswith("always together with release 1.4")
    assert first.failing == (found.units, found.units)


def test_contrasts_stand_in_the_text_and_in_the_document(prompted: Analysis) -> None:
    assert any("only since prompt refund v14" in line for line in analysis_lines(prompted))
    document = analysis_json(prompted)
    findings = document["findings"]
    assert isinstance(findings, list)
    assert isinstance(findings[0], dict)
    assert str(findings[0]["contrasts"]).count("only since prompt refund v14") == 1
    assert document["counted"] == {"one_in": 1, "various_signatures": 0, "various_units": 0}


def test_a_hostile_version_is_cleaned_before_it_is_told() -> None:
    odd = "14\u202e\x1b[31m sk-" + "a1B2" * 8
    now = [run(n, n * 300, fails=False) for n in range(100)]
    now += [run(200 + n, n * 300, fails=True, version=odd) for n in range(12)]
    told = str(analysed(now, now[:50]).findings[0].contrasts)
    assert "refund" in told
    assert "\u202e" not in told
    assert "\x1b" not in told
    assert "a1B2a1B2" not in told
