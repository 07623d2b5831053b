"""Playbook files are read strictly: a mistake names the file, the key and the nearest known key."""

from importlib import resources
from pathlib import Path

import pytest

from configs.playbooks import fill, load_playbooks, parse_playbook
from configs.taxonomy import taxonomy
from contracts.errors import ConfigError
from contracts.findings import TEXT_REMEDIES

GOOD = """id: own-note
when: {cause: tool_timeout, remedy: [instructions]}
needs: {tool: evidence.tool, times: 2}
why: Because of {tool}.
edit:
  - {op: insert_after, file: "{instructions}", text: "Call {tool} {times} times, as {{json}}."}
"""


def test_the_packaged_playbooks_are_read() -> None:
    names = [book.id for book in load_playbooks()]
    folder = resources.files("configs").joinpath("playbooks")
    files = sorted(f.name for f in folder.iterdir() if f.name.endswith(".yaml"))
    assert [f"{name}.yaml" for name in names] == files
    assert {"tool-timeout-retry", "argument-format", "prerequisite-step"} < set(names)


def test_each_cause_that_text_can_mend_has_a_playbook_for_it() -> None:
    served = {(book.when.cause, remedy) for book in load_playbooks() for remedy in book.when.remedy}
    without = [
        name
        for name, cause in taxonomy().causes.items()
        if (wanted := TEXT_REMEDIES.intersection(cause.remedies))
        and not any((name, remedy) in served for remedy in wanted)
    ]
    assert without == []


def test_each_playbook_is_for_a_cause_that_the_taxonomy_knows() -> None:
    assert {book.when.cause for book in load_playbooks()} <= set(taxonomy().causes)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("why:", "wy:", "wy: unknown key; did you mean 'why'? (own.yaml)"),
        ("text:", "tetx:", "edit.0.tetx: unknown key; did you mean 'text'? (own.yaml)"),
        ("cause:", "casue:", "when.casue: unknown key; did you mean 'cause'? (own.yaml)"),
        ("why: Because of {tool}.\n", "", "why: missing; add it (own.yaml)"),
        ("{times} times", "{tims} times", "{tims} is not in `needs` (own.yaml)"),
        ("{{json}}", "{json", "single '{' in"),
        ("file:", "path:", "edit.0: insert_after needs `file`, not `path` (own.yaml)"),
        ("insert_after", "replace", "edit.0: replace needs `anchor` (own.yaml)"),
        ("insert_after", "delete", "edit.0.op: Input should be 'replace', 'insert_after'"),
        ("own-note", "Own Note", "id: String should match pattern"),
        ("[instructions]", "[tool]", "when.remedy.0: Input should be 'skill' or 'instructions'"),
        ("why:", "where: {tool: '['}\nwhy:", "where.tool: no regular expression"),
        ("id: own-note", "id: [", "own.yaml: not YAML (line"),
        (GOOD, "- a\n", "own.yaml: needs keys such as id, when, needs, edit"),
    ],
)
def test_a_mistake_in_a_playbook_is_named(old: str, new: str, problem: str) -> None:
    assert old in GOOD
    with pytest.raises(ConfigError) as raised:
        parse_playbook(GOOD.replace(old, new, 1), "own.yaml")
    assert problem in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_operators_playbook_takes_the_place_of_a_packaged_one(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(GOOD.replace("own-note", "argument-format"))
    (book,) = [b for b in load_playbooks([tmp_path]) if b.id == "argument-format"]
    assert book.why == "Because of {tool}."


def test_an_id_twice_and_a_folder_that_is_none_are_errors(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD)
    (tmp_path / "b.yaml").write_text(GOOD)
    with pytest.raises(ConfigError, match=r"id: 'own-note' is there twice \(b\.yaml\)"):
        load_playbooks([tmp_path])
    with pytest.raises(ConfigError, match=r"playbooks: '.*missing' is no folder"):
        load_playbooks([tmp_path / "missing"])
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.yaml").write_text(GOOD)
    with pytest.raises(ConfigError, match="playbooks: id 'own-note' is in two folders"):
        load_playbooks([tmp_path / "one", tmp_path / "two"])


def test_filling_happens_once_and_reads_no_attribute() -> None:
    assert fill("{a} {{a}} {b}", {"a": "{b}", "b": "x"}) == "{b} {a} x"
    with pytest.raises(KeyError):
        fill("{a}", {})
    assert fill("{a.__class__}", {"a": "x"}) == "{a.__class__}"
