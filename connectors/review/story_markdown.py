"""A story as Markdown, ready for a pull request: long diffs and the gate's small print fold away.

Text from outside is escaped as on a card, so that it cannot end a table, a fold or a code block.
"""

from collections.abc import Iterable, Iterator

from connectors.review.card_files import FileView
from connectors.review.gate_view import Fact
from connectors.review.markdown import escape, evidence_markdown, file_markdown, table_markdown
from connectors.review.story import Story
from connectors.review.story_page import Section, sections

LONG = 40
"""Diff lines of all files together above which the diff is folded."""


def story_markdown(story: Story) -> str:
    """The whole page, headline first."""
    blocks = [f"# {escape(story.headline)}", f"**{escape(story.outcome)}**"]
    for section in sections(story):
        blocks += _section(section)
    return "\n\n".join(block for block in blocks if block) + "\n"


def _section(section: Section) -> Iterator[str]:
    yield f"## {escape(section.title)}"
    yield _facts(section.facts)
    yield evidence_markdown(section.quotes)
    if section.table is not None:
        yield table_markdown(section.table)
    if section.details:
        yield _folded(section.folded, _facts(section.details))
    yield _files(section.files)


def _facts(facts: Iterable[Fact]) -> str:
    return "\n".join(f"- {escape(fact.label)}: {escape(fact.text)}" for fact in facts)


def _files(files: Iterable[FileView]) -> str:
    listed = list(files)
    shown = "\n\n".join(file_markdown(view) for view in listed)
    lines = sum(len(view.lines) for view in listed)
    return _folded(f"diff of {lines} lines", shown) if lines > LONG else shown


def _folded(summary: str, body: str) -> str:
    """A fold; the blank lines make what is inside Markdown again. `summary` is a text of ours."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"
