"""`tracemend cases add` and `list` on files and ledger for real."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from memory.cases import case_id, fingerprint
from nodes.casebook import read_casebook
from tests.case_worlds import CASES, HIDDEN, REFUND, SEALED, CaseWorld, case_world


@pytest.fixture
def world(tmp_path: Path, home: Path) -> Iterator[CaseWorld]:
    with case_world(tmp_path / "agent", home) as made:
        yield made


# add


def test_a_case_is_added_to_a_file_of_its_own_and_the_same_input_twice_is_one(
    world: CaseWorld,
) -> None:
    words = ("add", "--input", REFUND, "--assert", "contains=queued", "--assert", "not_empty")
    first = world.run(*words, "--issue", "tool_timeout:pay", "--tag", "guard")
    assert first.code == 0
    added = yaml.safe_load(world.text("cases/added.yaml"))
    assert added == [
        {
            "id": case_id(json.loads(REFUND)), "input": json.loads(REFUND), "tags": ["guard"],
            "issue": "tool_timeout:pay", "assert": [{"contains": "queued"}, {"not_empty": True}],
        }
    ]  # fmt: skip
    before = world.text("cases/added.yaml")
    again = world.run(*words)
    assert (again.code, again.out) == (
        0,
        f"there already: {added[0]['id']} (file:cases/added.yaml)\n",
    )
    other = world.run("add", "--input", REFUND, "--assert", "contains=sent")
    assert (other.code, "already, with other assertions: nothing was added" in other.err) == (
        2,
        True,
    )
    assert world.text("cases/added.yaml") == before


def test_adding_to_a_file_of_people_changes_nothing_else_in_it(world: CaseWorld) -> None:
    windows = CASES.replace("\n", "\r\n")
    world.write("cases/ours.yaml", windows)
    done = world.run(
        "add", "--input", REFUND, "--assert", "equals=42", "--file", "cases/ours.yaml"
    )  # fmt: skip
    assert done.code == 0
    text = world.text("cases/ours.yaml")
    assert text.startswith(windows)
    assert "\n" not in text.replace("\r\n", "")
    assert yaml.safe_load(text)[-1]["assert"] == [{"equals": 42}]


@pytest.mark.parametrize(
    "text",
    [
        f'{{"input": {REFUND}, "assert": [{{"not_empty": true}}]}}\n{{"input": "b", "assert": '
        '[{"contains": "x"}]}\n',
        f"- input: {REFUND}\n  assert: [{{not_empty: true}}]\n"
        "- input: b\n  assert: [{contains: x}]\n",
    ],
    ids=["lines", "yaml"],
)
def test_whole_cases_are_added_from_standard_input(world: CaseWorld, text: str) -> None:
    done = world.run("add", "--file", "cases/more.jsonl", stdin=text)
    assert (done.code, done.out) == (0, "added 2 cases to cases/more.jsonl\n")
    assert [case.input for case in read_casebook(world.ws).cases][:2] == [json.loads(REFUND), "b"]
    assert (
        world.run("add", "--file", "cases/more.jsonl", stdin=text).out.count("there already") == 2
    )


def test_an_input_comes_from_a_file_or_from_standard_input(
    world: CaseWorld, tmp_path: Path
) -> None:
    (tmp_path / "input.json").write_text(REFUND)
    words = ("add", "--assert", "not_empty", "--json", "--input")
    one = world.run(*words, f"@{tmp_path / 'input.json'}")
    document = json.loads(one.out)
    assert list(document)[:3] == ["schema", "project", "file"]
    assert document["schema"] == "tracemend.cases-add/1"
    assert document["added"] == [case_id(json.loads(REFUND))]
    two = json.loads(world.run(*words, "-", stdin=REFUND).out)
    assert (two["added"], two["known"]) == ([], document["added"])


MISTAKES = [
    (["--input", "Refund"], "--assert is missing"),
    (["--input", "Refund", "--assert", "not_empty"], "--input: not JSON; a text needs quotes"),
    (["--input", "1", "--assert", "contain=x"], "nearest known key is 'contains'"),
    (["--input", "1", "--assert", "max_seconds=soon"], "needs a number from 0 on, got 'soon'"),
    (["--input", "1", "--assert", "not_empty", "--tag", "seald"], "nearest known key is 'sealed'"),
    (["--input", "1", "--assert", "not_empty", "--file", "../x.yaml"], "reads cases/*.yaml"),
    (["--input", "1", "--assert", "not_empty", "--file", "cases/x.txt"], "name a .yaml or .jsonl"),
    (["--input", "@nowhere", "--assert", "not_empty"], "--input @nowhere: cannot be read"),
    (["--input", "1", "--assert", "not_empty", "--id", "c-parcel"], "taken by another input"),
    (["--from-traces", "3", "--input", "1"], "--from-traces makes its own cases"),
    (["--since", "7d"], "--since goes with --from-traces"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "said"), MISTAKES, ids=[said for _, said in MISTAKES])
def test_a_mistake_is_one_line_and_writes_nothing(
    world: CaseWorld, words: list[str], said: str
) -> None:
    done = world.run("add", *words)
    assert (done.code, said in done.err) == (2, True), done.err
    assert done.err.count("\n") == 1
    assert sorted(path.name for path in (world.ws.root / "cases").iterdir()) == ["ours.yaml"]


def test_a_new_case_near_a_sealed_one_says_that_it_costs_it(world: CaseWorld) -> None:
    world.write("cases/sealed.yaml", SEALED)
    near = json.dumps({"message": f"{HIDDEN}!"})
    done = world.run("add", "--input", near, "--assert", "not_empty")
    assert "1 sealed cases only train from now on: a new case is a near copy" in done.err
    assert HIDDEN not in done.err


def test_a_sealed_case_that_is_there_already_is_named_by_fingerprint(world: CaseWorld) -> None:
    world.write("cases/sealed.yaml", SEALED.replace("- {", "- {id: c-zebra, "))
    same = json.dumps({"message": HIDDEN})
    done = world.run("add", "--input", same, "--assert", "contains=queued")
    assert done.out.startswith("there already: sealed ")
    assert "zebra" not in done.out
    other = world.run("add", "--input", same, "--assert", "not_empty")
    assert "that input is a sealed case already" in other.err
    assert "zebra" not in other.err


# list and open


def test_a_list_shows_every_case_but_the_sealed_ones(world: CaseWorld) -> None:
    world.write("cases/sealed.yaml", SEALED.replace("- {", "- {id: c-zebra, "))
    done = world.run("list")
    assert [line.split()[:2] for line in done.out.splitlines()[:2]] == [
        ["c-parcel", "training"], ["c-cancel", "guard"],
    ]  # fmt: skip
    assert done.out.splitlines()[-1].startswith("2 cases, and 1 sealed in 1 families (epoch 1, ")
    for words in ((), ("--sealed",), ("--json",), ("--sealed", "--json"), ("--tag", "sealed")):
        shown = world.run("list", *words)
        assert "zebra" not in shown.out + shown.err
    (mark,) = [fingerprint(one) for one in read_casebook(world.ws).tagged("sealed")]
    assert world.run("list", "--sealed").out.startswith(f"{mark[:12]}  epoch 1  0 uses  sealed\n")
    assert world.json("list", "--sealed")["sealed"]["listed"][0]["fingerprint"] == mark
    tagged = world.json("list", "--tag", "guard")
    assert [one["id"] for one in tagged["cases"]] == ["c-cancel"]


def test_opening_a_sealed_case_shows_it_and_retires_it_in_one_step(world: CaseWorld) -> None:
    twin = SEALED.replace(HIDDEN, f"{HIDDEN}!")
    world.write("cases/sealed.yaml", SEALED + twin)
    first, second = read_casebook(world.ws).tagged("sealed")
    mark = fingerprint(first)
    asked = world.run("list", "--open", mark[:12])
    assert asked.code == 2
    assert "retires it for good: it only trains from now on. Say so with --yes" in asked.err
    assert HIDDEN not in asked.out + asked.err
    assert len(read_casebook(world.ws).tagged("sealed")) == 2
    opened = world.run("list", "--open", mark[:12], "--yes", "--as", "ann")
    assert yaml.safe_load(opened.out)[0]["input"] == {"message": HIDDEN}
    assert "retired, and 1 more of its family with it: opened by ann" in opened.err
    assert read_casebook(world.ws).tagged("sealed") == ()
    line = next(one for one in world.ws.ledger.sealed.listed() if one.fingerprint == mark)
    assert line.why == "opened by ann"
    again = world.run("list", "--open", mark[:12], "--yes")
    assert (again.code, "no sealed case has that fingerprint" in again.err) == (2, True)
    assert "give 6 digits" in world.run("list", "--open", mark[:3], "--yes").err
    del second
