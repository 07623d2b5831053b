"""Diffs on the bytes as they are."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.review.diff import DiffStats, FileDiff, total, unified

TEXTS = st.lists(st.sampled_from(["a", "b", "", "c d", "-x", "+y"]), max_size=12).flatmap(
    lambda lines: st.sampled_from(["\n".join(lines), "\n".join(lines) + "\n" if lines else ""])
)


def _changed(diff: FileDiff) -> list[str]:
    body = diff.lines[2:]
    return [line for line in body if line[:1] in "+-"]


def test_one_changed_line_of_a_windows_file_is_one_line() -> None:
    diff = unified("a.md", b"one\r\ntwo\r\nthree\r\n", b"one\r\n2\r\nthree\r\n")
    assert _changed(diff) == ["-two", "+2"]
    assert diff.notes == ("line ends: CRLF",)


def test_a_changed_line_end_is_shown() -> None:
    diff = unified("a.md", b"one\r\ntwo\r\n", b"one\ntwo\r\n")
    assert _changed(diff) == ["-one␍", "+one"]
    assert diff.stats == DiffStats(added=1, removed=1)


def test_a_file_whose_line_ends_all_change_shows_why() -> None:
    diff = unified("a.md", b"one\r\n", b"one\n")
    assert _changed(diff) == ["-one␍", "+one"]


def test_a_missing_last_newline_is_said() -> None:
    diff = unified("a.md", b"one", b"one\n")
    assert diff.lines[-3:] == ("-one", "\\ No newline at end of file", "+one")


def test_a_new_and_a_removed_file_name_dev_null() -> None:
    assert unified("a.md", None, b"x\n").lines[0] == "--- /dev/null"
    assert unified("a.md", b"x\n", None).lines[1] == "+++ /dev/null"
    assert unified("a.md", b"x\n", None).status == "removed"


def test_bytes_that_are_no_text_have_no_counts() -> None:
    diff = unified("a.bin", b"\xff\xfe", b"x\n")
    assert diff.stats is None
    assert diff.notes == ("not UTF-8 text: 2 bytes before, 2 bytes after",)
    assert total([diff]) == DiffStats(added=0, removed=0)


def test_a_mark_that_goes_is_said() -> None:
    diff = unified("a.md", b"\xef\xbb\xbfx\n", b"x\n")
    assert "the byte order mark at the start changes" in diff.notes


def test_counts_cannot_be_negative() -> None:
    with pytest.raises(ValueError, match=r"negative line count: \+-1"):
        DiffStats(added=-1, removed=0)


@given(TEXTS, TEXTS)
def test_the_counts_are_the_lines_of_the_whole_diff(before: str, after: str) -> None:
    diff = unified("f.md", before.encode(), after.encode(), fold=None)
    assert diff.stats is not None
    shown = _changed(diff)
    assert diff.stats.added == sum(line.startswith("+") for line in shown)
    assert diff.stats.removed == sum(line.startswith("-") for line in shown)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\nb\nc\n", b"a\nB\nc\nd\n"),
        (b"no end", b"no end\nmore"),
        (b"\n\n\n", b"\n"),
        (b"", b"new\n"),
        (b"".join(b"%d\n" % n for n in range(60)), b"".join(b"%d\n" % (n // 7) for n in range(60))),
    ],
)
def test_patch_makes_the_after_of_the_before(tmp_path: Path, before: bytes, after: bytes) -> None:
    diff = unified("f.md", before, after, fold=None)
    patch = "\n".join(["--- f.md", "+++ f.md", *diff.lines[2:], ""])
    (tmp_path / "f.md").write_bytes(before)
    (tmp_path / "d.patch").write_bytes(patch.encode())
    subprocess.run(["git", "apply", "-p0", "d.patch"], cwd=tmp_path, check=True)
    assert (tmp_path / "f.md").read_bytes() == after
