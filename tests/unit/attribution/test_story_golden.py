"""What `tracemend show` and `tracemend history` print, as files. After a change that is meant:

TRACEMEND_UPDATE_GOLDEN=1 pytest tests/unit/attribution/test_story_golden.py, then read the diff.
"""

import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from connectors.review.story import Story
from connectors.review.story_markdown import story_markdown
from connectors.review.story_terminal import print_story
from contracts.alerts import Alert, request_of
from graph.cli.history_lines import show_history
from nodes.attribution.history import History, Target, history_of
from nodes.attribution.story import story_of
from tests.attribution_worlds import MAIN, Desk, desk

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Two releases, one of them taken back, and hand edits between."""
    made = desk(tmp_path_factory.mktemp("golden"), "# Desk\n\n- Be short.\n- Be kind.\n")
    alert = Alert(source="langfuse", key="k-1", group="g", kind="firing", title="refunds fail")
    made.ws.ledger.incidents.open(
        "t-0", kind="alert", key="k-1", request=request_of(alert), driver="local"
    )
    made.release("# Desk\n\n- Be short.\n- Be kind.\n- Call again after a 504.\n")
    made.write("# Desk\n\n- Be short, please.\n- Be kind.\n- Call again after a 504.\n")
    second = made.release(
        "# Desk\n\n- Be short, please.\n- Call again after a 504.\n- Name the carrier.\n",
        by="bea", override="eve",
    )  # fmt: skip
    made.undo(second, by="bob")
    yield made
    made.ws.ledger.close()


def _first(world: Desk) -> Story:
    return story_of(world.ws, world.ws.ledger.effects.releases()[0].id)


def _history(world: Desk) -> History:
    return history_of(world.ws, MAIN, Target(now=world.files()))


def _console(width: int) -> Console:
    return Console(width=width, file=io.StringIO(), color_system=None, highlight=False)


def _story_page(world: Desk, width: int) -> str:
    console = _console(width)
    with console.capture() as captured:
        print_story(_first(world), console)
    return "\n".join(line.rstrip() for line in captured.get().split("\n"))


def _history_page(world: Desk, width: int) -> str:
    console = _console(width)
    with console.capture() as captured:
        show_history(_history(world), console)
    return captured.get()


def _pages(world: Desk) -> dict[str, str]:
    return {
        "show.md": story_markdown(_first(world)),
        "show.80.txt": _story_page(world, 80),
        "show.120.txt": _story_page(world, 120),
        "history.80.txt": _history_page(world, 80),
        "history.120.txt": _history_page(world, 120),
    }


@pytest.mark.parametrize(
    "name", ["show.md", "show.80.txt", "show.120.txt", "history.80.txt", "history.120.txt"]
)
def test_the_page_reads_as_its_golden_file(world: Desk, name: str) -> None:
    text = _pages(world)[name]
    file = GOLDEN / name
    if os.environ.get("TRACEMEND_UPDATE_GOLDEN") == "1":
        file.write_text(text, "utf-8")
    assert text == file.read_text("utf-8")


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_terminal(world: Desk, width: int) -> None:
    for page in (_story_page(world, width), _history_page(world, width)):
        assert max(map(cell_len, page.split("\n"))) <= width


def test_colours_are_for_terminals_alone(world: Desk) -> None:
    console = Console(width=80, file=io.StringIO(), highlight=False)
    show_history(_history(world), console)
    print_story(_first(world), console)
    assert isinstance(console.file, io.StringIO)
    assert "\x1b" not in console.file.getvalue()
