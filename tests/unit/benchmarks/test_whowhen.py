"""The Who&When benchmark: its format, that it reads no label, that it answers alike each time."""

import gzip
import json
from pathlib import Path

import pytest

from benchmarks import whowhen
from benchmarks.fitting import splits
from benchmarks.weights import read_weights
from benchmarks.whowhen_facts import FACTS, facts_of
from benchmarks.whowhen_steps import log_of
from contracts.json_types import Json
from tests.chat_worlds import agent, person, talk
from tests.trace_worlds import shared

LABELS = ("mistake_agent", "mistake_step", "mistake_reason", "ground_truth", "level", "is_correct")


def message(speaker: str, text: str, role: str = "user") -> dict[str, Json]:
    return {"content": text, "name": speaker, "role": role}


CHAT: list[Json] = [
    message("Ann", "Plan: find the population of the town, then halve it.", "assistant"),
    message("Bob", "I assume that the town has 48211 people; that is a placeholder.", "assistant"),
    message("Code_executor", "exitcode: 1 (execution failed)\nCode output: Traceback"),
    message("Ann", "So half of it is 24105.", "assistant"),
    message("Bob", "The answer is **24105**. TERMINATE", "assistant"),
]
TEAM: list[Json] = [
    {"content": "Which shops are open?", "role": "human"},
    {"content": "Initial plan: ask the searcher.", "role": "Lead (thought)"},
    {"content": "Please search for shops.", "role": "Lead (-> Seeker)"},
    {"content": "Next speaker Seeker", "role": "Lead (thought)"},
    {"content": "I typed 'shops'. See https://x.example/?q=shops " + "list " * 300,
     "role": "Seeker"},
    {"content": 'Updated Ledger:\n{"is_request_satisfied": {"answer": false}, "is_in_loop": '
     '{"reason": "again", "answer": true}}', "role": "Lead (thought)"},
    {"content": "Request satisfied.", "role": "Lead (termination condition)"},
]  # fmt: skip


def write(folder: Path, name: str, history: list[Json], **labels: Json) -> None:
    path = folder / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"question": "How many?", "question_ID": name, "history": history, **labels}
    path.write_text(json.dumps(document))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, "chats/1", CHAT)
    write(tmp_path, "teams/1", TEAM)
    return tmp_path


def test_each_log_gets_an_agent_a_step_and_up_to_three_steps(folder: Path) -> None:
    found = whowhen.answers(folder)
    assert set(found) == {"chats/1", "teams/1"}
    for answer in found.values():
        assert set(answer) == {"agent", "step", "top"}
        top = answer["top"]
        assert isinstance(top, list)
        assert 1 <= len(top) <= 3
        assert top[0] == answer["step"]
    assert found["chats/1"]["agent"] in {"Ann", "Bob"}
    assert found["teams/1"]["agent"] in {"Lead", "Seeker"}


def test_the_command_writes_what_the_format_asks_for(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.json"
    monkeypatch.setattr("sys.argv", ["x", "--in", str(folder / "chats"), "--out", str(out)])
    whowhen.main()
    assert json.loads(out.read_text()) == {"1": whowhen.answers(folder)["chats/1"]}


def test_no_label_is_read(folder: Path, tmp_path: Path) -> None:
    plain = whowhen.answers(folder)
    labels: dict[str, Json] = dict.fromkeys(LABELS, "Bob")
    write(folder, "chats/1", CHAT, **{**labels, "mistake_step": "3"})
    assert whowhen.answers(folder) == plain


def test_labels_of_the_real_logs_change_nothing(tmp_path: Path) -> None:
    logs = sorted(shared("data", "whowhen").glob("*/*.json.gz"))[::12]
    before, after = tmp_path / "a", tmp_path / "b"
    for path in logs:
        document = json.loads(gzip.decompress(path.read_bytes()))
        kept = {key: document[key] for key in document.keys() & whowhen.KEYS}
        for where, value in ((before, document), (after, kept)):
            target = where / path.parent.name / path.name.removesuffix(".gz")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(json.dumps(value))
    assert whowhen.answers(before) == whowhen.answers(after)
    assert len(whowhen.answers(after)) == len(logs)


def test_packed_and_plain_logs_are_the_same(tmp_path: Path) -> None:
    write(tmp_path / "plain", "7", CHAT)
    packed = tmp_path / "packed" / "7.json.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress((tmp_path / "plain" / "7.json").read_bytes()))
    assert whowhen.answers(tmp_path / "plain") == whowhen.answers(tmp_path / "packed")


def test_agents_may_have_any_names(tmp_path: Path) -> None:
    renamed = json.loads(json.dumps(CHAT).replace("Ann", "Zed").replace("Bob", "Xi"))
    write(tmp_path / "a", "1", CHAT)
    write(tmp_path / "b", "1", renamed)
    one, two = whowhen.answers(tmp_path / "a")["1"], whowhen.answers(tmp_path / "b")["1"]
    assert one["top"] == two["top"]


def test_steps_are_told_apart_by_what_they_do(folder: Path) -> None:
    chat, team = whowhen.logs(folder)["chats/1"], whowhen.logs(folder)["teams/1"]
    assert [step.number for step in chat.steps if step.ran] == [2]
    assert [step.number for step in chat.candidates] == [0, 1, 3, 4]
    assert not chat.orchestrated
    assert team.orchestrated
    assert [step.number for step in team.steps if step.stuck] == [5]
    assert 3 not in [step.number for step in team.candidates]
    assert {step.speaker for step in team.steps} == {"Lead", "Seeker"}


def test_facts_say_what_a_step_has(folder: Path) -> None:
    rows = facts_of(whowhen.logs(folder)["chats/1"])
    made_up = rows[1]
    assert (made_up["g:made"], made_up["g:num1"], made_up["g:told"]) == (1, 1, 1)
    assert (made_up["g:err"], rows[0]["g:err"]) == (1, 0)
    assert rows[2]["g:after_err"] == 1
    assert {name.partition(":")[2] for row in rows for name in row} <= set(FACTS)


def test_a_log_of_one_agent_has_candidates_too() -> None:
    log = log_of(talk(person("hi"), agent("hello there")))
    assert len(log.candidates) == len(facts_of(log)) == 1


def test_the_weights_are_those_of_the_fit() -> None:
    items = whowhen.labelled(shared("data", "whowhen"))
    fitted = whowhen.fitted(items)
    shipped = read_weights(whowhen.TABLE)
    assert shipped.weights == pytest.approx(dict(fitted.weights), abs=0.02)


def test_unseen_questions_are_answered_above_the_bars() -> None:
    items = whowhen.labelled(shared("data", "whowhen"))
    rows = whowhen.cross_validated(items, repeats=1)
    second = [whowhen.second_step(one) for one in items]

    def mean(table: list[dict[str, float]], name: str) -> float:
        return sum(row[name] for row in table) / len(table)

    assert mean(rows, "step") >= 0.33
    assert mean(rows, "step") >= mean(second, "step") + 0.10
    assert mean(rows, "agent") >= 0.60
    assert mean(rows, "top-3") >= 0.55


def test_logs_of_one_question_are_judged_by_others() -> None:
    groups = ["a", "a", "b", "c", "d", "e"]
    for fit, judge in splits(groups, 3, 2):
        assert {groups[at] for at in fit}.isdisjoint(groups[at] for at in judge)
        assert sorted([*fit, *judge]) == list(range(len(groups)))
