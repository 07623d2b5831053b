"""An edit that only takes text out is told from every other."""

import pytest

from contracts.harness import HarnessFile, HarnessSnapshot
from nodes.evolution.shrinking import shrinks
from tests.card_worlds import MAIN, harness, skill_text


def count(text: str) -> int:
    return len(text.split())


@pytest.mark.parametrize(
    "after",
    [
        MAIN.replace("- Never promise a delivery date.\n", ""),
        MAIN.replace("- Look an order up before you talk about it.", "- Look an order up."),
        MAIN.replace("## Tools\n\n", ""),
    ],
)
def test_lines_that_go_or_get_shorter_only_take_text_out(after: str) -> None:
    assert shrinks(harness(main=MAIN), harness(main=after), count) == (
        count(MAIN), count(after),
    )  # fmt: skip


@pytest.mark.parametrize(
    "after",
    [
        MAIN,
        MAIN + "- One more.\n",
        MAIN.replace("- Never promise a delivery date.", "- Always promise a date."),
        MAIN.replace("- Never promise a delivery date.", "- A delivery date never promise."),
        MAIN.replace("- Never promise a delivery date.\n", "").replace("Shop", "Store"),
        MAIN.replace("## Tools\n", "- Never promise a delivery date.\n"),
        MAIN.replace("\n\n", "\n"),
    ],
)
def test_whatever_adds_a_word_or_leaves_as_many_does_not(after: str) -> None:
    assert shrinks(harness(main=MAIN), harness(main=after), count) is None


def test_a_whole_skill_that_goes_is_less_and_a_new_one_is_not() -> None:
    with_skill = harness(main=MAIN, lookup=skill_text("lookup", "- Look."))
    assert shrinks(with_skill, harness(main=MAIN), count) is not None
    assert shrinks(harness(main=MAIN), with_skill, count) is None


def test_what_is_no_text_or_changes_its_mode_is_never_less() -> None:
    def one(data: bytes, mode: int = 0o644) -> HarnessSnapshot:
        return HarnessSnapshot(files={"a.md": HarnessFile(data=data, mode=mode)})

    assert shrinks(one(b"\xff one two"), one(b"\xff one"), count) is None
    assert shrinks(one(b"one two\n"), one(b"one\n", 0o755), count) is None
