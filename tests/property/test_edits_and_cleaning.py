"""Rules of edits and of cleaning that hold for every text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.playbooks import fill, holes
from connectors.review.clean import clean, is_hidden, safe
from contracts.errors import AnchorError, PolicyRefused
from contracts.harness import HarnessFile, HarnessSnapshot
from contracts.proposals import Operation
from nodes.evolution.draft import person_edit
from nodes.evolution.edits import apply_operations, describe_files, shown_text
from nodes.evolution.paths import path_problem
from nodes.evolution.placeholders import placeholder_problems
from nodes.evolution.skill_file import read_front_matter
from nodes.evolution.statements import statements
from tests.card_worlds import edit

ENDS = st.sampled_from(["\n", "\r\n"])
WORDS = st.text(st.sampled_from("ab \r{}#`-é"), max_size=8).filter(lambda t: not t.endswith("\r"))
LINES = st.lists(st.tuples(WORDS, ENDS), max_size=8)


@st.composite
def files(draw: st.DrawFn) -> str:
    """A text with mixed line ends, bare carriage returns, and perhaps no last line end."""
    body = "".join(word + end for word, end in draw(LINES))
    return draw(st.sampled_from(["", "\ufeff"])) + body + draw(WORDS)


@given(st.text())
def test_cleaning_is_idempotent_and_leaves_nothing_hidden(text: str) -> None:
    once = clean(text)
    assert clean(once) == once
    assert not any(is_hidden(c) for c in once)
    assert safe(safe(text)) == safe(text)


@given(files(), files(), WORDS)
def test_replace_changes_nothing_outside_its_anchor(head: str, tail: str, text: str) -> None:
    data = f"{head}@@one@@{tail}".encode()
    before = HarnessSnapshot(files={"f.md": HarnessFile(data=data)})
    operation = Operation(op="replace", path="f.md", anchor="@@one@@", text=text)
    after = apply_operations(before, [operation]).files["f.md"].data
    assert after == f"{head}{text}{tail}".encode()


@given(files(), files(), st.lists(WORDS, min_size=1, max_size=3))
def test_insert_after_only_adds(head: str, tail: str, lines: list[str]) -> None:
    data = f"{head}@@one@@{tail}".encode()
    before = HarnessSnapshot(files={"f.md": HarnessFile(data=data)})
    text = "\n".join(["+", *lines, "+"])
    operation = Operation(op="insert_after", path="f.md", anchor="@@one@@", text=text)
    after = apply_operations(before, [operation]).files["f.md"].data
    assert len(after) > len(data)
    kept = [line for line in after.split(b"\n") if b"@@one@@" in line]
    assert len(kept) == 1
    # Taking the added lines out again gives the bytes from before.
    grown = len(after) - len(data)
    assert any(after[:i] + after[i + grown :] == data for i in range(len(data) + 1))


@given(files(), st.data())
def test_a_unique_anchor_always_applies_and_its_own_text_changes_nothing(
    text: str, data: st.DataObject
) -> None:
    before = HarnessSnapshot(files={"f.md": HarnessFile(data=text.encode())})
    shown = shown_text(before.files["f.md"], "f.md")
    start = data.draw(st.integers(0, len(shown)))
    anchor = shown[start : data.draw(st.integers(start, len(shown)))]
    operation = Operation(op="replace", path="f.md", anchor=anchor, text=anchor)
    count = sum(shown.startswith(anchor, at) for at in range(len(shown)))
    if anchor.strip() and count == 1:
        assert apply_operations(before, [operation]) == before
        return
    reason = f"anchor found {count} times" if anchor.strip() else "empty anchor|anchor of blanks"
    with pytest.raises(AnchorError, match=reason):
        apply_operations(before, [operation])


SNAPSHOTS = st.dictionaries(
    st.sampled_from(["a.md", "b.md", "skills/x/SKILL.md"]),
    st.builds(
        HarnessFile,
        data=st.sampled_from([b"", b"x", b"y\n"]),
        mode=st.sampled_from([0o644, 0o755]),
    ),
).map(lambda files: HarnessSnapshot(files=files))


@given(SNAPSHOTS, SNAPSHOTS)
def test_the_described_files_are_the_step_from_one_revision_to_the_other(
    before: HarnessSnapshot, after: HarnessSnapshot
) -> None:
    changes = describe_files(before, after)
    assert (changes == ()) == (before.revision == after.revision)
    hashes = {path: file.sha256 for path, file in before.files.items()}
    for change in changes:
        assert hashes.pop(change.path, None) == change.before
        if change.after is not None:
            hashes[change.path] = change.after
    assert hashes == {path: file.sha256 for path, file in after.files.items()}


@given(files(), files())
def test_a_reviewers_text_is_what_a_person_reads_back(base: str, wanted: str) -> None:
    before = HarnessSnapshot(files={"f.md": HarnessFile(data=base.encode())})
    try:
        after, _ = person_edit(before, before, {"f.md": wanted}, by="m", draft=edit())
    except PolicyRefused as refused:
        assert "blank before" in str(refused)  # noqa: PT017
        return
    read = shown_text(after.files["f.md"], "f.md")
    plain = wanted.removeprefix("\ufeff").replace("\r\n", "\n")
    assert read.rstrip("\n") == plain.rstrip("\n")


@given(files())
def test_a_text_read_and_saved_unchanged_changes_no_byte(base: str) -> None:
    before = HarnessSnapshot(files={"f.md": HarnessFile(data=base.encode())})
    texts = {"f.md": shown_text(before.files["f.md"], "f.md")}
    after, made = person_edit(before, before, texts, by="m", draft=edit())
    assert after == before
    assert made.operations == ()


@given(st.lists(ENDS, min_size=1, max_size=8), st.data())
def test_one_line_that_a_reviewer_changes_is_the_only_one_that_changes(
    ends: list[str], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(ends) - 1))
    base = [f"line {n}{end}" for n, end in enumerate(ends)]
    before = HarnessSnapshot(files={"f.md": HarnessFile(data="".join(base).encode())})
    shown = shown_text(before.files["f.md"], "f.md")
    texts = {"f.md": shown.replace(f"line {at}\n", "new\n")}
    after, _ = person_edit(before, before, texts, by="m", draft=edit())
    base[at] = f"new{ends[at]}"
    assert after.files["f.md"].data == "".join(base).encode()


WHOLE = ["{a}", "{b_slug}", "{{", "}}", "x", ".y", "[0]", "!r"]
REACHING = ["{a.b}", "{a[0]}", "{a!r}", "{a:9}", "{}", "{0}", "{a.__class__}", "{A}"]


@given(st.lists(st.sampled_from(WHOLE), max_size=8).map("".join))
def test_a_playbook_is_filled_as_plain_format_would_and_values_stay_values(template: str) -> None:
    values = {name: f"<{{{name}.x}}>" for name in holes(template)}
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in values)
    assert fill(template, values) == template.format_map(values)


@given(
    st.lists(st.sampled_from(WHOLE), max_size=4).map("".join),
    st.sampled_from(REACHING),
    st.lists(st.sampled_from(WHOLE), max_size=4).map("".join),
)
def test_a_hole_that_reaches_into_a_value_is_no_hole(head: str, hole: str, tail: str) -> None:
    with pytest.raises(ValueError, match=r"single '\{' in .*; write it twice"):
        holes(head + hole + tail)
    class_name = "<class 'str'>"
    assert class_name not in fill(head + hole + tail, {"a": "v", "b_slug": "w"})


@given(st.text(max_size=60))
def test_reading_texts_is_total(text: str) -> None:
    assert placeholder_problems(text, text) == ()
    assert isinstance(statements(text), tuple)
    assert read_front_matter("---\n" + text).present
    assert path_problem(text) is None or path_problem(text)


@given(st.text(st.sampled_from("ab./\\~\0: *-"), max_size=12))
def test_a_safe_path_stays_under_its_root(path: str) -> None:
    if path_problem(path) is None:
        assert not path.startswith("/")
        assert ".." not in path.split("/")
        assert "\\" not in path


@given(files(), files())
def test_remove_takes_out_one_run_of_whole_lines(head: str, tail: str) -> None:
    """What is left is the lines before and the lines after, each with its own end."""
    data = f"{head}@@one@@{tail}"
    before = HarnessSnapshot(files={"f.md": HarnessFile(data=data.encode())})
    operation = Operation(op="remove", path="f.md", anchor="@@one@@", text="")
    after = apply_operations(before, [operation]).files["f.md"].data.decode()
    at = data.index("@@one@@")
    start = data.rfind("\n", 0, at) + 1
    start = len("\ufeff") if start == 0 and data.startswith("\ufeff") else start
    end = data.find("\n", at) + 1
    if end:
        assert after == data[:start] + data[end:]
    else:  # the last line had no end, so the one before it has none now
        assert after == data[:start].removesuffix("\n").removesuffix("\r")
