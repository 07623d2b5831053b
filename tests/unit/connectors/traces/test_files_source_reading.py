import base64
import gzip
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import zstandard

from connectors.traces import passes
from connectors.traces.chunks import Chunk, TraceFile
from connectors.traces.files import FilesSource, read_spans
from connectors.traces.reading import Reading
from contracts.errors import SourceError, UsageError
from contracts.json_types import Json
from contracts.traces import TraceId, TraceQuery
from tests.trace_worlds import FIELD_CASES, drain, line, read_all, root, span, tool, trace_id


class CountedPasses:
    """The real pass over all pieces, counted."""

    def __init__(self) -> None:
        self.count = 0
        self._real = passes._chunks

    def __call__(
        self, what: Iterable[TraceFile], note: Reading, *, tells: bool
    ) -> Iterator[tuple[TraceFile, Chunk]]:
        self.count += 1
        return self._real(what, note, tells=tells)


def test_hex_and_base64_parts_of_one_run_are_one_trace() -> None:
    traces, report = read_all(FIELD_CASES / "01-ids-in-base64")
    expected = json.loads((FIELD_CASES / "01-ids-in-base64" / "expected.json").read_text())
    (trace,) = traces
    assert trace.id == expected["trace_id"]
    assert {s.id: s.parent_id for s in trace.spans[1:]} == expected["parents"]
    assert trace.root.id == expected["root"]
    assert not any(s.virtual for s in trace.spans)
    assert sum(s.input_tokens or 0 for s in trace.spans) == expected["tokens"]["prompt"]
    assert (report.spans, report.orphans, report.status) == (4, 0, "complete")


def test_tokens_are_counted_at_leaf_model_calls_only() -> None:
    traces, _ = read_all(FIELD_CASES / "02-tokens-on-agent-and-llm")
    expected = json.loads((FIELD_CASES / "02-tokens-on-agent-and-llm/expected.json").read_text())
    counted = [s for s in traces[0].spans if s.input_tokens is not None]
    assert {s.id for s in counted} == set(expected["counted_spans"])
    assert sum(s.input_tokens or 0 for s in counted) == expected["tokens"]["prompt"]
    assert sum(s.output_tokens or 0 for s in counted) == expected["tokens"]["completion"]


def test_snake_case_with_nulls_reads_like_camel_case(tmp_path: Path) -> None:
    snake = {
        "resource_spans": [{"scope_spans": [{"spans": [{
            "trace_id": trace_id(0), "span_id": "00000000000000aa", "parent_span_id": None,
            "name": "call", "start_time_unix_nano": 1795510800000000000,
            "end_time_unix_nano": "1795510801000000000",
            "status": {"code": "STATUS_CODE_ERROR", "message": "KeyError: 'x'"},
            "attributes": [
                {"key": "llm.token_count.prompt",
                 "value": {"string_value": None, "int_value": "7"}},
                {"key": "openinference.span.kind", "value": {"string_value": "LLM"}},
            ],
        }]}]}]
    }  # fmt: skip
    path = tmp_path / "snake.json"
    path.write_text(json.dumps(snake, indent=2))
    (trace,), report = read_all(path)
    assert (trace.root.kind, trace.root.status, trace.root.input_tokens) == ("llm", "error", 7)
    assert trace.root.error is not None
    assert trace.root.error.type == "KeyError"
    assert report.format == "otlp-json"


@pytest.mark.parametrize(
    ("attributes", "kind", "model", "tokens"),
    [
        ({"gen_ai__operation__name": "chat", "gen_ai__response__model": "m",
          "gen_ai__usage__input_tokens": 3}, "llm", "m", 3),
        ({"gen_ai__request__model": "m", "gen_ai__usage__prompt_tokens": 4}, "llm", "m", 4),
        ({"gen_ai__operation__name": "execute_tool"}, "tool", None, None),
        ({"openinference__span__kind": "RERANKER", "gen_ai__operation__name": "chat"},
         "retriever", None, None),
    ],
)  # fmt: skip
def test_conventions_are_read_in_their_order(
    attributes: dict[str, Json], kind: str, model: str | None, tokens: int | None,
    tmp_path: Path,
) -> None:  # fmt: skip
    recorded = span(0, "", "step", parent=None, also=attributes)
    path = tmp_path / "a.jsonl"
    path.write_bytes(line([recorded]))
    (trace,), _ = read_all(path)
    found = trace.root
    assert (found.kind, found.model, found.input_tokens) == (kind, model, tokens)


def test_messages_of_every_convention_are_the_same(tmp_path: Path) -> None:
    parts: Json = [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]
    call: Json = {"type": "tool_call", "id": "c1", "name": "pay", "arguments": {"id": 1}}
    styles: list[dict[str, Json]] = [
        {"llm__input_messages__0__message__role": "user",
         "llm__input_messages__0__message__content": "hi",
         "llm__output_messages__0__message__role": "assistant",
         "llm__output_messages__0__message__tool_calls__0__tool_call__id": "c1",
         "llm__output_messages__0__message__tool_calls__0__tool_call__function__name": "pay",
         "llm__output_messages__0__message__tool_calls__0__tool_call__function__arguments":
             '{"id":1}'},
        {"gen_ai__input__messages": parts,
         "gen_ai__output__messages": [{"role": "assistant", "parts": [call]}]},
        {"gen_ai__prompt__0__role": "user", "gen_ai__prompt__0__content": "hi",
         "gen_ai__completion__0__role": "assistant",
         "gen_ai__completion__0__tool_calls__0__id": "c1",
         "gen_ai__completion__0__tool_calls__0__name": "pay",
         "gen_ai__completion__0__tool_calls__0__arguments": '{"id":1}'},
    ]  # fmt: skip
    seen = []
    for number, style in enumerate(styles):
        path = tmp_path / f"{number}.jsonl"
        path.write_bytes(line([span(0, "LLM", "chat", parent=None, also=style)]))
        (trace,), _ = read_all(path)
        seen.append((trace.root.messages_in, trace.root.messages_out))
    assert seen[0][0][0].content == "hi"
    assert seen[0][1][0].tool_calls == (("c1", "pay", '{"id":1}'),)
    assert seen[1] == seen[0]
    assert seen[2] == seen[0]


def test_a_trace_spread_over_files_and_lines_is_joined(tmp_path: Path) -> None:
    first = [root(trace=0), tool(1, "a", {}, "x", trace=0)]
    (tmp_path / "1.jsonl").write_bytes(line(first[:1]) + line([root(trace=1)]))
    with gzip.open(tmp_path / "2.jsonl.gz", "wb") as out:
        out.write(line(first[1:]))
    (tmp_path / "3.jsonl.zst").write_bytes(
        zstandard.compress(line([tool(2, "b", {}, "x", trace=0)]))
    )
    traces, report = read_all(tmp_path)
    assert sorted(len(t.spans) for t in traces) == [1, 3]
    assert (report.traces, report.spans, report.orphans) == (2, 4, 0)


def test_own_runs_are_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    marked = root(trace=2, also={"tracemend__run_id": "b1"})
    path.write_bytes(
        line([root(trace=0)])
        + line([root(trace=1)], deployment__environment__name="tracemend-gate")
        + line([marked])
    )
    traces, report = read_all(path)
    assert [t.id for t in traces] == [trace_id(0)]
    assert report.excluded_own == 2
    assert report.spans == 1


def test_the_probe_reads_its_own_run(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(line([root()], deployment__environment__name="tracemend-gate"))
    trace = read_spans(path)
    assert trace is not None
    assert trace.own
    assert read_spans(tmp_path / "none.jsonl") is None


def test_time_cuts_by_the_first_span_with_an_open_end(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"".join(line([root(trace=n)]) for n in range(2)))
    begin = datetime.fromtimestamp(1_795_510_800, UTC)
    inside = TraceQuery(start=begin, end=begin + timedelta(seconds=1))
    before = TraceQuery(end=begin)
    assert len(read_all(path, query=inside)[0]) == 2
    assert read_all(path, query=before)[0] == []


def test_a_torn_line_loses_nothing_before_it(tmp_path: Path) -> None:
    path = tmp_path / "torn.jsonl"
    whole = line([root(trace=0)])
    torn = line([root(trace=1), tool(1, "a", {}, "x", trace=1)])[:-60]
    path.write_bytes(whole + torn)
    traces, report = read_all(path)
    assert {t.id for t in traces} == {trace_id(0), trace_id(1)}
    assert report.status == "partial"
    assert report.skipped[0].why == "line 2: the JSON breaks off; 1 spans of it were read"


def test_a_torn_document_keeps_its_whole_spans(tmp_path: Path) -> None:
    child = {"span_id": "00000000000000b2", "trace_id": trace_id(0), "span_name": "child"}
    tree = {
        "trace_id": trace_id(0),
        "spans": [{"span_id": "00000000000000b1", "trace_id": trace_id(0), "span_name": "root",
                   "child_spans": [child, child | {"span_id": "00000000000000b3"}]}],
    }  # fmt: skip
    path = tmp_path / "torn.json"
    path.write_text(json.dumps(tree, indent=1)[:-40])
    traces, report = read_all(path)
    assert [s.name for s in traces[0].spans] == ["root", "child"]
    assert report.status == "partial"
    assert "breaks off" in report.skipped[0].why


def test_torn_gzip_is_partial_and_keeps_whole_lines(tmp_path: Path) -> None:
    noise = "".join(chr(33 + (i * 7919) % 90) for i in range(60_000))
    data = gzip.compress(line([root(trace=0)]) + line([root(noise, trace=1)]))
    (tmp_path / "t.jsonl.gz").write_bytes(data[: len(data) - 200])
    traces, report = read_all(tmp_path)
    assert trace_id(0) in {t.id for t in traces}
    assert report.status == "partial"
    assert any("compressed data breaks off" in s.why for s in report.skipped)


def test_bytes_that_are_not_utf8_are_replaced_and_the_span_kept(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(line([root("caf?", trace=0)]).replace(b"caf?", b"caf\xe9"))
    (trace,), report = read_all(path)
    assert trace.root.input is not None
    assert trace.root.input.text == "caf\ufffd"
    assert trace.root.attributes["tracemend.invalid_utf8"] is True
    assert "not UTF-8" in report.skipped[0].why
    assert report.status == "complete"


def test_a_huge_span_is_capped_and_marked(tmp_path: Path) -> None:
    path = tmp_path / "huge.jsonl"
    path.write_bytes(line([root("x" * 5_000_000)]))
    (trace,), report = read_all(path)
    payload = trace.root.input
    assert payload is not None
    assert (payload.truncated, payload.size_bytes) == (True, 5_000_000)
    assert len(payload.text) == 256 << 10
    assert report.truncated == 1


@pytest.mark.parametrize("late", [True, False])
def test_of_duplicates_the_newest_stays(late: bool, tmp_path: Path) -> None:
    path = tmp_path / "dup.jsonl"
    records = [line([root(answer="done", seconds=3)]), line([root(answer=None, seconds=None)])]
    path.write_bytes(b"".join(reversed(records) if late else records))
    (trace,), report = read_all(path)
    assert trace.root.ended_at is not None
    assert (report.spans, report.duplicates) == (2, 1)


def test_orphans_hang_under_a_virtual_root_with_the_request(tmp_path: Path) -> None:
    path = tmp_path / "orphan.jsonl"
    path.write_bytes(line([root("the request"), tool(2, "late", {}, "x", parent=99)]))
    (trace,), report = read_all(path)
    assert trace.root.virtual
    assert trace.root.input is not None
    assert trace.root.input.text == "the request"
    assert {s.parent_id for s in trace.spans[1:]} == {trace.root.id}
    assert (report.orphans, report.spans) == (1, 2)


def test_a_cycle_is_cut_at_its_earliest_span(tmp_path: Path) -> None:
    path = tmp_path / "cycle.jsonl"
    late = span(1, "TOOL", "late", parent=2, at=5)
    early = span(2, "TOOL", "early", parent=1, at=3)
    path.write_bytes(line([late, early]))
    (trace,), _ = read_all(path)
    assert [s.name for s in trace.spans] == ["early", "early", "late"]
    assert trace.orphans == 1


def test_a_pause_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "pause.jsonl"
    paused = span(1, "CHAIN", "ask", error=("langgraph.errors.GraphInterrupt", "(Interrupt(...),)"))
    path.write_bytes(line([root(), paused]))
    (trace,), _ = read_all(path)
    assert trace.spans[1].status == "interrupted"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"t\.jsonl: empty"),
        (b"hello", r"t\.jsonl: no known format: not JSON"),
        (b'{"a": 1}', r"t\.jsonl: no known format: no spans in it"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_usage_error(
    content: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        read_all(path)


def test_a_missing_path_and_an_empty_glob_are_usage_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file or folder"):
        read_all(tmp_path / "none")
    with pytest.raises(UsageError, match="no file matches"):
        read_all(str(tmp_path / "*.jsonl"))
    with pytest.raises(UsageError, match="nothing to read"):
        read_all(tmp_path)


def test_unknown_files_beside_known_ones_are_skipped_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(line([root()]))
    (tmp_path / "notes.md").write_text("# notes")
    (tmp_path / "empty.json").touch()
    _, report = read_all(tmp_path)
    assert {Path(s.path).name: s.why for s in report.skipped} == {
        "notes.md": "no known format: not JSON",
        "empty.json": "empty",
    }
    assert report.status == "complete"


async def test_more_waiting_spans_than_memory_allows_take_more_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = CountedPasses()
    monkeypatch.setattr("connectors.traces.passes._chunks", passes)
    path = tmp_path / "t.jsonl"
    roots = [line([root("x" * 2000, trace=n)]) for n in range(12)]
    tools = [line([tool(1, "a", {}, "x", trace=n)]) for n in range(12)]
    path.write_bytes(b"".join(roots + tools))
    source = FilesSource([path], max_waiting_bytes=8_000, batch_traces=3)
    traces, report = await drain(source, TraceQuery())
    assert sorted(t.id for t in traces) == [trace_id(n) for n in range(12)]
    assert all(len(t.spans) == 2 for t in traces)
    assert (report.traces, report.spans) == (12, 24)
    assert passes.count > 1


async def test_one_trace_is_found_by_id_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(line([root(trace=0)]) + line([root(trace=1), tool(1, "a", {}, "x", trace=1)]))
    source = FilesSource([path])
    assert len((await source.trace(TraceId(trace_id(1)))).spans) == 2
    with pytest.raises(SourceError, match="no trace 'nope'"):
        await source.trace(TraceId("nope"))


def test_ids_in_base64_and_hex_are_one_id(tmp_path: Path) -> None:
    hex_span = root()
    coded = dict(tool(1, "a", {}, "x"))
    for key in ("traceId", "spanId", "parentSpanId"):
        coded[key] = base64.b64encode(bytes.fromhex(str(coded[key]))).decode()
    path = tmp_path / "mixed.jsonl"
    path.write_bytes(line([hex_span]) + line([coded]))
    (trace,), _ = read_all(path)
    assert trace.spans[1].parent_id == trace.root.id
