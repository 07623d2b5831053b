"""Field cases in Langfuse's rows: 03, 04, 14, 19 and 28, read as files and over HTTP."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from connectors.traces.files import FilesSource
from connectors.traces.langfuse.exports import OBSERVATIONS, page_links
from connectors.traces.langfuse.source import LangfuseSource
from contracts.errors import SourceError
from contracts.traces import Span, Trace, TraceId, TraceQuery
from nodes.insights.analyze import analyze
from tests.fakes.serving import Mishaps, serve
from tests.trace_worlds import FIELD_CASES, read_all

CASES = {
    "03": "03-streamed-usage-absent", "04": "04-empty-page-in-the-middle",
    "14": "14-ok-false-inside-200", "19": "19-a-pause-painted-red",
    "28": "28-expired-token-in-a-200",
}  # fmt: skip
V2 = "/api/public/v2/observations"


def folder(number: str) -> Path:
    return FIELD_CASES / CASES[number]


def expected(number: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder(number) / "expected.json").read_text())
    return found


def spans(number: str) -> dict[str, Span]:
    traces, report = read_all(folder(number) / "observations_v2.json")
    assert (report.format, report.status) == ("langfuse-observations", "complete")
    return {span.id: span for trace in traces for span in trace.spans}


def test_usage_of_a_streamed_answer_stays_unknown_beside_what_was_counted() -> None:
    found, told = spans("03"), expected("03")
    for key, tokens in told["span_tokens"].items():
        known = (found[key].input_tokens, found[key].output_tokens)
        assert known == ((tokens["prompt"], tokens["completion"]) if tokens else (None, None))
    for key, cost in told["span_cost"].items():
        assert found[key].cost_usd == (pytest.approx(cost) if cost is not None else None)
    costs = [span.cost_usd for span in found.values() if span.kind == "llm"]
    known_usd = sum(cost for cost in costs if cost is not None)
    assert known_usd == pytest.approx(told["trace_cost"]["known"])
    assert None in costs  # so whoever sums can say that it is a lower bound


@contextmanager
def replaying(pages: Path) -> Iterator[tuple[str, Mishaps]]:
    """A server that gives the recorded pages by the cursor that each was asked with."""
    answers = {}
    for path in sorted(pages.glob("page*.json")):
        document = json.loads(path.read_text())
        cursor = parse_qs(urlsplit(document["url"]).query).get("cursor", [""])[0]
        answers[cursor] = document["body"]

    def observations(request: Request) -> JSONResponse:
        return JSONResponse(answers[request.query_params.get("cursor", "")])

    def scores(_: Request) -> JSONResponse:
        return JSONResponse({"data": [], "meta": {"limit": 100}})

    app = Mishaps(Starlette(routes=[Route(V2, observations),
                                    Route("/api/public/v3/scores", scores)]))  # fmt: skip
    with serve(app) as url:
        yield url, app


def source(url: str) -> LangfuseSource:
    key = SecretStr("k")
    return LangfuseSource(base_url=url, public_key=key, secret_key=key, pending_waits_s=())


async def test_an_empty_page_in_the_middle_is_no_end() -> None:
    told = expected("04")
    trace_id = TraceId(told["findings"][0]["trace"])
    with replaying(folder("04") / "run_a") as (url, app):
        trace = await source(url).trace(trace_id)
        assert len(app.asked(V2)) == told["run_a"]["requests"]
        batches = [batch async for batch in source(url).window(TraceQuery())]
    assert len(trace.spans) == told["run_a"]["rows"]
    assert batches[-1].read.status == told["run_a"]["completeness"]
    failed = next(span for span in trace.spans if span.id == told["findings"][0]["span"])
    assert failed.output is not None
    assert failed.output.value == {"success": False, "error": "order is not paid"}


async def test_a_repeated_cursor_ends_the_read_and_marks_it_partial() -> None:
    told = expected("04")
    with replaying(folder("04") / "run_b") as (url, app):
        with pytest.raises(SourceError, match="gives the same cursor again"):
            await source(url).trace(TraceId(told["findings"][0]["trace"]))
        assert len(app.asked(V2)) <= told["run_b"]["requests_at_most"]
        batches = [batch async for batch in source(url).window(TraceQuery())]
    assert batches[-1].read.status == told["run_b"]["completeness"]


def test_saved_pages_say_which_of_them_are_missing() -> None:
    def links(run: str) -> list[tuple[str | None, str | None]]:
        paths = sorted((folder("04") / run).glob("page*.json"))
        documents = [json.loads(path.read_text()) for path in paths]
        assert all(OBSERVATIONS.takes(document) for document in documents)
        return [page_links(document) for document in documents]

    whole, stuck = links("run_a"), links("run_b")
    assert [asked for asked, _ in whole[1:]] == [following for _, following in whole[:-1]]
    assert whole[-1][1] is None
    assert stuck[-1][0] == stuck[-1][1] is not None


def test_saved_pages_with_a_gap_are_read_in_part() -> None:
    told = expected("04")
    _, whole = read_all(folder("04") / "run_a")
    assert (whole.status, whole.spans) == (told["run_a"]["completeness"], told["run_a"]["rows"])
    _, stuck = read_all(folder("04") / "run_b")
    assert (stuck.status, stuck.spans) == (told["run_b"]["completeness"], told["run_b"]["rows"])
    assert "leads to itself" in stuck.skipped[-1].why
    _, gap = read_all(folder("04") / "run_a" / "page1.json", folder("04") / "run_a" / "page3.json")
    assert gap.status == "partial"
    assert "the page that follows is not among the files" in gap.skipped[-1].why


def test_a_refusal_inside_a_200_keeps_all_that_a_detector_needs() -> None:
    told = expected("14")
    found = spans("14")
    for key in told["findings"][0]["evidence_spans"]:
        span = found[key]
        assert (span.kind, span.tool_name, span.status) == ("tool", "post_message", "unset")
        assert span.output is not None
        assert span.output.value == {"ok": False, "error": "channel_not_found"}
        assert span.input is not None
        assert span.input.value == {"channel": "#launch-eu", "text": "We ship at 15:00"}
    calls = [call for s in found.values() for m in s.messages_out for call in m.tool_calls]
    assert [name for _, name, _ in calls] == ["post_message"] * 3


async def test_refusals_inside_a_200_are_found_although_every_level_is_default() -> None:
    told = expected("14")["findings"][0]
    analysis = await analyze(
        FilesSource([folder("14") / "observations_v2.json"]), TraceQuery(), project="field"
    )
    hits = [s for s in analysis.symptoms if s.counts and s.span_id in told["evidence_spans"]]
    assert {s.kind for s in hits} <= {told["kind"], *told["kind_also_ok"]}
    (signature,) = {s.signature for s in hits}  # three equal calls, one finding
    assert signature.startswith("tool_error:post_message")


def test_a_pause_is_no_failure_and_a_failure_named_like_one_is() -> None:
    found, told = spans("19"), expected("19")
    for one in told["not_findings"]:
        assert found[one["span"]].status == "interrupted", one["why"]
    failed = found[told["findings"][0]["span"]]
    assert failed.status == "error"
    assert failed.error is not None
    assert failed.error.type == "PaymentGraphInterruptError"


async def test_only_the_real_failure_of_the_two_is_found() -> None:
    told = expected("19")
    analysis = await analyze(
        FilesSource([folder("19") / "observations_v2.json"]), TraceQuery(), project="field"
    )
    found = {(symptom.trace_id, symptom.span_id) for symptom in analysis.symptoms}
    assert (told["findings"][0]["trace"], told["findings"][0]["span"]) in found
    assert not {one["trace"] for one in told["not_findings"]} & {trace for trace, _ in found}


def test_a_login_that_ran_out_inside_a_200_keeps_its_words() -> None:
    told = expected("28")
    traces, _ = read_all(folder("28") / "observations_v2.json")
    for finding in told["findings"]:
        span = _span(traces, finding["trace"], finding["span"])
        assert (span.kind, span.tool_name, span.status) == ("tool", "search_page", "unset")
        assert span.output is not None
        assert "refused the authorization" in span.output.text


def _span(traces: list[Trace], trace_id: str, span_id: str) -> Span:
    return next(s for t in traces if t.id == trace_id for s in t.spans if s.id == span_id)
