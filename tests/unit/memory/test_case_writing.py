"""What is written into people's files: the change that was asked for, and no other byte."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import UsageError
from contracts.json_types import Json, JsonObject
from memory.case_files import parse_entries
from memory.case_writing import appended, retagged, write_text

ENTRY: JsonObject = {
    "id": "c-abcdefghij", "input": {"message": "Where is A-7?"}, "tags": ["sealed"],
    "assert": [{"contains": "parcel"}, {"tool_called": {"name": "track"}}],
}  # fmt: skip
BLOCK = """# Ours: ask Ann before changing these.
- id: c-0          # the first one
  input: {message: "Refund"}
  tags:
    - training     # for now
  # what it must do
  assert:
    - not_empty: true
# the end
"""
YAMLS = {
    "block": BLOCK,
    "windows": BLOCK.replace("\n", "\r\n"),
    "no line end": BLOCK.rstrip("\n").removesuffix("# the end").rstrip(),
    "indented": "---\n" + "".join(f"   {line}\n" for line in BLOCK.splitlines()),
    "marked": "\ufeff" + BLOCK,
    "flow": "[{input: a, assert: [{not_empty: true}]}  # last\n]\n",
    "flow, comma": "[{input: a, assert: [{not_empty: true}]},]",
    "empty list": "[]\n",
    "comments": "# nothing yet\n",
    "empty": "",
}


@pytest.mark.parametrize("kind", YAMLS)
def test_a_case_is_appended_and_the_rest_of_the_file_stays(kind: str) -> None:
    text = YAMLS[kind]
    made = appended(text, "a.yaml", [ENTRY, ENTRY])
    before = parse_entries(text.removeprefix("\ufeff"), "a.yaml")
    assert parse_entries(made.removeprefix("\ufeff"), "a.yaml") == [*before, ENTRY, ENTRY]
    if not kind.startswith(("flow", "empty list")):
        assert made.startswith(text)
    for line in text.splitlines():
        assert line.strip("[] \ufeff") in made
    assert ("\r\n" in made) == ("\r\n" in text)
    assert "\r\n" not in text or "\n" not in made.replace("\r\n", "")


def test_what_is_appended_reads_as_a_person_would_write_it() -> None:
    assert appended("", "cases/added.yaml", [ENTRY]) == (
        "- id: c-abcdefghij\n"
        '  input: {"message": "Where is A-7?"}\n'
        "  tags: [sealed]\n"
        "  assert:\n"
        '    - contains: "parcel"\n'
        '    - tool_called: {"name": "track"}\n'
    )


def test_lines_are_appended_with_the_ends_that_the_file_has() -> None:
    assert appended('{"input": 1}', "a.jsonl", [{"input": 2}]) == '{"input": 1}\n{"input": 2}\n'
    assert appended('{"input": 1}\r\n', "a.jsonl", [{"input": 2}]).endswith('\r\n{"input": 2}\r\n')


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)  # fmt: skip


@given(json_values, st.sampled_from(["a.yaml", "a.jsonl"]))
def test_any_json_comes_back_as_it_was(value: Json, name: str) -> None:
    entry: JsonObject = {"input": value, "assert": [{"equals": value}]}
    text = appended(appended("", name, [entry]), name, [{"input": "next"}])
    assert text.encode("utf-8").decode("utf-8-sig") == text
    assert parse_entries(text, name) == [entry, {"input": "next"}]


TAGGED = [
    ("- input: a\n  assert: []  # x\n", "- input: a\n  tags: [sealed]\n  assert: []  # x\n"),
    ("- assert: []\n  input: a\n", "- tags: [sealed]\n  assert: []\n  input: a\n"),
    ("- {input: a, assert: []}", "- {input: a, tags: [sealed], assert: []}"),
    ("- {tags: [training, guard], input: a}", "- {tags: [sealed], input: a}"),
    ("- input: a\n  tags:\n  assert: []\n", "- input: a\n  tags: [sealed]\n  assert: []\n"),
    (
        "- tags:\n    - training\n    # kept\n  input: a\n",
        "- tags:\n    [sealed]\n    # kept\n  input: a\n",
    ),
]


@pytest.mark.parametrize(("text", "made"), TAGGED)
def test_a_tag_is_changed_and_nothing_else(text: str, made: str) -> None:
    assert retagged(text, "a.yaml", {0: {"sealed"}}) == made
    crlf = text.replace("\n", "\r\n")
    assert retagged(crlf, "a.yaml", {0: {"sealed"}}) == made.replace("\n", "\r\n")


def test_several_tags_are_changed_at_once_and_comments_stay() -> None:
    text = BLOCK + "- {input: b, assert: [{not_empty: }]}\n- {input: c, assert: []}\n"
    made = retagged(text, "a.yaml", {0: {"sealed"}, 2: {"sealed", "critical"}})
    tags = [entry.get("tags") for entry in yaml.safe_load(made)]
    assert tags == [["sealed"], None, ["critical", "sealed"]]
    assert "# the first one" in made
    assert "# what it must do" in made


def test_tags_of_lines_are_changed_in_their_line_only() -> None:
    text = '{"input":1,"assert":[]}\r\n\r\n{"assert": [], "input": 2}\n'
    made = retagged(text, "a.jsonl", {0: {"sealed"}})
    assert made == '{"input":1,"assert":[],"tags":["sealed"]}\r\n\r\n{"assert": [], "input": 2}\n'


def test_a_file_whose_entries_hang_together_is_refused_not_damaged() -> None:
    text = "- &a {input: a, assert: []}\n- *a\n"
    with pytest.raises(UsageError, match=r"a\.yaml: written in a way .* edit it by hand"):
        retagged(text, "a.yaml", {0: {"sealed"}})


def test_a_text_after_the_end_of_the_document_is_refused() -> None:
    with pytest.raises(UsageError, match="edit it by hand, or name another file"):
        appended("- {input: a}\n...\n", "a.yaml", [ENTRY])


def test_a_file_changed_in_between_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"theirs")
    file.chmod(0o600)
    with pytest.raises(UsageError, match=r"a\.yaml: somebody wrote it just now"):
        write_text(file, b"ours", "new")
    with pytest.raises(UsageError, match="somebody wrote it"):
        write_text(file, None, "new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.yaml"]
    write_text(file, b"theirs", "new")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("new", 0o600)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.yaml").write_text("a")
    (tmp_path / "link.yaml").symlink_to("real.yaml")
    write_text(tmp_path / "link.yaml", b"a", "b")
    assert (tmp_path / "link.yaml").is_symlink()
    assert (tmp_path / "real.yaml").read_text() == "b"
