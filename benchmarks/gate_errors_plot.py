"""A picture of what is accepted: one panel a project and flakiness, drawn as SVG by hand."""

from collections.abc import Iterator
from html import escape

from benchmarks.gate_errors_results import Cell, Results, nominal
from benchmarks.gate_errors_worlds import EDITS, FLAKINESS, PROJECTS, Project
from nodes.insights.compare import rate_interval

PANEL_W, PANEL_H = 330, 190
LEFT, TOP, GAP_X, GAP_Y = 74, 112, 34, 54
SERIES = (
    ("the gate", "#0b6e4f"),
    ("one better, none worse", "#8a5a00"),
    ("mean higher", "#b3261e"),
    ("paired t bound above 0", "#3d5a98"),
)
_SHORT = ("no effect", "harm 10", "harm = m", "fix only", "fix +5", "fix +10")


def plot(results: Results) -> str:
    """The share of projects in which an edit is accepted, with 95 % intervals, as one SVG."""
    width = LEFT + len(FLAKINESS) * (PANEL_W + GAP_X) + 10
    height = TOP + len(PROJECTS) * (PANEL_H + GAP_Y) + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(LEFT, 24, "How often an edit is accepted, by what it does in truth", size=17),
        _text(
            LEFT, 44,
            "Share of simulated projects (0 to 1) with 95 % intervals. Dashed: the level that a "
            "false accept may reach. Flaky: share of answers flipped. Starter: "
            '"known cases only" reached.',
        ),
        *_legend(),
    ]  # fmt: skip
    for row, project in enumerate(PROJECTS):
        for column, flakiness in enumerate(FLAKINESS):
            x = LEFT + column * (PANEL_W + GAP_X)
            y = TOP + row * (PANEL_H + GAP_Y)
            cells = [results.cells.get((project.name, flakiness, edit.name)) for edit in EDITS]
            parts += _panel(x, y, project, flakiness, cells)
    parts.append(
        _text(
            width / 2,
            height - 12,
            "what the edit does in truth: harm and gain in points (percent of all cases); "
            "m: the margin",
            anchor="middle",
        )
    )
    return "\n".join([*parts, "</svg>", ""])


def _legend() -> Iterator[str]:
    x = float(LEFT)
    for name, colour in SERIES:
        yield f'<circle cx="{x + 5}" cy="66" r="4.5" fill="{colour}"/>'
        yield _text(x + 16, 70, name)
        x += 40 + 7.2 * len(name)


def _panel(
    x: float, y: float, project: Project, flakiness: float, cells: list[Cell | None]
) -> Iterator[str]:
    title = f"{project.name} · flaky {flakiness:.0%}"
    yield _text(x, y - 8, title, weight="bold")
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        level = y + PANEL_H * (1 - tick)
        yield (
            f'<line x1="{x}" x2="{x + PANEL_W}" y1="{level:.1f}" y2="{level:.1f}" '
            f'stroke="#ddd" stroke-width="1"/>'
        )
        yield _text(x - 6, level + 4, f"{tick:g}", anchor="end", size=10)
    if x == LEFT:
        yield (
            f'<text transform="translate({x - 46},{y + PANEL_H / 2}) rotate(-90)" '
            'text-anchor="middle">accepted (share)</text>'
        )
    slot = PANEL_W / len(EDITS)
    for at, (edit, cell) in enumerate(zip(EDITS, cells, strict=True)):
        left = x + at * slot
        yield _text(left + slot / 2, y + PANEL_H + 15, _SHORT[at], anchor="middle", size=10)
        if at:
            yield (
                f'<line x1="{left:.1f}" x2="{left:.1f}" y1="{y}" y2="{y + PANEL_H}" '
                f'stroke="#f0f0f0"/>'
            )
        allowed = nominal(project, edit)
        if allowed is not None:
            level = y + PANEL_H * (1 - allowed)
            yield (
                f'<line x1="{left + 3:.1f}" x2="{left + slot - 3:.1f}" y1="{level:.1f}" '
                f'y2="{level:.1f}" stroke="#000" stroke-dasharray="3 2"/>'
            )
        if cell is not None:
            yield from _points(left, slot, y, cell)


def _points(left: float, slot: float, y: float, cell: Cell) -> Iterator[str]:
    counts = (cell.accepted, *cell.usual)
    for number, ((_, colour), count) in enumerate(zip(SERIES, counts, strict=True)):
        low, share, high = rate_interval(count, cell.gates)
        at = left + slot * (number + 0.7) / (len(SERIES) + 0.4)
        top, bottom = y + PANEL_H * (1 - high), y + PANEL_H * (1 - low)
        middle = y + PANEL_H * (1 - share)
        yield (
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{top:.1f}" y2="{bottom:.1f}" '
            f'stroke="{colour}" stroke-width="1.6"/>'
        )
        radius = 4.2 if number == 0 else 3.0
        yield f'<circle cx="{at:.1f}" cy="{middle:.1f}" r="{radius}" fill="{colour}"/>'


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", size: int = 12,
    weight: str = "normal",
) -> str:  # fmt: skip
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )
