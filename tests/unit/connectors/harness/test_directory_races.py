"""A person edits by hand in the very moment of the switch: no byte of theirs is lost."""

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from connectors.harness import atomic, swap
from connectors.harness.directory import DirectoryHarness
from contracts.errors import ForeignChange
from contracts.harness import Effect, HarnessFile, HarnessSnapshot, effect_key

CASES = Path(__file__).parents[3] / "data" / "fieldcases"
Step = Callable[[Path, Path], None]


class Hand:
    """Edits a file just before or after the n-th call of a step of the switch."""

    def __init__(
        self, step: Step, edit: Callable[[], object], *, call: int = 1, late: bool = False
    ) -> None:
        self.step, self.edit, self.left, self.late = step, edit, call, late

    def __call__(self, source: Path, target: Path) -> None:
        self.left -= 1
        if self.left == 0 and not self.late:
            self.edit()
        self.step(source, target)
        if self.left == 0 and self.late:
            self.edit()


def snapshot(**files: str) -> HarnessSnapshot:
    return HarnessSnapshot(
        files={f"{name}.md": HarnessFile(data=text.encode()) for name, text in files.items()}
    )


def build(tmp_path: Path, before: HarnessSnapshot) -> tuple[Path, DirectoryHarness]:
    root = tmp_path / "agent"
    root.mkdir()
    for path, file in before.files.items():
        (root / path).write_bytes(file.data)
        (root / path).chmod(file.mode)
    return root, DirectoryHarness(root, ["*.md"], tmp_path / "work")


def effect_for(
    harness: DirectoryHarness, before: HarnessSnapshot, after: HarnessSnapshot
) -> Effect:
    return Effect(
        key=effect_key("apply", "h", "d", harness.target), kind="apply", project="p",
        proposal_hash="h", decision_id="d", target=harness.target, before=before.revision,
        after=after.revision,
    )  # fmt: skip


async def switch(
    harness: DirectoryHarness, before: HarnessSnapshot, after: HarnessSnapshot
) -> ForeignChange:
    effect = effect_for(harness, before, after)
    await harness.stage(effect, before, after)
    with pytest.raises(ForeignChange) as told:
        await harness.switch(effect, before, after)
    await harness.discard(effect)
    return told.value


def texts(root: Path) -> dict[str, str]:
    return {p.stem: p.read_text() for p in sorted(root.iterdir())}


async def test_case_48_a_hand_edit_between_check_and_write_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES / "48-undo-meets-a-hand-edit"
    expected = json.loads((case / "expected.json").read_text())
    released = (case / "state_b" / "AGENTS.md").read_bytes()
    edited = (case / "state_a" / "AGENTS.md").read_bytes()
    text = json.loads((case / "release.json").read_text())["before"]["AGENTS.md"]["text"]
    before = HarnessSnapshot(files={"AGENTS.md": HarnessFile(data=released)})
    after = HarnessSnapshot(files={"AGENTS.md": HarnessFile(data=text.encode())})
    root, harness = build(tmp_path, before)
    hand = Hand(atomic.exchange, lambda: (root / "AGENTS.md").write_bytes(edited))
    monkeypatch.setattr(swap, "exchange", hand)
    told = await switch(harness, before, after)
    assert (told.paths, told.switched) == (("AGENTS.md",), False)
    assert sha256((root / "AGENTS.md").read_bytes()).hexdigest() == expected["c"]["sha256"]


async def test_case_48_an_earlier_hand_edit_refuses_the_undo(tmp_path: Path) -> None:
    case = CASES / "48-undo-meets-a-hand-edit"
    expected = json.loads((case / "expected.json").read_text())
    text = json.loads((case / "release.json").read_text())["before"]["AGENTS.md"]["text"]
    released = HarnessFile(data=(case / "state_b" / "AGENTS.md").read_bytes())
    before = HarnessSnapshot(files={"AGENTS.md": released})
    after = HarnessSnapshot(files={"AGENTS.md": HarnessFile(data=text.encode())})
    root, harness = build(tmp_path, before)
    (root / "AGENTS.md").write_bytes((case / "state_a" / "AGENTS.md").read_bytes())
    assert "AGENTS.md" in str(await switch(harness, before, after))
    assert sha256((root / "AGENTS.md").read_bytes()).hexdigest() == expected["a"]["sha256"]


async def test_case_46_the_bytes_of_a_windows_file_come_back_exactly(tmp_path: Path) -> None:
    case = CASES / "46-one-line-in-a-windows-file"
    expected = json.loads((case / "expected.json").read_text())
    data = (case / "harness" / "skills" / "ask-again" / "SKILL.md").read_bytes()
    before = HarnessSnapshot(files={"SKILL.md": HarnessFile(data=data)})
    edited = data.replace(b"Then ask again.", b"Then ask again, three times at most.")
    after = HarnessSnapshot(files={"SKILL.md": HarnessFile(data=edited)})
    root, harness = build(tmp_path, before)
    seen = []
    for one, other in ((before, after), (after, before)):
        effect = effect_for(harness, one, other)
        await harness.stage(effect, one, other)
        await harness.switch(effect, one, other)
        await harness.discard(effect)
        seen.append(sha256((root / "SKILL.md").read_bytes()).hexdigest())
    assert seen == [
        expected["after"]["skills/ask-again/SKILL.md"]["sha256"],
        expected["undo"]["sha256"],
    ]


async def test_an_edit_at_the_second_file_puts_the_first_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = snapshot(a="a", b="b", c="c"), snapshot(a="A", b="B", c="C")
    root, harness = build(tmp_path, before)
    hand = Hand(atomic.exchange, lambda: (root / "b.md").write_text("hand"), call=2)
    monkeypatch.setattr(swap, "exchange", hand)
    told = await switch(harness, before, after)
    assert (told.paths, told.switched) == (("b.md",), True)
    assert texts(root) == {"a": "a", "b": "hand", "c": "c"}


async def test_a_newer_edit_on_our_file_stays_and_the_older_is_kept_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before, after = snapshot(a="a"), snapshot(a="A")
    root, harness = build(tmp_path, before)
    first = Hand(atomic.exchange, lambda: (root / "a.md").write_text("one"))
    # The second edit lands between the switch and its being taken back.
    both = Hand(first, lambda: (root / "a.md").write_text("two"), call=2)
    monkeypatch.setattr(swap, "exchange", both)
    await switch(harness, before, after)
    assert texts(root) == {"a": "two"}
    kept = [p.read_text() for p in (tmp_path / "work").glob("*/kept-*")]
    assert kept == ["one"]
    assert "harness.kept_aside" in caplog.messages


async def test_a_program_that_writes_to_the_displaced_file_afterwards_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = snapshot(a="a", b="b"), snapshot(a="A", b="B")
    root, harness = build(tmp_path, before)
    with (root / "a.md").open("r+") as editor:

        def save() -> None:
            editor.write("late")
            editor.flush()

        monkeypatch.setattr(swap, "exchange", Hand(atomic.exchange, save, call=2))
        told = await switch(harness, before, after)
    assert told.paths == ("a.md",)
    assert texts(root) == {"a": "late", "b": "b"}


async def test_a_file_made_by_hand_where_ours_was_to_go_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = snapshot(a="a"), snapshot(a="A", n="N")
    root, harness = build(tmp_path, before)
    hand = Hand(atomic.move_new, lambda: (root / "n.md").write_text("hand"))
    monkeypatch.setattr(swap, "move_new", hand)
    told = await switch(harness, before, after)
    assert (told.paths, told.switched) == (("n.md",), True)
    assert texts(root) == {"a": "a", "n": "hand"}


async def test_an_edit_of_a_file_that_is_to_go_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = snapshot(a="a", o="o"), snapshot(a="A")
    root, harness = build(tmp_path, before)
    hand = Hand(atomic.move_new, lambda: (root / "o.md").write_text("hand"))
    monkeypatch.setattr(swap, "move_new", hand)
    told = await switch(harness, before, after)
    assert told.paths == ("o.md",)
    assert texts(root) == {"a": "a", "o": "hand"}


async def test_a_file_deleted_by_hand_in_that_moment_stays_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = snapshot(a="a", b="b"), snapshot(a="A", b="B")
    root, harness = build(tmp_path, before)
    hand = Hand(atomic.exchange, (root / "b.md").unlink, call=2)
    monkeypatch.setattr(swap, "exchange", hand)
    told = await switch(harness, before, after)
    assert told.paths == ("b.md",)
    assert texts(root) == {"a": "a"}


class Cut(BaseException):
    """The process ends here."""


def cut() -> None:
    raise Cut


async def test_an_edit_displaced_just_before_the_process_died_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = snapshot(a="a"), snapshot(a="A")
    root, harness = build(tmp_path, before)
    edit = Hand(atomic.exchange, lambda: (root / "a.md").write_text("hand"))
    monkeypatch.setattr(swap, "exchange", Hand(edit, cut, late=True))
    effect = effect_for(harness, before, after)
    await harness.stage(effect, before, after)
    with pytest.raises(Cut):
        await harness.switch(effect, before, after)
    monkeypatch.undo()
    assert texts(root) == {"a": "A"}
    assert await harness.standing(before, after) == "mixed"
    told = await switch(harness, before, after)
    assert (told.paths, told.switched) == (("a.md",), True)
    assert texts(root) == {"a": "hand"}
    assert await harness.standing(before, after) == "foreign"


async def test_two_edits_around_the_death_of_the_process_are_both_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = snapshot(a="a", b="b"), snapshot(a="A", b="B")
    root, harness = build(tmp_path, before)
    edit = Hand(atomic.exchange, lambda: (root / "a.md").write_text("one"))
    monkeypatch.setattr(swap, "exchange", Hand(edit, cut, late=True))
    with pytest.raises(Cut):
        await harness.switch(effect_for(harness, before, after), before, after)
    monkeypatch.undo()
    (root / "b.md").write_text("two")
    assert (await switch(harness, before, after)).switched
    assert texts(root) == {"a": "one", "b": "two"}


async def test_discarding_too_early_keeps_a_displaced_edit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = snapshot(a="a"), snapshot(a="A")
    root, harness = build(tmp_path, before)
    edit = Hand(atomic.exchange, lambda: (root / "a.md").write_text("hand"))
    monkeypatch.setattr(swap, "exchange", Hand(edit, cut, late=True))
    effect = effect_for(harness, before, after)
    with pytest.raises(Cut):
        await harness.switch(effect, before, after)
    await harness.discard(effect)
    await harness.discard(effect)
    assert [p.read_text() for p in (tmp_path / "work").glob("*/kept-*")] == ["hand"]
    assert await harness.standing(before, after) == "after"


async def test_a_file_that_somebody_else_made_equal_to_ours_is_not_taken_back(
    tmp_path: Path,
) -> None:
    before, after = snapshot(a="a", b="b"), snapshot(a="A", b="B", n="N")
    root, harness = build(tmp_path, before)
    for name, text in {"a": "A", "b": "hand", "n": "N"}.items():
        (root / f"{name}.md").write_text(text)
    told = await switch(harness, before, after)
    assert told.switched is False
    assert texts(root) == {"a": "A", "b": "hand", "n": "N"}
