"""A card on a terminal: with boxes and colour, or plain with one fact a line.

Nothing is said by colour alone, and the plain form draws no boxes: it is also what a screen reader
and a log get.
"""

from collections.abc import Iterable, Iterator

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from connectors.review.card import ReviewCard
from connectors.review.card_alternatives import AlternativeView
from connectors.review.card_files import FileView
from connectors.review.check_words import check_word
from connectors.review.gate_view import (
    Fact,
    GateTable,
    cost_facts,
    report_facts,
    report_table,
)
from contracts.gate import GatePlan, GateReport

WIDTH = 88
_RISK_STYLES = {"low": "green", "medium": "yellow", "high": "bold red"}


def render(card: ReviewCard, console: Console) -> None:
    """Print the card with boxes, at most 88 columns wide."""
    width = min(WIDTH, console.width)
    console.print(Group(*_blocks(card)), width=width)


def plain(card: ReviewCard) -> str:
    """The same facts as lines of `label: text`, diff lines indented by two blanks."""
    return "\n".join(_plain_lines(card)) + "\n"


def gate_table(report: GateReport, plan: GatePlan | None = None) -> Table:
    """The gate's result as a table, for a terminal that follows a run."""
    shown = report_table(plan, report)
    table = table_grid(shown)
    table.title = Text(shown.title)
    return table


def gate_lines(plan: GatePlan | None, report: GateReport, console: Console) -> None:
    """Print the gate's table and then its facts, at most 88 columns wide.

    A console that is no terminal, such as a pipe or a log, gets lines without boxes.
    """
    width = min(WIDTH, console.width)
    facts = (*report_facts(report, sealed_shown=False, plan=plan), *cost_facts(report))
    if console.is_terminal:
        console.print(Group(gate_table(report, plan), facts_grid(facts)), width=width)
        return
    shown = report_table(plan, report)
    said = (f"gate {fact.label}: {fact.text}" for fact in facts)
    for line in (shown.title, *_plain_rows(shown), *said):
        console.print(Text(line), width=width)


def _blocks(card: ReviewCard) -> Iterator[RenderableType]:
    yield Panel(
        Text.assemble((card.headline, "bold"), "\n", card.question),
        border_style=_RISK_STYLES[card.risk],
    )
    for warning in card.warnings:
        yield Text(f"Warning: {warning}", style="bold red")
    yield from _section("Why", card.why)
    yield from _section("Evidence", [*card.counts, *_quotes(card)])
    yield Rule(
        Text(f"Change: {card.lines_added} added, {card.lines_removed} removed"), align="left"
    )
    for view in card.files:
        yield from file_blocks(view)
    yield from _section(
        "Checks",
        [Fact(label=f"{check_word(c)} {c.rule}", text=c.detail) for c in card.checks],
    )
    if card.gate_table is not None:
        yield Rule(Text(card.gate_table.title), align="left")
        yield table_grid(card.gate_table)
        yield facts_grid(card.gate_facts)
    if card.cost:
        yield from _section("Cost", card.cost)
    yield from _section(f"Risk: {card.risk}", _reasons(card))
    yield from _section("Rollback", card.rollback)
    for other in card.alternatives:
        yield from _section(other.title, other.facts)
        for view in other.files:
            yield from file_blocks(view)
    if card.trail:
        yield from _section("Trail", _trail(card))
    yield from _section("Your answer", card.answers)


def _section(title: str, facts: Iterable[Fact]) -> Iterator[RenderableType]:
    yield Rule(Text(title), align="left")
    yield facts_grid(facts)


def facts_grid(facts: Iterable[Fact]) -> Table:
    """Labels and their texts in two columns."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for fact in facts:
        grid.add_row(Text(fact.label), Text(fact.text))
    return grid


def table_grid(table: GateTable) -> Table:
    """A table of the gate."""
    grid = Table(expand=False)
    for column in table.columns:
        grid.add_column(Text(column), overflow="fold")
    for row in table.rows:
        grid.add_row(*(Text(cell) for cell in row))
    return grid


def file_blocks(view: FileView) -> Iterator[RenderableType]:
    """One file: its counts, its diff, what is to be known of it."""
    yield Text(_file_head(view), style="bold")
    if view.lines:
        body = "\n".join(view.lines)
        yield Syntax(body, "diff", word_wrap=True, theme="ansi_dark", background_color="default")
    for line in _file_tail(view):
        yield Text(line)


def _file_head(view: FileView) -> str:
    if view.added is None:
        return f"{view.path}: {view.status}, no line counts"
    return f"{view.path}: {view.status}, {view.added} added, {view.removed} removed"


def _file_tail(view: FileView) -> Iterator[str]:
    if view.folded_added or view.folded_removed:
        yield f"not shown: {view.folded_added} added, {view.folded_removed} removed lines"
    yield from view.notes


def _quotes(card: ReviewCard) -> Iterator[Fact]:
    for line in card.evidence:
        label = "failed" if line.failed else "did not fail"
        link = f" {line.link}" if line.link else ""
        yield Fact(label=label, text=f"{line.trace_id}/{line.span_id}: {line.quote}{link}")


def _reasons(card: ReviewCard) -> Iterator[Fact]:
    for reason in card.risk_reasons:
        rule, _, text = reason.partition(": ")
        yield Fact(label=rule, text=text)


def _trail(card: ReviewCard) -> Iterator[Fact]:
    for entry in card.trail:
        at = entry.at.strftime("%Y-%m-%d %H:%M:%SZ")
        yield Fact(label=at, text=f"{entry.who}: {entry.what}")


def _plain_lines(card: ReviewCard) -> Iterator[str]:
    yield card.headline
    yield f"question: {card.question}"
    yield from (f"warning: {warning}" for warning in card.warnings)
    for fact in (*card.why, *card.counts, *_quotes(card)):
        yield f"{fact.label}: {fact.text}"
    yield f"change: {card.lines_added} added, {card.lines_removed} removed"
    for view in card.files:
        yield f"file: {_file_head(view)}"
        yield from (f"  {line}" for line in view.lines)
        yield from (f"file note: {line}" for line in _file_tail(view))
    for check in card.checks:
        yield f"check {check.rule}: {check_word(check)}, {check.detail}"
    if card.gate_table is not None:
        yield f"gate: {card.gate_table.title}"
        yield from _plain_rows(card.gate_table)
    for fact in (*card.gate_facts, *card.cost):
        yield f"gate {fact.label}: {fact.text}"
    yield f"risk: {card.risk}"
    yield from (f"risk reason {fact.label}: {fact.text}" for fact in _reasons(card))
    yield from (f"rollback {fact.label}: {fact.text}" for fact in card.rollback)
    for other in card.alternatives:
        yield from _plain_alternative(other)
    yield from (f"trail {fact.label}: {fact.text}" for fact in _trail(card))
    yield from (f"answer {fact.label}: {fact.text}" for fact in card.answers)


def _plain_alternative(other: AlternativeView) -> Iterator[str]:
    yield other.title.replace("A", "a", 1)
    name = f"alternative {other.label}"
    yield from (f"{name} {fact.label}: {fact.text}" for fact in other.facts)
    for view in other.files:
        yield f"{name} file: {_file_head(view)}"
        yield from (f"  {line}" for line in view.lines)
        yield from (f"{name} file note: {line}" for line in _file_tail(view))


def _plain_rows(table: GateTable) -> Iterator[str]:
    for row in table.rows:
        cells = zip(table.columns[1:], row[1:], strict=True)
        shown = ", ".join(f"{column} {cell}" for column, cell in cells if cell)
        of = " cases" if table.columns[0] == "cases" else ""
        yield f"gate {row[0]}{of}: {shown}".replace("?:", "?")
