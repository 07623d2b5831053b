"""A card as Markdown: the interrupt's description, and a page for chat or mail.

Text from outside is escaped, or set as code where it could turn into a link.
"""

import re
from collections.abc import Iterable, Sequence

from connectors.review.card import EvidenceLine, ReviewCard
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

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!&$])")
_LEADING = re.compile(r"^(\s*)([-+=]|\d+[.)])(?=\s|$)")
# Renderers turn bare addresses into links and fetch nothing for code, so these are set as code.
# So are names and numbers that a forge would tell somebody of, or link, or close: @name, #12.
_ADDRESS = re.compile(
    r"(?:[a-zA-Z][a-zA-Z0-9+.-]*://|www\.|mailto:)\S+|\S+@\S+\.\S+"
    r"|(?<!\w)@\w[\w/-]*|[\w./-]*#\d+|\bGH-\d+"
)
_COMMAND = re.compile(r"tracemend [a-z]+ [\w-]+(?: (?:[a-z]|LABEL)\b)?(?: --[a-z]+ [A-Z]+)*")


def to_markdown(card: ReviewCard) -> str:
    """The whole card, headline first."""
    blocks = [
        f"# {escape(card.headline)}",
        f"**{escape(card.question)}**",
        *_warnings(card.warnings),
        "## Why", _list(card.why),
        "## Evidence", _list(card.counts), evidence_markdown(card.evidence),
        f"## Change: {card.lines_added} added, {card.lines_removed} removed",
        *(file_markdown(view) for view in card.files),
        "## Checks",
        "\n".join(
            f"- {_mark(check_word(c))} · {escape(c.rule)}: {escape(c.detail)}"
            for c in card.checks
        ),
        *_gate(card),
        f"## Risk: {card.risk}", "\n".join(f"- {escape(reason)}" for reason in card.risk_reasons),
        "## Rollback", _list(card.rollback),
        *(block for other in card.alternatives for block in _alternative(other)),
        *_trail(card),
        "## Your answer", _list(card.answers),
    ]  # fmt: skip
    return "\n\n".join(block for block in blocks if block) + "\n"


def gate_markdown(plan: GatePlan | None, report: GateReport) -> str:
    """A gate's report alone, for a pull request, a chat or a mail."""
    shown = report_table(plan, report)
    facts = report_facts(report, sealed_shown=False, plan=plan)
    blocks = (
        f"## {escape(shown.title)}", table_markdown(shown), _list(facts), "### Cost",
        _list(cost_facts(report)),
    )  # fmt: skip
    return "\n\n".join(blocks) + "\n"


def escape(text: str) -> str:
    """Text on one line that shows as it is; addresses and our own commands become code."""
    flat = " ".join(text.split())
    out: list[str] = []
    at = 0
    for found in re.finditer(f"{_COMMAND.pattern}|{_ADDRESS.pattern}", flat):
        out += [_SPECIAL.sub(r"\\\1", flat[at : found.start()]), code(found[0])]
        at = found.end()
    out.append(_SPECIAL.sub(r"\\\1", flat[at:]))
    return _LEADING.sub(r"\1\\\2", "".join(out))


def code(text: str) -> str:
    """Text as inline code, with a fence longer than any run of backticks in it."""
    flat = " ".join(text.split())
    fence = "`" * (_longest_run(flat) + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{pad}{flat}{pad}{fence}" if flat else ""


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _mark(word: str) -> str:
    return word if word == "ok" else f"**{word}**"


def _list(facts: Iterable[Fact]) -> str:
    return "\n".join(f"- {escape(fact.label)}: {escape(fact.text)}" for fact in facts)


def _warnings(warnings: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"**Warning: {escape(warning)}**" for warning in warnings)


def evidence_markdown(lines: Sequence[EvidenceLine]) -> str:
    """Quotes as code, so that nothing in them is a link, a name or a mark."""
    rows: list[str] = []
    for line in lines:
        what = "failed" if line.failed else "did not fail"
        link = f" · [open]({_target(line.link)})" if line.link else ""
        rows.append(
            f"- {what}, {code(f'{line.trace_id}/{line.span_id}')}: {code(line.quote)}{link}"
        )
    return "\n".join(rows)


def _target(link: str) -> str:
    return re.sub(r"[()\s<>\"'`\\]", lambda m: f"%{ord(m[0]):02X}", link)


def file_markdown(view: FileView) -> str:
    """One file: its counts, its diff as code, what is to be known of it."""
    counts = (
        "no line counts" if view.added is None else f"{view.added} added, {view.removed} removed"
    )
    parts = [f"{code(view.path)} {view.status}: {counts}"]
    if view.lines:
        body = "\n".join(view.lines)
        fence = "`" * max(3, _longest_run(body) + 1)
        parts.append(f"{fence}diff\n{body}\n{fence}")
    if view.folded_added or view.folded_removed:
        parts.append(f"Not shown: {view.folded_added} added, {view.folded_removed} removed lines.")
    parts += [escape(note) for note in view.notes]
    return "\n\n".join(parts)


def _alternative(other: AlternativeView) -> tuple[str, ...]:
    files = (file_markdown(view) for view in other.files)
    return (f"## {escape(other.title)}", _list(other.facts), *files)


def _gate(card: ReviewCard) -> tuple[str, ...]:
    if card.gate_table is None:
        return ()
    blocks = [
        f"## {escape(card.gate_table.title)}",
        table_markdown(card.gate_table),
        _list(card.gate_facts),
    ]
    if card.cost:
        blocks += ["## Cost", _list(card.cost)]
    return tuple(blocks)


def table_markdown(table: GateTable) -> str:
    """A table of the gate with its cells escaped."""
    rows = [table.columns, ("---",) * len(table.columns), *table.rows]
    return "\n".join(
        "| " + " | ".join(cell if cell == "---" else escape(cell) for cell in row) + " |"
        for row in rows
    )


def _trail(card: ReviewCard) -> tuple[str, ...]:
    if not card.trail:
        return ()
    rows = [
        f"- {t.at.strftime('%Y-%m-%d %H:%M:%SZ')} {escape(t.who)}: {escape(t.what)}"
        for t in card.trail
    ]
    return ("## Trail", "\n".join(rows))
