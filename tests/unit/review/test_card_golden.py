"""What a reviewer is shown, as files. After a change that is meant:

TRACEMEND_UPDATE_GOLDEN=1 pytest tests/unit/review/test_card_golden.py, then read the diff.
"""

import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from connectors.review.card import ReviewCard
from connectors.review.markdown import to_markdown
from connectors.review.terminal import plain, render
from tests.card_worlds import MAIN, card, edit, harness, replacing

GOLDEN = Path(__file__).parents[2] / "golden"
FIRMER = replacing(
    "instructions/main.md",
    "- Never promise a delivery date.",
    "- Never promise a delivery date; name the carrier.",
)


def _cards() -> dict[str, ReviewCard]:
    return {
        "approve": card("approve"),
        "override": card("override", draft=edit(FIRMER), before=harness(main=MAIN)),
        "undo": card("undo"),
    }


def _terminal(shown: ReviewCard) -> str:
    console = Console(width=100, file=io.StringIO(), color_system=None, force_terminal=False)
    with console.capture() as captured:
        render(shown, console)
    return "\n".join(line.rstrip() for line in captured.get().split("\n"))


@pytest.mark.parametrize("kind", ["approve", "override", "undo"])
@pytest.mark.parametrize(
    ("suffix", "skin"),
    [("plain.txt", plain), ("md", to_markdown), ("terminal.txt", _terminal)],
    ids=["plain", "markdown", "terminal"],
)
def test_the_card_reads_as_its_golden_file(kind: str, suffix: str, skin: object) -> None:
    assert callable(skin)
    text = skin(_cards()[kind])
    file = GOLDEN / f"card_{kind}.{suffix}"
    if os.environ.get("TRACEMEND_UPDATE_GOLDEN") == "1":
        file.write_text(text, "utf-8")
    assert text == file.read_text("utf-8")


@pytest.mark.parametrize("kind", ["approve", "override", "undo"])
def test_the_terminal_card_fits_88_columns(kind: str) -> None:
    assert max(map(len, _terminal(_cards()[kind]).split("\n"))) <= 88


@pytest.mark.parametrize("kind", ["approve", "override", "undo"])
def test_the_plain_card_says_everything_without_boxes_or_escapes(kind: str) -> None:
    text = plain(_cards()[kind])
    assert not [c for c in text if "\u2500" <= c <= "\u257f" or c == "\x1b"]
    assert all(": " in line or line.startswith("  ") for line in text.splitlines()[1:])
