"""The tau benchmark: its format, that it reads no verdict, that it answers alike each time."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import tau
from benchmarks.fitting import auc, folds, interval
from benchmarks.weights import read_weights
from contracts.json_types import Json
from tests.chat_worlds import Row, agent, call, person, rules
from tests.trace_worlds import shared

POLICY = rules("Before any action that changes the database, obtain the user's confirmation.")


def run(task: int, trial: int, *rows: Row, **verdict: Json) -> dict[str, Json]:
    return {"task_id": task, "trial": trial, "traj": [POLICY, *rows], **verdict}


SHORT = (person("hi"), agent("Hello! How can I help?"))
LONG = (
    person("Change my order"),
    *call("update_order", {"order": 7}, {"order": 7}),
    agent("That is $30 more, $50 in all, and $4 of tax."),
    person("oh"),
    *call("cancel_order", {"order": 8}, {"order": 8}),
    agent("Done."),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "runs.json").write_text(json.dumps([run(1, 0, *SHORT), run(1, 1, *LONG)]))
    return tmp_path


def test_each_run_gets_a_probability_under_its_task_and_trial(folder: Path) -> None:
    found = tau.answers(folder)
    assert set(found) == {"1-0", "1-1"}
    values = [answer["failed"] for answer in found.values()]
    assert all(isinstance(value, float) and 0 <= value <= 1 for value in values)


def test_more_changes_money_and_missing_consent_are_worse(folder: Path) -> None:
    found = tau.answers(folder)
    assert str(found["1-1"]["failed"]) > str(found["1-0"]["failed"])


def test_the_command_writes_the_answers(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.txt"
    monkeypatch.setattr("sys.argv", ["x", "--in", str(folder), "--out", str(out)])
    tau.main()
    assert json.loads(out.read_text()) == tau.answers(folder)


def test_no_verdict_is_read(folder: Path) -> None:
    plain = tau.answers(folder)
    verdict: dict[str, Json] = {"reward": 0.0, "info": {"task": {"actions": []}}}
    runs = [run(1, 0, *SHORT, **verdict), run(1, 1, *LONG, **verdict)]
    (folder / "runs.json").write_text(json.dumps(runs))
    assert tau.answers(folder) == plain


def test_verdicts_of_the_real_runs_change_nothing(tmp_path: Path) -> None:
    path = shared("data", "tau", "gpt-4o-airline.json.gz")
    runs: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))[::9]
    kept = [{key: one[key] for key in one.keys() & tau.KEYS} for one in runs]
    for name, value in (("a", runs), ("b", kept)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "runs.json").write_text(json.dumps(value))
    found = tau.answers(tmp_path / "a")
    assert found == tau.answers(tmp_path / "b")
    assert set(found) == {f"{one['task_id']}-{one['trial']}" for one in runs}


def test_two_files_with_the_same_run_are_two_runs(folder: Path) -> None:
    (folder / "more.json").write_text(json.dumps([run(1, 0, *SHORT)]))
    assert len(tau.answers(folder)) == 3


def test_passed_runs_raise_no_alarm_and_some_failed_ones_do() -> None:
    items = tau.judged(shared("data", "tau"))
    assert len(items) == 84
    alarms = [one for one in items if one.detected.failed]
    assert [one.run.name for one in alarms if not one.failed] == []
    consent = [
        one for one in items if any(s.kind == "unconfirmed_write" for s in one.detected.symptoms)
    ]
    assert len(consent) >= 6


def test_the_weights_are_those_of_the_fit() -> None:
    fitted = tau.fitted(tau.judged(shared("data", "tau")))
    assert read_weights(tau.TABLE).weights == pytest.approx(dict(fitted.weights), abs=0.02)


def test_an_area_is_the_share_of_pairs_in_order() -> None:
    assert auc([1, 2, 3, 4], [False, False, True, True]) == 1
    assert auc([4, 3, 2, 1], [False, False, True, True]) == 0
    assert auc([1, 1, 1, 1], [False, True, False, True]) == 0.5
    assert auc([1, 2], [True, True]) is None


def test_folds_keep_groups_whole_and_intervals_hold_the_figure() -> None:
    groups = list("aabbccdd")
    where = folds(groups, 2, seed=1)
    assert len({(g, f) for g, f in zip(groups, where, strict=True)}) == 4
    values = [0, 1, 1, 1, 0, 1, 1, 0]
    low, high = interval(groups, lambda at: sum(values[i] for i in at) / len(at), draws=200)
    assert low <= sum(values) / len(values) <= high
