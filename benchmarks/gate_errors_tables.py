"""The tables of `benchmarks.gate_errors`, in Markdown."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from scipy import stats

from benchmarks.gate_errors_exact import Row
from benchmarks.gate_errors_results import USUAL_RULES, Cell, Key, Results
from benchmarks.gate_errors_sheet import RULE, SHEET_PROJECTS, USUAL
from benchmarks.gate_errors_worlds import EDITS, FLAKINESS, PROJECTS

CHANCE = 1e-4
"""A difference is named below this p (Fisher, two-sided): some 300 shares are compared."""
_ROUNDED = 0.005
"""The sheet prints two digits."""


def table(results: Results) -> str:
    """The whole rule: accepted, rejected, inconclusive, runs as a share of the plan."""
    rows = _grid(results, _verdicts)
    return _markdown("The whole rule: accepted · rejected · inconclusive · runs", rows)


def _verdicts(cell: Cell) -> str:
    shares = [_two(cell.share(word)) for word in ("accept", "reject", "inconclusive")]
    return f"{' '.join(shares)} · {cell.spent:.2f}"


def usual_table(results: Results) -> str:
    """The usual rules on the same projects."""
    rows = _grid(results, lambda cell: " ".join(_two(count / cell.gates) for count in cell.usual))
    return _markdown(f"The usual rules, accepted by: {' · '.join(USUAL_RULES)}", rows)


def _grid(results: Results, text: Callable[[Cell], str]) -> list[list[str]]:
    rows = [["Project", "flaky", *(edit.name for edit in EDITS)]]
    for project in PROJECTS:
        for flakiness in FLAKINESS:
            found = [results.cells.get((project.name, flakiness, edit.name)) for edit in EDITS]
            if any(found):
                rows.append(
                    [project.name, f"{flakiness:g}", *(text(c) if c else "-" for c in found)]
                )
    return rows


def _two(share: float) -> str:
    """.05 and 1.0, as people write shares; three digits where two would say nothing."""
    if 0.0 < share < 0.005:
        return f"{share:.3f}"[1:]
    return f"{share:.2f}"[1:] if share < 0.995 else "1.0"


def _markdown(title: str, rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    lines = [f"**{title}**", "", _line(head), _line(["---"] * len(head)), *map(_line, body)]
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def saved(results: Results) -> str:
    """Runs that early stops saved of the fixed plan, guard runs counted, by project and edit."""
    rows = [["Project", *(edit.name for edit in EDITS)]]
    for project in PROJECTS:
        line = [project.name]
        for edit in EDITS:
            cells = [
                cell
                for (name, _, what), cell in results.ordered()
                if name == project.name and what == edit.name
            ]
            line.append(_saved(cells) if cells else "-")
        if set(line[1:]) != {"-"}:
            rows.append(line)
    return _markdown("Runs saved of the fixed plan, all flakiness levels (guard runs added)", rows)


def _saved(cells: Sequence[Cell]) -> str:
    runs, planned = sum(c.runs for c in cells), sum(c.planned for c in cells)
    guards = sum(c.guard_runs for c in cells)
    return f"{1 - runs / planned:.0%} ({guards / planned:.0%})"


def exact_table(rows: Sequence[Row]) -> str:
    """Exact sizes beside their levels."""
    head = ["test", "level", "exact size"]
    return _markdown(
        "Exact sizes (enumerated)",
        [head, *([name, f"{level:g}", f"{size:.4f}"] for name, level, size in rows)],
    )


def differences(results: Results) -> str:
    """Cells that differ from the design sheet by more than both simulations can explain."""
    compared, found = 0, []
    for key, cell in results.ordered():
        for what, ours, theirs in _pairs(key, cell):
            compared += 1
            if _unlike(ours, cell.gates, theirs):
                found.append(
                    f"- {key[0]}, flaky {key[1]:g}, {key[2]}: {what} {ours:.3f}, sheet {theirs:.2f}"
                )
    head = (
        f"**Compared with the design sheet**: {compared} shares, {len(found)} differ by more than "
        f"chance and rounding can explain (Fisher's exact test, p < {CHANCE:g})."
    )
    return "\n".join([head, "", *found] if found else [head])


def _unlike(ours: float, gates: int, theirs: float) -> bool:
    """Whether both counts are unlikely to have one share, the sheet's rounding in its favour."""
    nearest = min(max(ours, theirs - _ROUNDED), theirs + _ROUNDED)
    sheet = round(min(1.0, max(0.0, nearest)) * SHEET_PROJECTS)
    mine = round(ours * gates)
    rows = [[mine, gates - mine], [sheet, SHEET_PROJECTS - sheet]]
    return float(stats.fisher_exact(np.array(rows))[1]) < CHANCE


def _pairs(key: Key, cell: Cell) -> Iterable[tuple[str, float, float]]:
    theirs = RULE.get(key)
    if theirs is not None:
        for word, share in zip(("accept", "reject", "inconclusive"), theirs[:3], strict=True):
            yield f"{word}ed" if word != "inconclusive" else word, cell.share(word), share
    for name, count, share in zip(USUAL_RULES, cell.usual, USUAL.get(key, ()), strict=False):
        yield f"accepted by {name}", count / cell.gates, share
