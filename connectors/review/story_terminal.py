"""A story on a terminal: rules and columns, no boxes; colour only where there is a terminal."""

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.rule import Rule
from rich.text import Text

from connectors.review.gate_view import Fact
from connectors.review.story import Story
from connectors.review.story_page import Section, sections
from connectors.review.terminal import facts_grid, file_blocks, table_grid

WIDTH = 120


def print_story(story: Story, console: Console) -> None:
    """Print the page, at most 120 columns wide."""
    console.print(Group(*_blocks(story)), width=min(WIDTH, console.width))


def _blocks(story: Story) -> Iterator[RenderableType]:
    yield Text(story.headline, style="bold")
    yield Text(story.outcome)
    for section in sections(story):
        yield from _section(section)


def _section(section: Section) -> Iterator[RenderableType]:
    yield Text("")
    yield Rule(Text(section.title), align="left")
    if section.facts:
        yield facts_grid(section.facts)
    if section.quotes:
        yield facts_grid(_quotes(section))
    if section.table is not None:
        yield table_grid(section.table)
    if section.details:
        yield facts_grid(section.details)
    for view in section.files:
        yield from file_blocks(view)


def _quotes(section: Section) -> Iterator[Fact]:
    for line in section.quotes:
        label = "failed" if line.failed else "did not fail"
        yield Fact(label=label, text=f"{line.trace_id}/{line.span_id}: {line.quote}")
