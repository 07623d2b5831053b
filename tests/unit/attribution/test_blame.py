"""Which release put a line there: from bytes alone."""

import time

from contracts.proposals import ReleaseId
from nodes.attribution.blame import Line, Step, blame

R1, R2, R3, R4 = (ReleaseId(f"r-{n}") for n in range(1, 5))


def step(
    release: ReleaseId, before: bytes | None, after: bytes | None, undoes: ReleaseId | None = None
) -> Step:
    return Step(release=release, before=before, after=after, undoes=undoes)


def owners(lines: tuple[Line, ...]) -> dict[str, str | None]:
    return {line.text: line.origin.release for line in lines}


def test_a_line_names_the_release_that_inserted_it_and_the_others_none() -> None:
    found = blame([step(R1, b"a\nb\n", b"a\nnew\nb\n")], b"a\nnew\nb\n")
    assert owners(found) == {"a": None, "new": R1, "b": None}
    assert [line.origin.seen_by for line in found] == [R1, None, R1]
    assert [line.origin.newer_than for line in found] == [None, None, None]


def test_a_replaced_line_is_the_replacing_releases_and_a_removed_one_is_gone() -> None:
    steps = [step(R1, b"a\nb\n", b"a\nB\nc\n"), step(R2, b"a\nB\nc\n", b"a\nB2\n")]
    assert owners(blame(steps, b"a\nB2\n")) == {"a": None, "B2": R2}


def test_a_later_release_leaves_the_lines_of_an_earlier_one_theirs() -> None:
    steps = [step(R1, b"a\n", b"a\nb\n"), step(R2, b"a\nb\n", b"zero\na\nb\nc\n")]
    assert owners(blame(steps, steps[-1].after)) == {"zero": R2, "a": None, "b": R1, "c": R2}


def test_what_a_release_found_and_none_had_left_is_by_hand_between_the_two() -> None:
    steps = [step(R1, b"a\n", b"a\nb\n"), step(R2, b"a\nmine\nb\n", b"a\nmine\nb\nc\n")]
    found = {line.text: line.origin for line in blame(steps, steps[-1].after)}
    assert (found["mine"].release, found["mine"].newer_than, found["mine"].seen_by) == (
        None, R1, R2,
    )  # fmt: skip
    assert (found["a"].newer_than, found["a"].seen_by) == (None, R1)


def test_a_hand_edit_since_the_last_release_is_seen_by_none() -> None:
    (_, mine) = blame([step(R1, None, b"a\n")], b"a\nmine\n")
    assert (mine.origin.release, mine.origin.newer_than, mine.origin.seen_by) == (None, R1, None)


def test_an_undo_gives_the_lines_back_to_who_put_them_there_first() -> None:
    steps = [
        step(R1, b"a\n", b"a\nold\n"),
        step(R2, b"a\nold\n", b"a\nnew\n"),
        step(R3, b"a\nnew\n", b"a\nold\n", undoes=R2),
    ]
    found = blame(steps, b"a\nold\n")
    assert owners(found) == {"a": None, "old": R1}
    assert [line.origin.restored_by for line in found] == [None, R3]


def test_lines_that_an_undo_left_alone_are_not_said_to_be_restored() -> None:
    steps = [step(R1, b"a\nb\n", b"a\nb\nc\n"), step(R2, b"a\nb\nc\n", b"a\nb\n", undoes=R1)]
    found = blame(steps, b"a\nb\n")
    assert [line.origin.restored_by for line in found] == [None, None]
    assert owners(found) == {"a": None, "b": None}


def test_a_release_after_an_undo_owns_what_it_writes_again() -> None:
    steps = [
        step(R1, b"a\n", b"a\nx\n"),
        step(R2, b"a\nx\n", b"a\n", undoes=R1),
        step(R3, b"a\n", b"a\nx\n"),
    ]
    assert owners(blame(steps, b"a\nx\n")) == {"a": None, "x": R3}


def test_line_ends_a_final_newline_and_a_byte_order_mark_change_no_lines_owner() -> None:
    steps = [step(R1, b"a\nb", b"a\nb\nc\n")]
    found = blame(steps, b"\xef\xbb\xbfa\r\nb\r\nc\r\n")
    assert owners(found) == {"a": None, "b": None, "c": R1}
    assert [line.origin.seen_by for line in found] == [R1, R1, None]


def test_crlf_files_are_told_line_by_line() -> None:
    steps = [step(R1, b"a\r\nb\r\n", b"a\r\nnew\r\nb\r\n")]
    assert owners(blame(steps, steps[0].after)) == {"a": None, "new": R1, "b": None}


def test_a_moved_line_is_a_new_line_where_the_diff_says_so() -> None:
    found = blame([step(R1, b"a\nb\nc\n", b"b\nc\na\n")], b"b\nc\na\n")
    assert owners(found) == {"b": None, "c": None, "a": R1}


def test_a_file_that_a_release_adds_removes_and_another_adds_again() -> None:
    steps = [
        step(R1, None, b"a\n"), step(R2, b"a\n", None), step(R3, None, b"a\nb\n"),
    ]  # fmt: skip
    assert owners(blame(steps, b"a\nb\n")) == {"a": R3, "b": R3}
    assert blame(steps[:2], None) == ()


def test_bytes_that_are_no_text_are_kept_apart_line_by_line() -> None:
    found = blame([step(R1, b"\xff\n", b"\xff\n\xfe\n")], b"\xff\n\xfe\n")
    assert [line.origin.release for line in found] == [None, R1]


def test_without_a_release_every_line_is_of_none() -> None:
    (line,) = blame([], b"a")
    assert (line.origin.release, line.origin.newer_than, line.origin.seen_by) == (None,) * 3


def test_a_thousand_releases_of_a_long_file_take_no_longer_than_a_person_waits() -> None:
    """Measured at about half a second; the bound only catches what would be quadratic."""
    lines = [f"- rule {n}" for n in range(500)]
    steps = []
    for n in range(1000):
        before = "\n".join(lines).encode()
        lines.insert((n * 37) % len(lines), f"- added by {n}")
        if n % 3 == 0:
            lines.pop((n * 53) % len(lines))
        steps.append(step(ReleaseId(f"r-{n}"), before, "\n".join(lines).encode()))
    began = time.process_time()
    found = blame(steps, steps[-1].after)
    assert time.process_time() - began < 20
    for line in found:
        by = line.origin.release
        assert line.text == (f"- added by {by[2:]}" if by is not None else line.text)
        assert (by is None) == line.text.startswith("- rule")
