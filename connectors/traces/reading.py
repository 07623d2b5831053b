"""Pieces of JSON to recorded spans, and the account of what was read and what was not."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from connectors.traces.chunks import Chunk, TraceFile
from connectors.traces.formats import Links, format_of, records
from connectors.traces.otlp import signals_only
from connectors.traces.raw import RawNote, RawSpan
from connectors.traces.salvage import Document, load
from contracts.json_types import Json
from contracts.traces import ReadReport, Skipped

MAX_SKIPPED = 200  # entries of a report; further ones are counted in the last


@dataclass(slots=True)
class Pages:
    """Saved pages of an API, by the cursors between them: is one missing?"""

    asked: set[str] = field(default_factory=set)
    leads_to: dict[str, Path] = field(default_factory=dict)
    open_ended: Path | None = None
    """A page that leads on and does not say how it was asked for; None once one leads nowhere."""
    ended: bool = False
    stuck: Path | None = None

    def see(self, path: Path, page: Mapping[str, Json], links: Links) -> None:
        asked, following = links(page)
        if asked is not None:
            self.asked.add(asked)
        if following is None:
            self.ended = True
        elif following == asked:
            self.stuck = path
        elif "url" in page:
            self.leads_to[following] = path
        else:
            self.open_ended = path

    def missing(self) -> Skipped | None:
        """What to say of a page that is not there; None: all are."""
        if self.stuck is not None:
            return Skipped(path=str(self.stuck), why="a page leads to itself: rows are missing")
        lost = next(
            (path for cursor, path in self.leads_to.items() if cursor not in self.asked), None
        )
        if lost is None and not self.ended:
            lost = self.open_ended
        why = "the page that follows is not among the files: rows are missing"
        return Skipped(path=str(lost), why=why) if lost is not None else None


@dataclass(slots=True)
class Reading:
    """What one read saw so far."""

    source: str
    files: list[TraceFile]
    skipped: list[Skipped]
    partial: bool = False
    formats: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)
    unlisted: int = 0
    why: str = ""
    marks: dict[str, int] = field(default_factory=dict)
    pages: Pages = field(default_factory=Pages)
    read_through: bool = False
    """Every file was read to its end: what is not there by now is missing."""
    at: int = 0
    """How far the reading is: 0 while files are opened, then one more for each piece."""
    order: list[int] = field(default_factory=list)
    """For each of `skipped`, how far the reading was."""

    def mark(self, marks: Mapping[str, int]) -> None:
        for name, count in marks.items():
            self.marks[name] = self.marks.get(name, 0) + count

    def skip(self, path: Path, why: str) -> None:
        if len(self.skipped) < MAX_SKIPPED:
            self.skipped.append(Skipped(path=str(path), why=why))
            self.order.append(self.at)
        else:
            self.unlisted += 1

    def forget_skipped(self) -> None:
        """Another share tells of what was skipped up to here."""
        self.skipped.clear()
        self.order.clear()
        self.unlisted = 0

    def count(self, name: str, more: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + more

    def report(self) -> ReadReport:
        skipped = list(self.skipped)
        pending = self.counts.get("pending", 0)
        lost = self.pages.missing() if self.read_through else None
        if lost is not None:
            skipped.append(lost)
        if self.unlisted:
            skipped.append(Skipped(path="...", why=f"and {self.unlisted} more of the same kind"))
        return ReadReport(
            source=self.source,
            format=", ".join(sorted(self.formats)) or "none",
            traces=self.counts.get("traces", 0),
            spans=self.counts.get("spans", 0),
            orphans=self.counts.get("orphans", 0),
            duplicates=self.counts.get("duplicates", 0),
            truncated=self.counts.get("truncated", 0),
            excluded_own=self.counts.get("excluded_own", 0),
            skipped=tuple(skipped),
            status="partial" if self.partial or lost else "pending" if pending else "complete",
            pending=pending,
            why=self.why,
            marks=dict(sorted(self.marks.items())),
        )


def spans_of(file: TraceFile, chunk: Chunk, note: Reading) -> Iterator[RawSpan | RawNote]:
    """The records of one piece; what is wrong with it goes into the note."""
    if not chunk.data or chunk.data.isspace():
        return
    data = chunk.data.removeprefix(b"\xef\xbb\xbf") if chunk.line == 1 else chunk.data
    document = load(data)
    if file.format.links is not None and isinstance(document.value, dict):
        note.pages.see(file.path, document.value, file.format.links)
    nameless = found = 0
    for form, raw in records(document.value, file.format):
        note.formats.add(form.name)
        found += 1
        if raw is None:
            nameless += 1
            continue
        if document.replaced and isinstance(raw, RawSpan):
            raw.replaced = True
        yield raw
    if file.shape == "zip" and not found and document.torn_at is None:
        return  # an archive holds other members too
    for why in _problems(document, chunk.line, found, nameless):
        note.partial = True
        note.skip(file.path, why)
    if document.replaced:
        why = "bytes that are not UTF-8 were replaced; the spans were kept"
        note.skip(file.path, f"line {chunk.line}: {why}")


def _problems(document: Document, line: int, found: int, nameless: int) -> Iterator[str]:
    value = document.value
    if document.torn_at is not None:
        here = line + document.torn_at - 1
        yield f"line {here}: the JSON breaks off; {found} spans of it were read"
    elif not found and not (
        isinstance(value, dict) and (signals_only(value) or format_of(value) is not None)
    ):
        yield f"line {line}: no spans in it"
    if nameless:
        yield f"line {line}: {nameless} spans without a trace or span id"
