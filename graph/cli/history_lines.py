"""The lines of a file and who put them there, as a table of 80 columns or more, and its legend."""

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from nodes.attribution.history import History, HistoryLine, ReleaseNote

_RELEASE, _DATE, _BY, _FINDING, _GATE = 12, 10, 8, 8, 6
"""Columns: a release's id, a day, a name, the beginning of a finding's id, a verdict."""
_ORIGIN = _RELEASE + _DATE + _BY + _FINDING + _GATE + 4
_LEAST_TEXT = 16


def show_history(history: History, console: Console | None = None) -> None:
    """Print the table, then what each release in it was; colours only on a terminal."""
    out = console or Console(highlight=False)
    for line, style in history_lines(history, out.width):
        out.print(
            Text(line, style=style), no_wrap=True, overflow="crop", crop=False, soft_wrap=True
        )


def history_lines(history: History, width: int) -> Iterator[tuple[str, str]]:
    """Every line of the output with its style, none wider than `width` (80 at least)."""
    digits = max(4, len(str(len(history.lines))))
    room = max(_LEAST_TEXT, max(80, width) - digits - 2 - _ORIGIN - 2)
    as_of = f", as {history.as_of} left it" if history.as_of is not None else ""
    yield f"{history.file}: {len(history.lines)} lines{as_of}", "bold"
    head = _row("release", "date", "approver", "finding", "gate")
    yield f"{'line':>{digits}}  {head}  text", "dim"
    for line in history.lines:
        style = "" if line.release is not None else "dim"
        text = _cut(line.text.expandtabs(4), room)
        yield f"{line.number:>{digits}}  {_origin(line, history)}  {text}".rstrip(), style
    yield from _legend(history, max(80, width))


def _origin(line: HistoryLine, history: History) -> str:
    if line.release is None:
        after = f"by hand, after {line.newer_than}" if line.newer_than else "before Tracemend"
        return f"{after:<{_ORIGIN}}"
    note = history.releases[line.release]
    return _row(
        note.id, note.at[:10], _names(note),
        note.finding or "unknown", _gate(note),
    )  # fmt: skip


def _row(release: str, date: str, by: str, finding: str, gate: str) -> str:
    cells = ((release, _RELEASE), (date, _DATE), (by, _BY), (finding[:_FINDING], _FINDING))
    return " ".join([*(_cell(text, size) for text, size in cells), _cell(gate, _GATE)])


def _names(note: ReleaseNote) -> str:
    """The first approver, and how many more there are; the legend has all."""
    if not note.approvers:
        return "unknown"
    first, *others = note.approvers
    more = f" +{len(others)}" if others else ""
    return _cut(first, _BY - len(more)) + more


def _gate(note: ReleaseNote) -> str:
    if note.verdict is None:
        return "none"
    return "overr." if note.overridden else note.verdict


def _cell(text: str, size: int) -> str:
    return set_cell_size(_cut(text, size), size)


def _cut(text: str, size: int) -> str:
    return text if cell_len(text) <= size else set_cell_size(text, size - 1).rstrip() + "…"


def _legend(history: History, width: int) -> Iterator[tuple[str, str]]:
    put = {line.release for line in history.lines}
    back = {line.restored_by for line in history.lines}
    for note in history.releases.values():
        if note.id in put:
            yield "", ""
            yield from ((_cut(said, width), "") for said in _told(note))
        elif note.id in back:
            yield "", ""
            lines = _ranges(line.number for line in history.lines if line.restored_by == note.id)
            who = " and ".join(note.approvers) or "unknown"
            yield _cut(f"{note.id}  {_when(note.at)} took {note.undoes} back, by {who}", width), ""
            yield _cut(f"{' ' * (len(note.id) + 2)}it brought {lines} back", width), ""
    yield from ((_cut(said, width), "dim") for said in _by_hand(history))


def _told(note: ReleaseNote) -> Iterator[str]:
    who = " and ".join(note.approvers) or "unknown"
    via = f" ({note.via})" if note.via else ""
    yield f"{note.id}  {_when(note.at)} approved by {who}{via}"
    pad = " " * (len(note.id) + 2)
    if note.verdict is not None and note.report_hash is not None:
        over = ", overridden by a person" if note.overridden else ""
        yield f"{pad}gate: {note.verdict}{over}; report {note.report_hash[:12]}"
    elif note.undoes is not None:
        yield f"{pad}takes back {note.undoes}"
    if note.finding is not None:
        yield f"{pad}for {note.finding}: {note.title}"
    drafted = f" r{note.revision}, drafted by {note.author}" if note.author else ""
    yield f"{pad}{note.proposal}{drafted}"
    if note.origin is not None:
        yield f"{pad}target: {note.origin}"
    if note.undone_by is not None:
        yield f"{pad}taken back by {note.undone_by}"


def _by_hand(history: History) -> Iterator[str]:
    """Lines of no release, by what is known of when they came."""
    spans: dict[tuple[str | None, str | None], list[int]] = {}
    for line in history.lines:
        if line.release is None:
            spans.setdefault((line.newer_than, line.seen_by), []).append(line.number)
    if spans:
        yield ""
    for (newer, seen), numbers in spans.items():
        if newer is None:
            when = f"before Tracemend, first seen by {seen}" if seen else "no release so far"
        elif seen is None:
            when = f"by hand, after {newer}"
        else:
            when = f"by hand, after {newer} and before {seen}"
        yield f"{_ranges(numbers)}: {when}"


def _ranges(numbers: Iterable[int]) -> str:
    """`lines 1-3, 7` of 1, 2, 3, 7."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    word = "line" if len(runs) == 1 and runs[0][0] == runs[0][1] else "lines"
    return f"{word} {', '.join(_range(run) for run in runs)}"


def _range(run: Sequence[int]) -> str:
    first, last = run
    return str(first) if first == last else f"{first}-{last}"


def _when(at: str) -> str:
    return f"{at[:10]} {at[11:16]}Z"
