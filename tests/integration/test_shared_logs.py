"""Every log of steps in the shared data, read whole, where it is at hand."""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import pytest

from connectors.traces import atif, chat_logs, inspect_logs, swe_agent
from connectors.traces.raw import NO_TIMES
from contracts.json_types import Json
from contracts.traces import Trace
from tests.step_logs import Format, texts, traces_in
from tests.trace_worlds import read_all, shared

FORMATS = cast("tuple[Format, ...]", (atif, inspect_logs, swe_agent, chat_logs))


def read(paths: Iterable[Path]) -> list[Trace]:
    return [trace for path in sorted(paths) for trace in traces_in(path, FORMATS)]


def kinds(traces: Iterable[Trace]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for trace in traces:
        for span in trace.spans:
            counted[span.kind] = counted.get(span.kind, 0) + 1
    return counted


@pytest.mark.parametrize(
    ("pattern", "runs", "spans"),
    [
        ("tau/gpt-4o-airline.json.gz", 84, {"agent": 84, "llm": 1042, "tool": 495}),
        ("tau/*few_shot.jsonl.gz", 88, {"agent": 88, "llm": 1165, "tool": 584}),
        ("agentrx/tau_dataset_full.json.gz", 46, {"agent": 46, "llm": 651, "tool": 354}),
        ("agentrx/magentic_one/*.json.gz", 30, {"agent": 30, "llm": 1416, "tool": 7}),
        ("whowhen/Hand-Crafted/*.json.gz", 30, {"agent": 30, "llm": 1416, "tool": 7}),
        ("whowhen/Algorithm-Generated/*.json.gz", 69, {"agent": 69, "llm": 429, "tool": 162}),
        ("codetracer/*/trajectory.json.gz", 46, {"agent": 46, "llm": 1925, "tool": 1027}),
        ("sweagent/*.traj.gz", 22, {"agent": 22, "llm": 232, "tool": 232}),
    ],
)
def test_every_run_is_read_with_all_its_steps(
    pattern: str, runs: int, spans: dict[str, int]
) -> None:
    traces = read(shared("data").glob(pattern))
    assert len({trace.id for trace in traces}) == len(traces) == runs
    assert kinds(traces) == spans
    assert all(trace.orphans == 0 for trace in traces)
    assert all(trace.root.input is not None for trace in traces)


@pytest.mark.parametrize(
    ("folder", "format_", "runs", "spans"),
    [
        ("tau", "chat-log", 172, 3458),
        ("agentrx/magentic_one", "chat-log", 30, 1453),
        ("whowhen", "chat-log", 99, 2113),
        ("codetracer", "atif", 46, 2998),
        ("sweagent", "swe-agent", 22, 486),
        ("inspect", "inspect", 41, 114),  # 43 samples, two of which are in two files
    ],
)
def test_a_folder_is_read_whole_by_its_format(
    folder: str, format_: str, runs: int, spans: int
) -> None:
    traces, report = read_all(shared("data", folder))
    assert (report.format, report.status, report.orphans) == (format_, "complete", 0)
    assert (len(traces), report.traces, report.spans) == (runs, runs, spans)


def test_every_inspect_log_is_read() -> None:
    folder = shared("data", "inspect")
    by_file = {path.name: traces_in(path, FORMATS) for path in sorted(folder.glob("*.*"))
               if path.suffix in (".gz", ".eval")}  # fmt: skip
    assert len(by_file) == 19
    traces = [trace for held in by_file.values() for trace in held]
    assert (len(traces), kinds(traces)) == (43, {"agent": 43, "llm": 51, "tool": 20})
    assert [name for name, held in by_file.items() if not held] == [
        "analysis__test_logs__2025-05-12T20-28-13-04-00_no-samples.json.gz"
    ]
    assert sum(bool(trace.scores) for trace in traces) == 32
    untimed = [
        name for name, held in by_file.items() for t in held if NO_TIMES in t.root.attributes
    ]
    assert untimed == []


def test_one_sample_in_a_log_and_in_its_archive_is_one_trace() -> None:
    folder = shared("data", "inspect")
    (plain,) = traces_in(folder / "log__test_eval_log__log_formats.json.gz", FORMATS)
    (packed,) = traces_in(folder / "log__test_eval_log__log_formats.eval", FORMATS)
    assert plain.id == packed.id
    assert plain.spans[1:] == packed.spans[1:]  # only the log names the task


def document(path: Path) -> Json:
    value: Json = json.loads(gzip.decompress(path.read_bytes()))
    return value


def test_no_verdict_on_a_group_chat_is_in_its_trace() -> None:
    for path in shared("data", "whowhen").glob("*/*.json.gz"):
        told = document(path)
        (trace,) = traces_in(path, FORMATS)
        held = texts(trace)
        assert isinstance(told, dict)
        said = json.dumps([told["history"], told.get("system_prompt"), told["question"]])
        for key in ("mistake_reason", "ground_truth"):
            verdict = str(told[key])
            if len(verdict) > 12 and json.dumps(verdict)[1:-1] not in said:
                assert verdict not in held
        assert all(not name.startswith(("mistake", "is_corr")) for span in trace.spans
                   for name in span.attributes)  # fmt: skip


def test_no_verdict_on_a_tau_run_is_in_its_trace() -> None:
    path = shared("data", "tau") / "gpt-4o-airline.json.gz"
    runs = document(path)
    assert isinstance(runs, list)
    for run, trace in zip(runs, traces_in(path, FORMATS), strict=True):
        assert isinstance(run, dict)
        info = run["info"]
        assert isinstance(info, dict)
        task = info["task"]
        assert isinstance(task, dict)
        held = texts(trace)
        assert str(task["instruction"]) not in held
        assert "gt_data_hash" not in held
        assert "reward" not in {key for span in trace.spans for key in span.attributes}
        assert trace.scores == ()


def test_no_target_of_a_sample_is_in_its_trace() -> None:
    path = (
        shared("data", "inspect")
        / "analysis__test_logs__2025-05-12T20-28-26-04-00_security-guide.json.gz"
    )
    log = document(path)
    assert isinstance(log, dict)
    samples = log["samples"]
    assert isinstance(samples, list)
    for sample, trace in zip(samples, traces_in(path, FORMATS), strict=True):
        assert isinstance(sample, dict)
        assert str(sample["target"]) not in texts(trace)
        assert len(trace.spans) == 2  # the grader's call is no step of the run
