"""Real traces of the shared data, where they are at hand."""

import asyncio

from connectors.traces.files import FilesSource
from contracts.traces import TraceQuery
from nodes.insights.analyze import analyze
from tests.trace_worlds import read_all, shared


def test_every_trace_is_read_in_full() -> None:
    traces, report = read_all(shared("data", "trail", "traces"))
    assert (len(traces), report.traces, report.spans) == (77, 77, 2082)
    assert (report.status, report.skipped, report.format) == ("complete", (), "openinference-json")
    assert (report.orphans, report.duplicates) == (7, 1)


def test_findings_name_traces_and_spans_that_exist() -> None:
    folder = shared("data", "trail", "traces")
    spans = {(t.id, s.id) for t in read_all(folder)[0] for s in t.spans}
    found = asyncio.run(analyze(FilesSource([folder]), TraceQuery(), project="adhoc"))
    assert found.units_total == 77
    assert {(s.trace_id, s.span_id) for s in found.symptoms} <= spans
    assert {place for f in found.findings for place in f.exemplars} <= spans
    worst = found.findings[0]
    assert worst.signature == "tool_error:page_down:TypeError"
    assert worst.units == 10
    assert worst.diagnosis.cause == "wrong_argument_format"


def test_flat_spans_without_a_tree_are_read_too() -> None:
    traces, report = read_all(str(shared("data", "otelfault")) + "/*.otel.json.gz")
    assert (report.traces, report.spans, report.status) == (12, 72, "complete")
    assert all("fault.injected" not in s.attributes for t in traces for s in t.spans)
