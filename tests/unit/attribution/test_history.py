"""`tracemend history` over a real ledger and a real folder."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.errors import UsageError
from contracts.harness import Revision
from contracts.proposals import TargetRelease
from graph.cli.history_lines import history_lines
from nodes.attribution.history import History, Target, history_of, read_target
from tests.attribution_worlds import MAIN, Desk, desk


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Desk]:
    world = desk(tmp_path)
    yield world
    world.ws.ledger.close()


def now(world: Desk) -> Target:
    return Target(now=world.files())


def told(history: History) -> list[tuple[str, str, str | None]]:
    return [(line.text, line.by, line.release) for line in history.lines]


def page(history: History, width: int = 80) -> str:
    return "\n".join(line for line, _ in history_lines(history, width))


def test_each_line_says_release_finding_approver_and_gate(made: Desk) -> None:
    first = made.release("one\ntwo\nadded\nthree\n", by="ann")
    history = history_of(made.ws, MAIN, now(made))
    assert told(history) == [
        ("one", "before", None), ("two", "before", None), ("added", "release", first.id),
        ("three", "before", None),
    ]  # fmt: skip
    note = history.releases[first.id]
    assert (note.approvers, note.verdict, note.overridden) == (("ann",), "accept", False)
    assert (note.finding, note.proposal) == ("f-3qk7m2xza4", first.proposal)
    assert note.at.startswith("2026-03-10T09:3")
    assert note.report_hash is not None
    report = made.ws.ledger.gate.report(first.proposal_hash)
    assert report is not None
    assert note.report_hash == report[1]


def test_an_override_names_both_people_and_says_so(made: Desk) -> None:
    first = made.release("one\n", by="ann", override="eve")
    history = history_of(made.ws, MAIN, now(made))
    note = history.releases[first.id]
    assert (note.approvers, note.verdict, note.overridden) == (
        ("ann", "eve"), "inconclusive", True,
    )  # fmt: skip
    second = made.release("one\nmore\n", by="ann", override="eve")
    shown = page(history_of(made.ws, MAIN, now(made)))
    assert f"{second.id} 2026-03-10 ann +1   f-3qk7m2 overr." in shown
    assert "inconclusive, overridden by a person" in shown


def test_two_approvers_of_a_release_are_both_named(made: Desk) -> None:
    release = made.release("one\nadded\n", by="ann-with-a-long-name")
    stored = made.ws.ledger.proposals.by_hash(release.proposal_hash)
    assert stored is not None
    made.decide(stored.proposal, "bob", seat=2)
    history = history_of(made.ws, MAIN, now(made))
    assert history.releases[release.id].approvers == ("ann-with-a-long-name", "bob")
    assert "ann-… +1 f-3qk7m2 accept" in page(history)
    assert "approved by ann-with-a-long-name and bob (cli)" in page(history)


def test_hand_edits_between_and_since_are_told_with_their_bounds(made: Desk) -> None:
    first = made.release("one\ntwo\nthree\nadded\n")
    made.write("one\nbetween\ntwo\nthree\nadded\n")
    second = made.release("one\nbetween\ntwo\nthree\nadded\nmore\n", by="bea")
    made.write("one\nbetween\ntwo\nthree\nadded\nmore\nsince\n")
    history = history_of(made.ws, MAIN, now(made))
    by = {line.text: line for line in history.lines}
    assert (by["between"].by, by["between"].newer_than, by["between"].seen_by) == (
        "hand", first.id, second.id,
    )  # fmt: skip
    assert (by["since"].by, by["since"].newer_than, by["since"].seen_by) == (
        "hand", second.id, None,
    )  # fmt: skip
    shown = page(history)
    assert f"line 2: by hand, after {first.id} and before {second.id}" in shown
    assert f"line 7: by hand, after {second.id}" in shown
    assert f"lines 1, 3-4: before Tracemend, first seen by {first.id}" in shown


def test_an_undo_names_who_took_back_and_who_had_put_the_lines_there(made: Desk) -> None:
    first = made.release("one\ntwo\nold rule\n")
    second = made.release("one\ntwo\nnew rule\n")
    undo = made.undo(second, by="bob")
    history = history_of(made.ws, MAIN, now(made))
    last = history.lines[-1]
    assert (last.text, last.release, last.restored_by) == ("old rule", first.id, undo.id)
    assert f"{undo.id}  2026-03-10" in page(history)
    assert f"took {second.id} back, by bob\n{' ' * 14}it brought line 3 back" in page(history)
    at_second = history_of(made.ws, MAIN, None, at=second.id)
    assert at_second.lines[-1].release == second.id
    assert at_second.releases[second.id].undone_by == undo.id


def test_at_a_release_the_ledger_alone_is_asked(made: Desk) -> None:
    first = made.release("one\nadded\n")
    made.release("one\nadded\nmore\n")
    made.write("something else\n")
    history = history_of(made.ws, MAIN, None, at=first.id)
    assert [line.text for line in history.lines] == ["one", "added"]
    assert (history.source, history.as_of) == ("ledger", first.id)


def test_a_target_that_cannot_be_read_is_said_and_the_ledger_tells(made: Desk) -> None:
    first = made.release("one\nadded\n")
    (made.ws.root / MAIN).unlink()
    (made.ws.root / MAIN).symlink_to("/etc/hostname")
    target = asyncio.run(read_target(made.ws))
    assert target.now is None
    history = history_of(made.ws, MAIN, target)
    assert [line.text for line in history.lines] == ["one", "added"]
    assert (history.source, history.as_of) == ("ledger", first.id)
    (note,) = history.notes
    assert "cannot be read" in note
    assert f"as release {first.id} left it" in note


def test_without_a_release_and_without_a_target_it_says_why(made: Desk) -> None:
    with pytest.raises(UsageError, match="the harness is not known: host unreachable"):
        history_of(made.ws, MAIN, Target(now=None, problem="host unreachable"))


def test_without_a_release_every_line_was_there_before(made: Desk) -> None:
    history = history_of(made.ws, MAIN, now(made))
    assert [line.by for line in history.lines] == ["before"] * 3
    assert "lines 1-3: no release so far" in page(history)


def test_an_unknown_file_is_told_with_the_nearest_one(made: Desk) -> None:
    made.release("one\n")
    with pytest.raises(UsageError, match=r"did you mean instructions/main\.md\?"):
        history_of(made.ws, "instruction/mian.md", now(made))
    with pytest.raises(UsageError, match=r"did you mean instructions/main\.md\?"):
        history_of(made.ws, "main.md", now(made))
    with pytest.raises(UsageError, match=r"it has instructions/main\.md"):
        history_of(made.ws, "zzz", now(made))


def test_a_file_that_is_gone_is_told_with_the_release_that_had_it(made: Desk) -> None:
    skill = "skills/kind/SKILL.md"
    added = made.release({skill: b"# Kind\n"})
    made.undo(added)
    with pytest.raises(UsageError, match=f"{added.id} was the last release with it"):
        history_of(made.ws, skill, now(made))
    history = history_of(made.ws, skill, None, at=added.id)
    assert told(history) == [("# Kind", "release", added.id)]


def test_a_release_of_another_project_answers_like_none(made: Desk) -> None:
    with pytest.raises(UsageError, match="r-elsewhere: no such release in project 'refunds'"):
        history_of(made.ws, MAIN, None, at="r-elsewhere")


def test_a_file_of_two_targets_names_its_own_targets_origin(tmp_path: Path) -> None:
    world = desk(
        tmp_path,
        harness=[
            {"kind": "directory", "root": ".", "include": ["instructions/*.md"]},
            {"kind": "directory", "root": "more", "include": ["skills/**"], "at": "shop"},
        ],
    )
    (world.ws.root / "more").mkdir()
    zero = Revision("0" * 64)

    def part(folder: Path, origin: str) -> TargetRelease:
        return TargetRelease(
            target=f"directory:{folder}", before=zero, after=zero, origin=origin
        )  # fmt: skip

    both = (part(world.ws.root, "commit 1a2b3c"), part(world.ws.root / "more", "prompt v7"))
    release = world.release("one\nadded\n", targets=both)
    origin = history_of(world.ws, MAIN, now(world)).releases[release.id].origin
    world.ws.ledger.close()
    assert origin == "commit 1a2b3c"


def test_hostile_lines_and_secrets_are_cleaned_before_they_are_shown(made: Desk) -> None:
    key = "sk-" + "a1B2" * 12
    made.release(
        "one\n\x1b[2Jclear\nright\u202eleft\n" + key + "\n-----BEGIN RSA PRIVATE KEY-----\n"
        "MIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----\nafter\n"
    )  # fmt: skip
    history = history_of(made.ws, MAIN, now(made))
    shown = page(history, 200)
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert key not in shown
    assert "MIIEowIBAAKCAQEA" not in shown
    assert history.lines[-1].text == "after"
    assert len(history.lines) == 8


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_fits_its_columns_whatever_the_lines_hold(made: Desk, width: int) -> None:
    from rich.cells import cell_len

    made.release(
        "one\n" + "日本" * 100 + "\n" + "\t" * 40 + "x" * 300 + "\n", by="a-very-long-name"
    )
    history = history_of(made.ws, MAIN, now(made))
    lines = page(history, width).splitlines()
    assert max(map(cell_len, lines)) <= width
    assert [line for line in lines if "日本" in line]


def test_a_release_whose_files_were_not_kept_is_said(made: Desk) -> None:
    from sqlalchemy import delete

    from memory.schema import artifacts

    first = made.release("one\nadded\n")
    made.release("one\nadded\nmore\n")
    with made.ws.ledger.db.write() as tx:
        gone = artifacts.c.sha256 == first.before
        tx.execute(delete(artifacts).where(gone, artifacts.c.kind == "manifest"))
    history = history_of(made.ws, MAIN, now(made))
    assert any(f"no files of {first.id}" in note for note in history.notes)
    assert [line.by for line in history.lines] == ["before", "before", "release"]
