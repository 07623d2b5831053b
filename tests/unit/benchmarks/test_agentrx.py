"""The AgentRx benchmark and the tables of categories."""

import gzip
import json
from pathlib import Path

from benchmarks import agentrx
from benchmarks.agentrx_map import ADHERENCE, CATEGORIES, SYSTEM, TO_AGENTRX, plain
from benchmarks.mast_map import FROM_MAST
from configs.taxonomy import taxonomy
from contracts.json_types import Json
from tests.chat_worlds import Row, agent, call, person, rules
from tests.trace_worlds import shared
from tests.unit.benchmarks.test_whowhen import TEAM


def answers(folder: Path, document: Json) -> dict[str, dict[str, Json]]:
    folder.mkdir(exist_ok=True)
    (folder / "x.json").write_text(json.dumps(document))
    return agentrx.answers(folder)


def test_the_step_before_the_first_stall_is_named_from_one(tmp_path: Path) -> None:
    found = answers(tmp_path, TEAM)
    assert found["x"]["step"] == 5
    assert found["x"]["agent"] == "Seeker"
    assert found["x"]["category"] in CATEGORIES


def test_a_talk_fails_where_a_symptom_counts(tmp_path: Path) -> None:
    rows: list[Row] = [
        rules("Before any change to the database, obtain the user's confirmation."),
        person("I do not like order 7."), *call("cancel_order", {"order": 7}, {"order": 7}),
        agent("It is gone."),
    ]  # fmt: skip
    found = answers(tmp_path, [{"task_id": 4, "trial": 0, "traj": [*rows]}])
    assert found == {"4": {"agent": "Assistant", "step": 3, "category": ADHERENCE}}


def test_without_symptoms_the_last_change_is_named(tmp_path: Path) -> None:
    rows: list[Row] = [person("Cancel 7"), agent("Shall I?"), person("yes"),
                       *call("cancel_order", {"order": 7}, {"order": 7}),
                       agent("Done. Is there anything else that I can do?")]  # fmt: skip
    found = answers(tmp_path, {"task_id": 4, "traj": [*rows]})
    assert found["4"]["step"] == 4


def test_labels_are_not_read(tmp_path: Path) -> None:
    source = shared("data", "agentrx", "magentic_one")
    logs = sorted(source.glob("*.json.gz"))[:4]
    for path in logs:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    plain_answers = agentrx.answers(tmp_path)
    truth = json.loads((source.parent / "magentic_one_ground_truth.json").read_text())
    (tmp_path / "magentic_one_ground_truth.json").write_text(json.dumps(truth))
    assert agentrx.answers(tmp_path) == plain_answers
    assert len(plain_answers) == len(logs)


def test_every_real_run_is_answered() -> None:
    folder = shared("data", "agentrx")
    found = agentrx.answers(folder)
    runs = json.loads(gzip.decompress((folder / "tau_dataset_full.json.gz").read_bytes()))
    assert {str(one["task_id"]) for one in runs} <= set(found)
    assert sum(name.startswith("magentic_one/") for name in found) == 30


def test_every_kind_of_the_table_is_one_of_ours() -> None:
    kinds = set(taxonomy().kinds)
    assert set(TO_AGENTRX) <= kinds
    assert set(TO_AGENTRX.values()) <= set(CATEGORIES)
    assert {kind for row in FROM_MAST.values() for kind in row} <= kinds


def test_every_kind_but_opinions_has_a_category() -> None:
    missing = set(taxonomy().kinds) - set(TO_AGENTRX)
    assert missing <= {"low_score", "unrecorded_output", "listed_letters"}


def test_mast_has_fourteen_modes() -> None:
    assert len(FROM_MAST) == 14
    assert [name.split()[0] for name in FROM_MAST] == [
        *(f"1.{n}" for n in range(1, 6)), *(f"2.{n}" for n in range(1, 7)),
        *(f"3.{n}" for n in range(1, 4)),
    ]  # fmt: skip


def test_the_annotators_spellings_are_one() -> None:
    assert plain("Instruction Adherence Failure") == plain(ADHERENCE)
    assert plain("Intent Plan Misalignment") == plain("Intent-Plan Misalignment")
    assert plain("Intent not supported") == plain("Intent Not Supported")
    assert plain(SYSTEM) != plain(ADHERENCE)
