"""Operations change the bytes that they name and no others."""

import pytest

from contracts.errors import AnchorError, PolicyRefused
from contracts.harness import HarnessFile, HarnessSnapshot
from contracts.proposals import Operation
from nodes.evolution.edits import apply_operations, describe_files, end_anchor
from tests.card_worlds import inserting, replacing

PATH = "main.md"


def _one(data: bytes, operation: Operation) -> bytes:
    before = HarnessSnapshot(files={PATH: HarnessFile(data=data, mode=0o600)})
    after = apply_operations(before, [operation])
    assert after.files[PATH].mode == 0o600
    return after.files[PATH].data


@pytest.mark.parametrize(
    ("data", "anchor", "text", "expected"),
    [
        (b"a\nb\nc\n", "b", "X", b"a\nX\nc\n"),
        (b"a\nb\nc\n", "a\nb", "a\nX\nY", b"a\nX\nY\nc\n"),
        (b"a\r\nb\r\nc\r\n", "a\nb", "a\nX\nY", b"a\r\nX\r\nY\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "a\r\nb", "X", b"X\r\nc\r\n"),
        (b"a\nb\r\nc\n", "a\nb\nc", "a\nb\nC", b"a\nb\r\nC\n"),
        (b"a\rb\nc\n", "c", "X", b"a\rb\nX\n"),
        (b"\xef\xbb\xbfa\nb\n", "a", "X", b"\xef\xbb\xbfX\nb\n"),
        (b"a\nb", "b", "X\nY", b"a\nX\nY"),
        (b"a\r\nb", "b", "X\nY", b"a\r\nX\r\nY"),
        (b"a\nb\n", "b\n", "", b"a\n"),
    ],
)
def test_replace_keeps_all_bytes_around_it(
    data: bytes, anchor: str, text: str, expected: bytes
) -> None:
    assert _one(data, replacing(PATH, anchor, text)) == expected


@pytest.mark.parametrize(
    ("data", "anchor", "text", "expected"),
    [
        (b"a\nb\n", "a", "X", b"a\nX\nb\n"),
        (b"a\nb\n", "a\n", "X\n", b"a\nX\nb\n"),
        (b"a one\nb\n", "a", "X\n", b"a one\nX\nb\n"),
        (b"a\r\nb\r\n", "a\n", "X\nY\n", b"a\r\nX\r\nY\r\nb\r\n"),
        (b"a\nb\r\nc\n", "b\n", "X", b"a\nb\r\nX\r\nc\n"),
        (b"a\nb\r\nc\n", "a", "X", b"a\nX\nb\r\nc\n"),
        (b"a\nb\n", "b", "X", b"a\nb\nX\n"),
        (b"a\nb", "b", "X\n", b"a\nb\nX"),
        (b"a\r\nb", "b", "X\nY", b"a\r\nb\r\nX\r\nY"),
        (b"a\nb\n", "a", "\nX\n", b"a\n\nX\nb\n"),
    ],
)
def test_insert_after_adds_whole_lines_and_no_other_byte(
    data: bytes, anchor: str, text: str, expected: bytes
) -> None:
    assert _one(data, inserting(PATH, anchor, text)) == expected


@pytest.mark.parametrize(
    ("data", "anchor", "problem"),
    [
        (b"aaa\n", "aa", "main.md: anchor found 2 times: 'aa'"),
        (b"a\n", None, "main.md: empty anchor"),
        (b"a\n\n\nb\n", "\n\n", "main.md: anchor of blanks"),
        (b"a  b\n", "a b", "main.md: anchor not found: 'a b'"),
        (b"x\r\ny\r\n", "x\r", "main.md: anchor not found"),
    ],
)
def test_an_anchor_that_is_not_one_place_is_refused(
    data: bytes, anchor: str | None, problem: str
) -> None:
    operation = Operation(op="replace", path=PATH, text="X", anchor=anchor)
    with pytest.raises(AnchorError) as raised:
        _one(data, operation)
    assert str(raised.value).startswith(problem)


def test_an_anchor_that_begins_with_a_line_end_is_one_place_in_a_windows_file() -> None:
    assert _one(b"a\r\nb\r\n", replacing(PATH, "\nb", "\nX")) == b"a\r\nX\r\n"


@pytest.mark.parametrize(
    ("operation", "problem"),
    [
        (replacing("other.md", "a", "b"), "other.md: no such file in the harness"),
        (replacing("../main.md", "a", "b"), "unsafe part '..'"),
        (Operation(op="add_file", path="/etc/x", text="x"), "absolute"),
        (Operation(op="add_file", path="a\\b", text="x"), "absolute, or with a character"),
        (Operation(op="add_file", path=".git/config", text="x"), "reserved part '.git'"),
        (Operation(op="add_file", path="skills/con.md", text="x"), "reserved part 'con.md'"),
        (Operation(op="add_file", path="MAIN.md", text="x"), "there already (as main.md)"),
        (Operation(op="add_file", path="main.md/x.md", text="x"), "main.md is in the way"),
        (Operation(op="add_skill", path="skills/x.md", text="x"), "skills/<name>/SKILL.md"),
        (inserting("main.md", "a", ""), "main.md: nothing to insert"),
        (replacing("bin.md", "a", "b"), "bin.md: not UTF-8 text (byte 0)"),
    ],
)
def test_an_operation_that_cannot_be_done_is_refused(operation: Operation, problem: str) -> None:
    files = {PATH: HarnessFile(data=b"a\n"), "bin.md": HarnessFile(data=b"\xffa\n")}
    with pytest.raises(PolicyRefused) as raised:
        apply_operations(HarnessSnapshot(files=files), [operation])
    assert problem in str(raised.value)


def test_operations_apply_in_order_each_to_the_result_of_the_last() -> None:
    before = HarnessSnapshot(files={PATH: HarnessFile(data=b"a\nb\n")})
    after = apply_operations(before, [replacing(PATH, "a", "c"), inserting(PATH, "c", "d")])
    assert after.files[PATH].data == b"c\nd\nb\n"
    assert before.files[PATH].data == b"a\nb\n"


def test_files_are_described_by_hash_and_presence() -> None:
    before = HarnessSnapshot(files={PATH: HarnessFile(data=b"a\n")})
    after = apply_operations(
        before,
        [
            replacing(PATH, "a", "b"),
            Operation(op="add_skill", path="agent/skills/x/SKILL.md", text="t"),
        ],
    )
    changes = describe_files(before, after)
    assert [c.path for c in changes] == ["agent/skills/x/SKILL.md", PATH]
    assert changes[0].before is None
    assert changes[1].after == after.files[PATH].sha256


@pytest.mark.parametrize(
    ("text", "anchor"),
    [
        ("a\nb\n", "b"),
        ("x\ny\nx\n", "y\nx"),
        ("a\n\n", "a"),
        ("a\r\nb\r\n", "b"),
        ("\n\n", None),
        ("", None),
    ],
)
def test_the_end_of_a_text_is_named_by_its_fewest_last_lines(text: str, anchor: str | None) -> None:
    assert end_anchor(text) == anchor


def removing(anchor: str | None, text: str = "") -> Operation:
    return Operation(op="remove", path=PATH, anchor=anchor, text=text)


@pytest.mark.parametrize(
    ("data", "anchor", "expected"),
    [
        (b"a\nb\nc\n", "b", b"a\nc\n"),
        (b"a\nb one two\nc\n", "one", b"a\nc\n"),
        (b"a\nb\nc\n", "b\n", b"a\nc\n"),
        (b"a\nb\nc\nd\n", "b\nc", b"a\nd\n"),
        (b"a one\ntwo b\nc\n", "one\ntwo", b"c\n"),
        (b"a\nb\nc\n", "a", b"b\nc\n"),
        (b"\xef\xbb\xbfa\nb\n", "a", b"\xef\xbb\xbfb\n"),
        (b"\xef\xbb\xbfa\nb\n", "b", b"\xef\xbb\xbfa\n"),
        (b"a\r\nb\r\nc\r\n", "b", b"a\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "a\nb", b"c\r\n"),
        (b"a\nb\r\nc\n", "b", b"a\nc\n"),
        (b"a\nb", "b", b"a"),
        (b"a\r\nb", "b", b"a"),
        (b"a\rx\nb\n", "b", b"a\rx\n"),
        (b"a\n\nb\n\nc\n", "b", b"a\n\n\nc\n"),
        (b"a\nb\n", "b", b"a\n"),
        (b"a\n", "a", b""),
    ],
)
def test_remove_takes_whole_lines_and_no_other_byte(
    data: bytes, anchor: str, expected: bytes
) -> None:
    assert _one(data, removing(anchor)) == expected


@pytest.mark.parametrize(
    ("operation", "problem"),
    [
        (removing("x"), "anchor not found"),
        (removing("a"), "anchor found 2 times"),
        (removing(None), "empty anchor"),
        (removing("\n"), "anchor of blanks"),
        (removing("b", "instead"), "remove has no text"),
    ],
)
def test_what_remove_cannot_name_stays(operation: Operation, problem: str) -> None:
    with pytest.raises(PolicyRefused, match=problem):
        _one(b"a\nb\na\n", operation)
