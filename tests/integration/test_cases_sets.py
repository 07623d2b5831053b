"""`tracemend cases split, stats, check, import, export` on files and ledger for real."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from contracts.gate import CaseId
from memory.cases import case_id, fingerprint
from nodes.casebook import members, read_casebook
from tests.case_worlds import CASES, HIDDEN, SEALED, CaseWorld, case_world, many, mined
from tests.finding_worlds import found, keep
from tests.ledger_worlds import waiting


@pytest.fixture
def world(tmp_path: Path, home: Path) -> Iterator[CaseWorld]:
    with case_world(tmp_path / "agent", home) as made:
        yield made


# split


def test_a_split_tags_cases_in_their_files_and_enters_them_in_the_manifest(
    world: CaseWorld,
) -> None:
    world.write("cases/many.yaml", "# first\n" + many(20) + "# last\n")
    world.write("cases/b.jsonl", '{"input": "quite alone", "assert": [{"not_empty": true}]}\n')
    before = world.text("cases/many.yaml")
    dry = world.run("split", "--dry-run", "--seed", "5")
    assert dry.out.startswith("would seal 11 cases in 11 families\n")
    assert world.text("cases/many.yaml") == before
    done = world.json("split", "--seed", "5")
    assert (done["families"], done["sealed_before"], done["free"]) == (11, 0, 11)
    now = world.text("cases/many.yaml")
    assert now.replace("[sealed]", "[training]") == before
    sealed = read_casebook(world.ws).tagged("sealed")
    assert len(sealed) == 11
    listed = world.ws.ledger.sealed.listed()
    assert {line.fingerprint for line in listed} == {one.fingerprint for one in members(sealed)}
    again = world.run("split", "--seed", "5")
    assert again.out.startswith("nothing to seal: that share is sealed already")
    assert world.text("cases/many.yaml") == now
    assert "c-cancel" in {one.id for one in read_casebook(world.ws).tagged("guard")}


def test_what_an_editor_saw_is_never_sealed(world: CaseWorld) -> None:
    """Targets, cases of a finding that had a proposal, and runs that a finding quotes."""
    ledger = world.ws.ledger
    drafted = waiting(ledger).finding_id
    fresh = found("tool_error:pay:500")
    keep(ledger, fresh)
    with ledger.db.write() as tx:
        ledger.knowledge.put_cases(
            tx, drafted, [mined("aardvark", "target"), mined("bumblebee", "training")]
        )
        ledger.knowledge.put_cases(
            tx, fresh.id,
            [
                mined("chinchilla", "target"), mined("dromedary", "training"),
                mined("elephant", "training", origin="trace:t1"),
            ],
        )  # fmt: skip
    near = "- {input: {message: 'bumblebee bumblebee bumblebees'}, assert: [{not_empty: true}]}\n"
    world.write("cases/near.yaml", near)
    done = world.json("split", "--share", "1")
    sealed = {str(case.input) for case in read_casebook(world.ws).tagged("sealed")}
    assert {text[13:22] for text in sealed} == {"Where is ", "dromedary"}
    assert (done["families"], done["shown"]) == (2, 4)
    assert world.text("cases/near.yaml") == near
    assert [tag for _, tag, case in ledger.knowledge.mined() if "dromedary" in str(case)] == [
        "sealed"
    ]


def test_a_retired_case_is_not_sealed_again(world: CaseWorld) -> None:
    world.run("split", "--share", "1")
    (case,) = read_casebook(world.ws).tagged("sealed")
    world.run("list", "--open", fingerprint(case), "--yes")
    world.write("cases/ours.yaml", CASES)
    done = world.json("split", "--share", "1")
    assert (done["families"], done["shown"]) == (0, 1)


def test_a_file_that_cannot_be_retagged_safely_stops_the_split(world: CaseWorld) -> None:
    text = "- &a {input: twice, assert: [{not_empty: true}]}\n- {<<: *a, input: other thing}\n"
    world.write("cases/odd.yaml", text)
    done = world.run("split", "--share", "1")
    assert (done.code, "odd.yaml: written in a way" in done.err) == (2, True), done.err
    assert world.text("cases/odd.yaml") == text


# stats and check


def test_stats_count_what_is_sealed_and_used(world: CaseWorld) -> None:
    world.write("cases/many.yaml", many(38, "sealed"))
    done = world.run("stats")
    assert done.out.splitlines()[0] == (
        "38 sealed cases can show that an edit loses no more than 21 of 100; 88 more would show 10"
        " of 100"
    )
    ledger = world.ws.ledger
    with ledger.db.write() as tx:
        for one in members(read_casebook(world.ws).tagged("sealed")):
            ledger.sealed.used(tx, "hash-1", one)
    document = world.json("stats")
    assert (document["uses"], document["level"], document["sealed"]) == (1, 0.005, 38)
    assert (document["margin"], document["more"], document["assumed"]) == (0.23, 111, True)
    assert document["row"][2] == {"discordance": 0.1, "margin_05": 0.16, "margin_01": 0.21}
    assert document["line"] == world.run("stats").out.splitlines()[0]


def test_a_check_of_good_cases_is_clean(world: CaseWorld) -> None:
    done = world.run("check")
    assert (done.code, done.out) == (0, "2 cases, 0 problems, 0 remarks\n")


def test_a_check_names_every_broken_entry_not_the_first_alone(world: CaseWorld) -> None:
    world.write("cases/bad.yaml", "- {input: a}\n- {input: b, assert: [{contain: x}]}\n")
    world.write("cases/ugly.yaml", "- input: {country: no}\n  assert: [{not_empty: }]\n")
    world.write(
        "cases/z.jsonl", '{"id": "c-parcel", "input": 1, "assert": [{"not_empty": true}]}\n'
    )
    done = world.run("check")
    assert done.code == 2
    assert done.out.splitlines() == [
        "BAD cases/bad.yaml[0].assert: missing",
        "BAD cases/bad.yaml[1].assert[0]: unknown key 'contain', nearest known key is 'contains'",
        "BAD cases/ugly.yaml:1: YAML reads 'no' as false: put it in quotes, or write `false`",
        "BAD cases/z.jsonl[0].id: 'c-parcel' is taken by cases/ours.yaml[0]",
        "0 cases, 4 problems, 0 remarks",
    ]


def test_a_check_finds_copies_leaks_and_judges_without_a_model(world: CaseWorld) -> None:
    world.write("cases/sealed.yaml", SEALED)
    world.write(
        "cases/more.yaml",
        '- {id: c-twin, input: {message: "Where is my parcel?"}, assert: [{contains: queued}]}\n'
        "- {id: c-weak, input: weak one, assert: [{not_contains: x}]}\n"
        '- {id: c-asked, input: asked one, assert: [{judge: {question: "Polite?"}}]}\n',
    )
    (world.ws.root / "instructions/main.md").write_text(f"Never speak of a {HIDDEN}.\n")
    done = world.json("check", code=2)
    assert not done["ok"]
    problems = {one["where"]: one["what"] for one in done["problems"]}
    assert problems["c-parcel"] == "the same case as c-twin; take one out"
    assert problems["c-asked"] == (
        "judge (assertion 1): no model; set gate.judge.model, or name one"
    )
    (mark,) = [fingerprint(one) for one in read_casebook(world.ws).tagged("sealed")]
    assert "its input stands in the harness" in problems[f"sealed {mark[:12]}"]
    assert [one["where"] for one in done["remarks"]] == ["c-weak"]
    assert "zebra" not in json.dumps(done)


# import and export


def test_cases_go_out_to_a_file_and_come_in_again_once(world: CaseWorld, tmp_path: Path) -> None:
    world.write("cases/sealed.yaml", SEALED)
    with world.ws.ledger.db.write() as tx:
        world.ws.ledger.knowledge.put_cases(tx, "f-1", [mined("aardvark", "target")])
    for name in ("out.yaml", "out.jsonl"):
        out = tmp_path / name
        done = world.run("export", str(out))
        assert done.out.startswith(f"wrote 3 cases to {out}; 0 were there already\n1 sealed")
        assert HIDDEN not in out.read_text()
        again = world.json("export", str(out))
        assert (again["added"], again["known"], again["held_back"]) == (0, 3, 1)
        both = world.run("export", str(out), "--sealed")
        assert "keep it from whoever drafts edits" in both.err
        assert HIDDEN in out.read_text()
    with case_world(tmp_path / "other", Path(os.environ["TRACEMEND_HOME"] + "2")) as other:
        os.environ["TRACEMEND_HOME"] += "2"
        assert other.run("import", str(tmp_path / "out.yaml")).code == 0
        once = other.text("cases/added.yaml")
        assert other.run("import", str(tmp_path / "out.jsonl")).code == 0
        assert other.text("cases/added.yaml") == once
        assert len(other.ws.ledger.sealed.listed()) == 0
        assert len(read_casebook(other.ws).tagged("sealed")) == 1


def test_items_of_a_dataset_become_cases_and_what_cannot_be_one_is_named(
    world: CaseWorld, tmp_path: Path
) -> None:
    items = [
        {"id": "i1", "input": {"message": "one"}, "expected": "yes"},
        {"id": "i2", "input": {"message": "two"}},
    ]
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    done = world.run("import", str(tmp_path / "items.jsonl"), "--tag", "guard")
    assert done.code == 0
    assert done.out.startswith("added c-")
    assert "refused: i2: " in done.out
    assert yaml.safe_load(world.text("cases/added.yaml"))[0]["tags"] == ["guard"]


def test_an_import_from_nowhere_is_one_line(world: CaseWorld) -> None:
    done = world.run("import", "nothing.yaml")
    assert (done.code, done.err) == (2, "tracemend: nothing.yaml: there is no such file\n")
    assert world.run("export", "cases.txt").code == 2
    assert world.run("export", "x.yaml", "--tag", "sealed").code == 2


def test_the_casebook_seals_nothing_whose_input_was_mined_from_a_failing_run(
    world: CaseWorld,
) -> None:
    """Under one id as well: the file says sealed, an editor saw the same words."""
    world.write("cases/sealed.yaml", SEALED)
    seen = replace(
        mined("x", "training"), id=case_id({"message": HIDDEN}), input={"message": HIDDEN}
    )
    with world.ws.ledger.db.write() as tx:
        world.ws.ledger.knowledge.put_cases(tx, "f-1", [seen])
    assert read_casebook(world.ws).tagged("sealed") == ()
    assert CaseId(seen.id) in {case.id for case in read_casebook(world.ws).tagged("training")}
