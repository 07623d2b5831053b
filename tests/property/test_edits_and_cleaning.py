"""Rules of edits and of cleaning that hold for every text."""

from hypothesis import given
from hypothesis import strategies as st

from connectors.review.clean import clean, is_hidden, safe
from contracts.errors import PolicyRefused
from contracts.harness import HarnessFile, HarnessSnapshot
from contracts.proposals import Operation
from nodes.evolution.draft import person_edit
from nodes.evolution.edits import apply_operations, shown_text
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
