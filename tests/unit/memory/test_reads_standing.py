"""Where a read stands is kept for one project and thread, the newest only, until it is cleared."""

from pathlib import Path

from memory.ledger import open_ledger


def test_the_newest_standing_replaces_the_one_before(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "ledger.sqlite", "a")
    assert ledger.reads.get("t", "window") is None
    ledger.reads.put("t", "window", "c1", {"n": 1})
    ledger.reads.put("t", "window", "c2", {"n": 2})
    ledger.reads.put("t", "baseline", "c3", {"n": 3})
    found = ledger.reads.get("t", "window")
    assert found is not None
    assert (found.cursor, found.body) == ("c2", {"n": 2})
    ledger.reads.clear("t")
    assert [ledger.reads.get("t", part) for part in ("window", "baseline")] == [None, None]


def test_a_project_neither_sees_nor_clears_what_another_read(tmp_path: Path) -> None:
    file = tmp_path / "ledger.sqlite"
    ours, theirs = open_ledger(file, "a"), open_ledger(file, "b")
    ours.reads.put("t", "window", "mine", {})
    assert theirs.reads.get("t", "window") is None
    theirs.reads.put("t", "window", "other", {})
    theirs.reads.clear("t")
    found = ours.reads.get("t", "window")
    assert found is not None
    assert found.cursor == "mine"
