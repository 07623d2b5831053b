"""Case files: what they may hold, what is wrong in them, and which cases stay sealed."""

import json
from pathlib import Path

import pytest

from contracts.errors import ConfigError
from contracts.gate import Case, CaseId, CaseTag
from memory.cases import case_id, fingerprint, keep_apart, load_cases

GOOD = """
- id: c-refund-504
  input: {message: "Refund order A-1042"}
  tags: [sealed, critical]
  family: refunds
  assert:
    - no_symptom: "tool_timeout:payment_api"
    - tool_called: {name: queue_refund}
- input: {message: "Where is my parcel?"}
  assert: [{contains: parcel}]
"""


def write(root: Path, text: str, name: str = "cases/a.yaml") -> None:
    path = root / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def test_cases_are_read_from_yaml_and_from_json_lines(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    write(tmp_path, json.dumps({"input": "hi \u2028", "assert": [{"not_empty": True}]}) + "\n\n",
          "cases/b.jsonl")  # fmt: skip
    first, second, third = load_cases(tmp_path, ["cases/*.yaml", "cases/*.jsonl"])
    assert (first.id, first.family, first.origin) == (
        "c-refund-504",
        "refunds",
        "file:cases/a.yaml",
    )
    assert first.tags == {"sealed", "critical"}
    assert not first.weak
    assert second.id == case_id({"message": "Where is my parcel?"})
    assert second.id.startswith("c-")
    assert second.tags == {"training"}
    assert second.family.startswith("fam-")
    assert third.input == "hi \u2028"


def test_a_case_graded_by_absence_alone_is_weak(tmp_path: Path) -> None:
    write(tmp_path, "- {input: a, assert: [{no_symptom: x}, {max_seconds: 3}]}")
    assert load_cases(tmp_path, ["cases/*"])[0].weak


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "- {input: a, asert: []}",
            r"cases/a\.yaml\[0\]: unknown key 'asert', nearest .* 'assert'",
        ),
        ("- {input: a}", r"cases/a\.yaml\[0\]\.assert: missing"),
        ("- {assert: [{not_empty: true}]}", r"\[0\]\.input: missing"),
        ("- {input: a, assert: []}", r"\[0\]\.assert: needs a list with at least one"),
        (
            "- {input: a, assert: [{contain: b}]}",
            r"\[0\]\.assert\[0\]: unknown key 'contain', .* 'contains'",
        ),
        ("- {input: a, assert: [{contains: 3}]}", r"assert\[0\]: `contains`: needs a text, got 3"),
        ("- {input: a, assert: [{regex: '('}]}", r"`regex`: not a pattern"),
        ("- {input: a, assert: [{json_schema: {type: 3}}]}", r"`json_schema`: not a JSON Schema"),
        (
            "- {input: a, assert: [{number: {valu: 3}}]}",
            r"`number`: unknown key 'valu', .* 'value'",
        ),
        ("- {input: a, assert: [{tool_order: [a]}]}", r"needs a list of at least two tool names"),
        ("- {input: a, assert: [{python: queued}]}", r"`python`: needs a dotted function"),
        ("- {input: a, assert: [{python: {function: 3}}]}", r"`python`: needs `function`"),
        ("- {input: a, assert: [{judge: {q: b}}]}", r"`judge`: unknown key 'q', .* 'question'"),
        (
            "- {input: a, tags: [sealled], assert: [{not_empty: }]}",
            r"tags: unknown key 'sealled', .* 'sealed'",
        ),
        (
            "- {input: 2026-01-05, assert: [{not_empty: }]}",
            r"cases/a\.yaml:1: YAML reads '2026-01-05' as a date: put it in quotes",
        ),
        ("- {input: {a: .nan}, assert: [{not_empty: }]}", r"input\.a: nan is not a JSON number"),
        ("- {input: {1: b}, assert: [{not_empty: }]}", r"input: key 1 is not a text"),
        ("- {id: 7, input: a, assert: [{not_empty: }]}", r"\[0\]\.id: needs a text"),
        (
            "- input: {country: NO}\n  assert: [{not_empty: }]",
            r"cases/a\.yaml:1: YAML reads 'NO' as false: put it in quotes, or write `false`",
        ),
        (
            "- input: a\n  assert:\n    - contains: yes",
            r"cases/a\.yaml:3: YAML reads 'yes' as true",
        ),
        (
            "- {input: {at: 12:30}, assert: [{not_empty: }]}",
            r"a\.yaml:1: YAML reads '12:30' as the number 750: put it in quotes",
        ),
        ("- {id: 007, input: a, assert: [{not_empty: }]}", r"reads '007' as the number 7: put"),
        ("- {input: 1_0.5, assert: [{not_empty: }]}", r"reads '1_0\.5' as the number 10\.5: put"),
        (
            "- input: a\n  assert: [{not_empty: }]\n  input: b",
            r"cases/a\.yaml:3: key 'input' is there twice",
        ),
        ("- {input: &a [*a], assert: [{not_empty: }]}", r"holds itself"),
        ("- {input: " + 150 * "[" + 150 * "]" + ", assert: [{not_empty: }]}", r"nested too deeply"),
        (
            "- &a0 [x, x, x, x, x, x, x, x, x, x]\n"
            + "".join(f"- &a{i} [{10 * f'*a{i - 1}, '}]\n" for i in range(1, 9)),
            r"cases/a\.yaml: its aliases stand for more than 10000000 values",
        ),
        ("- {input: =, assert: [{not_empty: }]}", r"a\.yaml:1: not YAML"),
        ("a: b", r"needs a list of cases, got dict"),
        ("- [", r"cases/a\.yaml:\d+: not YAML"),
        ("- text", r"\[0\]: needs an object"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_file_place_and_nearest_key(
    tmp_path: Path, text: str, message: str
) -> None:
    write(tmp_path, text)
    with pytest.raises(ConfigError, match=message):
        load_cases(tmp_path, ["cases/*"])


def test_an_id_taken_twice_names_both_places(tmp_path: Path) -> None:
    line = '{"id": "c-1", "input": "a", "assert": [{"not_empty": true}]}\n'
    write(tmp_path, line * 2, "cases/b.jsonl")
    with pytest.raises(
        ConfigError, match=r"b\.jsonl\[1\]\.id: 'c-1' is taken by cases/b\.jsonl\[0\]"
    ):
        load_cases(tmp_path, ["cases/*.jsonl"])


def test_a_file_that_is_no_text_or_no_json_says_so(tmp_path: Path) -> None:
    write(tmp_path, '{"input": 1, "input": 2, "assert": []}', "cases/b.jsonl")
    with pytest.raises(ConfigError, match=r"jsonl:1: not JSON: key 'input' is there twice"):
        load_cases(tmp_path, ["cases/*"])
    write(tmp_path, "{]", "cases/b.jsonl")
    with pytest.raises(ConfigError, match=r"cases/b\.jsonl:1: not JSON"):
        load_cases(tmp_path, ["cases/*"])
    (tmp_path / "cases/b.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"cases/b\.jsonl: cannot be read as UTF-8"):
        load_cases(tmp_path, ["cases/*"])


@pytest.mark.parametrize("pattern", ["/etc/*.yaml", "../*.yaml"])
def test_a_pattern_never_leaves_the_project(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(ConfigError, match="must stay inside"):
        load_cases(tmp_path, [pattern])


def test_no_file_is_no_case(tmp_path: Path) -> None:
    assert load_cases(tmp_path, ["cases/*.yaml"]) == ()


def _case(name: str, family: str, *tags: CaseTag) -> Case:
    return Case(
        id=CaseId(name), input=name, assertions=({"not_empty": True},), tags=frozenset(tags),
        family=family, origin="file:x",
    )  # fmt: skip


def test_a_fingerprint_is_of_what_is_asked_not_of_the_tags() -> None:
    one = _case("a", "f", "sealed")
    assert fingerprint(one) == fingerprint(_case("a", "g", "training"))
    assert fingerprint(one) != fingerprint(_case("b", "f", "sealed"))


def test_a_sealed_case_whose_family_the_editor_sees_is_retired() -> None:
    kept, notes = keep_apart(
        [
            _case("a", "f", "sealed"), _case("b", "f", "target"), _case("c", "g", "sealed"),
            _case("d", "g", "guard"), _case("e", "h", "sealed", "training"),
        ]
    )  # fmt: skip
    assert [sorted(c.tags) for c in kept] == [
        ["training"], ["target"], ["sealed"], ["guard"], ["training"],
    ]  # fmt: skip
    assert notes == (
        "a is no longer sealed: its near duplicate b is a target or training case",
        "e is no longer sealed: it is itself a target or training case",
    )
