"""Pieces of JSON to recorded spans, and the account of what was read and what was not."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from connectors.traces.chunks import Chunk, TraceFile
from connectors.traces.openinference import is_span_tree, tree_spans
from connectors.traces.otlp import is_otlp, otlp_spans, signals_only
from connectors.traces.raw import RawSpan
from connectors.traces.salvage import Document, load
from contracts.traces import ReadReport, Skipped

MAX_SKIPPED = 200  # entries of a report; further ones are counted in the last
OTLP = "otlp-json"
TREE = "openinference-json"


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

    def skip(self, path: Path, why: str) -> None:
        if len(self.skipped) < MAX_SKIPPED:
            self.skipped.append(Skipped(path=str(path), why=why))
        else:
            self.unlisted += 1

    def count(self, name: str, more: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + more

    def report(self) -> ReadReport:
        skipped = list(self.skipped)
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
            status="partial" if self.partial else "complete",
        )


def spans_of(file: TraceFile, chunk: Chunk, note: Reading) -> Iterator[RawSpan]:
    """The spans of one piece; what is wrong with it goes into the note."""
    if not chunk.data or chunk.data.isspace():
        return
    data = chunk.data.removeprefix(b"\xef\xbb\xbf") if chunk.line == 1 else chunk.data
    document = load(data)
    nameless = found = 0
    for raw in _recorded(document, note):
        found += 1
        if raw is None:
            nameless += 1
            continue
        raw.replaced = document.replaced
        yield raw
    for why in _problems(document, chunk.line, found, nameless):
        note.partial = True
        note.skip(file.path, why)
    if document.replaced:
        why = "bytes that are not UTF-8 were replaced; the spans were kept"
        note.skip(file.path, f"line {chunk.line}: {why}")


def _recorded(document: Document, note: Reading) -> Iterator[RawSpan | None]:
    values = document.value if isinstance(document.value, list) else [document.value]
    for value in values:
        if not isinstance(value, dict):
            continue
        if is_otlp(value):
            note.formats.add(OTLP)
            yield from otlp_spans(value)
        elif is_span_tree(value):
            note.formats.add(TREE)
            yield from tree_spans(value)


def _problems(document: Document, line: int, found: int, nameless: int) -> Iterator[str]:
    value = document.value
    if document.torn_at is not None:
        here = line + document.torn_at - 1
        yield f"line {here}: the JSON breaks off; {found} spans of it were read"
    elif not found and not (
        isinstance(value, dict) and (signals_only(value) or is_otlp(value) or is_span_tree(value))
    ):
        yield f"line {line}: no spans in it"
    if nameless:
        yield f"line {line}: {nameless} spans without a trace or span id"
