"""Recordings are standard OTLP JSON lines, declared where shifted, and leave nothing behind."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import langchain_core.callbacks
import pytest
from opentelemetry import trace

from examples.refund_agent.back_office import STORMY
from examples.refund_agent.record import SHIFT_ATTRIBUTE, record, shift_times
from examples.refund_agent.requests import Request, generate
from examples.refund_agent.tracing import recording

REPO = Path(__file__).parents[3] / "examples" / "refund_agent" / "repo"
WEEK_S = 7 * 24 * 3600.0

Attributes = dict[str, str]


def values(attributes: list[dict[str, dict[str, object]]]) -> Attributes:
    return {str(a["key"]): str(next(iter(a["value"].values()))) for a in attributes}


def traces(path: Path) -> Iterator[tuple[Attributes, list[dict[str, object]]]]:
    """Resource attributes and spans of each line."""
    for line in path.read_text().splitlines():
        for resource in json.loads(line)["resourceSpans"]:
            spans = [span for scope in resource["scopeSpans"] for span in scope["spans"]]
            yield values(resource["resource"]["attributes"]), spans


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("recorded") / "traces.jsonl"
    record(generate(6, 3), REPO, out, weather=STORMY, seed=1, environment="staging")
    return out


def test_every_request_is_one_whole_trace_under_one_agent_span(recorded: Path) -> None:
    seen = list(traces(recorded))
    assert len(seen) == 6
    for (resource, spans), request in zip(seen, generate(6, 3), strict=True):
        roots = [s for s in spans if not s.get("parentSpanId")]
        assert len(roots) == 1
        assert len({s["traceId"] for s in spans}) == 1
        assert {str(s["parentSpanId"]) for s in spans if s.get("parentSpanId")} <= {
            str(s["spanId"]) for s in spans
        }
        root = values(roots[0]["attributes"])  # type: ignore[arg-type]
        assert json.loads(root["input.value"]) == request.input
        assert root["openinference.span.kind"] == "AGENT"
        assert root["session.id"] == request.session
        assert root["output.value"]
        assert resource["deployment.environment.name"] == "staging"
        assert SHIFT_ATTRIBUTE not in resource


def test_ids_are_hexadecimal(recorded: Path) -> None:
    for _, spans in traces(recorded):
        assert all(re.fullmatch(r"[0-9a-f]{32}", str(s["traceId"])) for s in spans)
        assert all(re.fullmatch(r"[0-9a-f]{16}", str(s["spanId"])) for s in spans)


def test_model_calls_carry_tokens_and_cost(recorded: Path) -> None:
    calls = [
        found
        for _, spans in traces(recorded)
        for s in spans
        if (found := values(s["attributes"]))["openinference.span.kind"] == "LLM"  # type: ignore[arg-type]
    ]
    assert calls
    for call in calls:
        assert int(call["llm.token_count.prompt"]) > 500
        assert float(call["llm.cost.total"]) > 0
        assert call["llm.model_name"] == "offline-simulator-1"


def test_a_tool_that_raises_is_an_error_span_with_its_status(tmp_path: Path) -> None:
    out = tmp_path / "traces.jsonl"
    summary = record(generate(30, 3), REPO, out, weather=STORMY, seed=1)
    failed = [
        str(s["status"]["message"])  # type: ignore[index]
        for _, spans in traces(out)
        for s in spans
        if s["name"] == "payment_api" and s["status"].get("code") == 2  # type: ignore[attr-defined]
    ]
    assert failed
    assert all("HTTP 504 Gateway Timeout" in message for message in failed)
    assert summary.crashed == 0
    assert summary.usage.cost_usd is not None


def test_a_shift_moves_every_time_by_the_declared_constant_and_nothing_else(
    recorded: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "moved.jsonl"
    moved.write_bytes(recorded.read_bytes())
    shift_times(moved, -round(WEEK_S * 1e9))
    times = re.compile(r'("(?:startTime|endTime|time)UnixNano":)"(\d+)"')
    before, after = recorded.read_text(), moved.read_text()
    assert times.sub(r"\1", before) == times.sub(r"\1", after)
    shifts = {
        int(new[1]) - int(old[1])
        for old, new in zip(times.findall(before), times.findall(after), strict=True)
    }
    assert shifts == {-round(WEEK_S * 1e9)}


def test_a_shifted_recording_says_so_in_its_resource(tmp_path: Path) -> None:
    out = tmp_path / "traces.jsonl"
    done: list[tuple[int, int]] = []
    record(
        generate(2, 1),
        REPO,
        out,
        weather=STORMY,
        seed=1,
        time_shift_s=-WEEK_S,
        progress=lambda i, n: done.append((i, n)),
    )
    assert {float(resource[SHIFT_ATTRIBUTE]) for resource, _ in traces(out)} == {-WEEK_S}
    assert done == [(1, 2), (2, 2)]
    assert [p.name for p in tmp_path.iterdir()] == ["traces.jsonl"]


def test_recording_leaves_no_global_tracing_behind(tmp_path: Path) -> None:
    init = langchain_core.callbacks.BaseCallbackManager.__init__
    provider = trace.get_tracer_provider()
    for name in ("a", "b"):
        record(generate(1, 1), REPO, tmp_path / name, weather=STORMY, seed=1)
        assert len(list(traces(tmp_path / name))) == 1
    assert langchain_core.callbacks.BaseCallbackManager.__init__ is init
    assert trace.get_tracer_provider() is provider


def test_two_recordings_at_once_are_refused(tmp_path: Path) -> None:
    with recording(tmp_path / "a", {}), pytest.raises(RuntimeError, match="cannot overlap"):
        record(generate(1, 1), REPO, tmp_path / "b", weather=STORMY, seed=1)


def test_a_crash_ends_one_run_and_is_told(tmp_path: Path) -> None:
    out = tmp_path / "traces.jsonl"
    broken = [*generate(1, 1), _WithoutMessage(message="", customer="", session="s")]
    summary = record(broken, REPO, out, weather=STORMY, seed=1)
    assert (summary.runs, summary.crashed) == (2, 1)
    assert summary.first_crash == "KeyError: 'message'"
    assert summary.usage.cost_usd is None
    assert [r["code"] for r in _root_status(out)] == [1, 2]


def _root_status(path: Path) -> list[dict[str, object]]:
    return [
        span["status"]  # type: ignore[misc]
        for _, spans in traces(path)
        for span in spans
        if not span.get("parentSpanId")
    ]


class _WithoutMessage(Request):
    """A request that the agent cannot read."""

    @property
    def input(self) -> dict[str, str]:
        return {}
