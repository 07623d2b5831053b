"""What the TRAIL exporter writes: exact names, few, best first, without any label."""

import gzip
import json
from pathlib import Path

import pytest

from benchmarks import trail
from benchmarks.trail_counts import COUNTS
from benchmarks.trail_labels import annotations, folds, tasks
from benchmarks.trail_map import CAP, ROWS, WEIGHT, Row, confidence, count, rank, together
from benchmarks.trail_measure import measure
from benchmarks.trail_position import places, predicted
from benchmarks.trail_score import CATEGORIES
from contracts.json_types import Json
from contracts.traces import Trace
from tests.trace_worlds import root, shared, span, trace_of

FORMAT, GOAL = "Formatting Errors", "Goal Deviation"


def one_span(number: int, kind: str, name: str, **attributes: Json) -> dict[str, Json]:
    """A span as TRAIL records one; `__` in a keyword stands for a dot."""
    own = {key.replace("__", "."): value for key, value in attributes.items()}
    return {
        "span_id": f"{number:016x}",
        "span_name": name,
        "timestamp": f"2026-03-19T16:32:{number:02}Z",
        "duration": "PT0.5S",
        "status_code": "Ok",
        "span_attributes": {"openinference.span.kind": kind, **own},
        "child_spans": [],
    }


def recorded(trace_id: str) -> dict[str, Json]:
    """A trace as TRAIL records one: a tool that is called with a nameless argument and fails."""
    asked = "llm__output_messages__0__message__tool_calls__0__tool_call__function"
    listed = "- page_down: Scrolls.\n    Takes inputs: {}\n    Returns an output of type: string"
    call = one_span(2, "LLM", "chat", **{
        "llm__input_messages__0__message__role": "system",
        "llm__input_messages__0__message__content": listed,
        "llm__output_messages__0__message__role": "assistant",
        f"{asked}__name": "page_down",
        f"{asked}__arguments": '{"": ""}',
    })  # fmt: skip
    failed = one_span(3, "TOOL", "page_down", tool__name="page_down", input__value='{"": ""}')
    failed |= {"status_code": "Error", "status_message": "TypeError: unexpected argument ''"}
    top = one_span(1, "AGENT", "agent") | {"child_spans": [call, failed]}
    return {"trace_id": trace_id, "spans": [top]}


def test_plain_and_packed_files_are_read_and_predictions_written(tmp_path: Path) -> None:
    folder = tmp_path / "traces" / "deep"
    folder.mkdir(parents=True)
    one, two = f"{1:032x}", f"{2:032x}"
    (folder / f"{one}.json").write_text(json.dumps(recorded(one)))
    (folder / f"{two}.json.gz").write_bytes(gzip.compress(json.dumps(recorded(two)).encode()))
    out = tmp_path / "out.json"
    trail.main(["--traces", str(tmp_path / "traces"), "--out", str(out)])
    found = json.loads(out.read_text())
    assert sorted(found) == [one, two]
    for said in found.values():
        assert 0 < len(said) <= CAP
        assert [p["score"] for p in said] == sorted((p["score"] for p in said), reverse=True)
        assert {p["category"] for p in said} <= set(CATEGORIES)
        assert {"location": f"{2:016x}", "category": FORMAT} in [
            {key: p[key] for key in ("location", "category")} for p in said
        ]


def test_a_folder_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as stopped:
        trail.main(["--traces", str(tmp_path / "none"), "--out", str(tmp_path / "out.json")])
    assert stopped.value.code == 2


def test_every_row_speaks_trails_own_names_and_has_a_name_of_its_own() -> None:
    assert {name for row in ROWS for name in row.says} <= set(CATEGORIES)
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_shipped_counts_belong_to_rows() -> None:
    known = {row.name for row in ROWS} | {f"{row.name}|{n}" for row in ROWS for n in row.says}
    assert set(COUNTS) <= known
    assert all(0 <= hits <= seen for hits, seen in COUNTS.values())


def test_confidence_starts_at_the_level_and_moves_with_what_was_seen() -> None:
    assert confidence({}, "k", 0.25) == 0.25
    assert confidence({"k": (100, 100)}, "k", 0.25) == pytest.approx(
        (100 + WEIGHT / 4) / (100 + WEIGHT)
    )
    assert together([0.5]) == 0.5
    assert together([0.5, 0.5]) == pytest.approx(0.625)


def test_the_choice_prefers_new_spans_and_stops_at_the_cap() -> None:
    row = Row("x", "here", {FORMAT: 0.5, GOAL: 0.45})
    found = {f"s{n}": [row] for n in range(9)}
    first = [pair for pair, _ in rank(found, {}, cap=6)]
    assert len(first) == 6
    assert len({span for span, _ in first}) == 6
    assert {name for _, name in first} == {FORMAT}


def test_claims_are_counted_once_a_span() -> None:
    row = Row("x", "here", {FORMAT: 0.5})
    counts = count({"t": {("s1", FORMAT)}}, {"t": {"s1": [row], "s2": [row]}})
    assert counts == {"x@here": (1, 2), f"x@here|{FORMAT}": (1, 2)}


def test_annotations_with_a_comma_too_many_are_read(tmp_path: Path) -> None:
    text = '{"errors": [{"location": "s", "category": "Tool Selection"},], "scores": []}'
    (tmp_path / "t.json").write_text(text)
    assert annotations(tmp_path) == {"t": {("s", "Tool Selection Errors")}}


def test_traces_of_one_task_stay_in_one_fold() -> None:
    def asked(number: int, text: str) -> Trace:
        told: dict[str, Json] = {"llm__input_messages__0__message__role": "user",
                "llm__input_messages__0__message__content": text}  # fmt: skip
        return trace_of(root(trace=number), span(1, "LLM", "chat", trace=number, also=told))

    frame = "You are an expert. Answer the question. "
    texts = [frame + q for q in ("red kites in Rome", "red kites in Rome?", "blue whales, Bonn")]
    texts += [frame + f"topic number{n} place{n} thing{n}" for n in range(30)]
    found = tasks([asked(n, text) for n, text in enumerate(texts)])
    names = list(found.values())
    assert names[0] == names[1] != names[2]
    assert len(set(names)) == len(texts) - 1
    parts = folds(found)
    assert sorted(t for part in parts for t in part) == sorted(found)
    first, second = list(found)[:2]
    assert [first in part for part in parts] == [second in part for part in parts]


def test_the_position_model_sees_no_content() -> None:
    def trace(number: int, said: str) -> Trace:
        told: dict[str, Json] = {"llm__output_messages__0__message__content": said}
        calls = [span(n, "LLM", "chat", trace=number, also=told) for n in (1, 2, 3)]
        return trace_of(root(trace=number), *calls)

    where = {str(n): places(trace(n, "x" * n)) for n in range(4)}
    spans = [sorted(where[str(n)]) for n in range(4)]
    assert len({tuple(where[str(n)].values()) for n in range(4)}) == 1
    gold = {str(n): {(spans[n][2], FORMAT)} for n in range(3)}
    ((best, name), *_) = sorted(
        predicted(gold, ["3"], where)["3"], key=lambda p: p[0] != spans[3][2]
    )
    assert (best, name) == (spans[3][2], FORMAT)


def test_the_bars_hold_on_the_shared_traces(capsys: pytest.CaptureFixture[str]) -> None:
    folder = shared("data", "trail")
    measure(trail.measured(folder), repeats=2, rounds=20)
    said = capsys.readouterr().out
    figures = {line[:44].strip(): line[44:].split() for line in said.splitlines() if line[44:52]}
    rules = [float(x) for x in figures["rules, by task, 2 x 10 folds"]]
    position = [float(x) for x in figures["position and kind of span only, by task"]]
    pair, _, _, spans, categories, *rest = rules
    gaia_location, gaia_joint, _, _, swe_location, swe_joint, *_ = rest
    assert pair >= 0.38
    assert pair >= position[0] + 0.08
    assert spans >= 0.58
    assert categories >= 0.45
    assert gaia_location >= 0.70
    assert gaia_joint >= 0.45
    assert swe_location >= 0.50
    assert swe_joint >= 0.27
    crossed = [float(x) for x in figures["counted on the other subset only"]]
    assert min(crossed[8], crossed[12]) >= 0.30
    assert float(figures["without any framework's contract"][0]) >= 0.34
    assert float(figures["control: labels shuffled between traces"][0]) <= 0.20
    assert figures["check: the annotations themselves"][0] == "1.000"
    assert figures["check: nothing"][0] == "0.000"
    (sure,) = [line for line in said.splitlines() if line.startswith("  0.5 or more")]
    assert float(sure.split()[-1]) >= 0.5
