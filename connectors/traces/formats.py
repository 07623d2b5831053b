"""The formats that files are read in: what each takes, how rich it is, and which one a file holds.

A format turns one parsed JSON object (a line, a document, an item of a list) into recorded spans.
Its `rank` says how much of a run it holds: of several formats in one place the richest is read.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from connectors.traces import ai_sdk, atif, chat_logs, inspect_logs, openinference, otlp, swe_agent
from connectors.traces.langfuse import exports as langfuse
from connectors.traces.langsmith import exports as langsmith
from connectors.traces.raw import Raw, clean_id
from connectors.traces.salvage import head_value, load
from contracts.errors import UsageError
from contracts.json_types import Json

Rank = Literal[3, 2, 1, 0]
"""3: span trees; 2: steps of a run with their calls; 1: chat messages; 0: only what stands beside
spans (scores), read along with whatever is there."""

OTEL_ID: Final = re.compile(rb'"trace_?[iI]d"\s*:\s*"([^"\\]{1,128})"')
TextShape = Literal["lines", "document"]
MAX_LINES_TRIED = 5
MAX_TRIED = 1_000  # values of a document, lists in lists included


class Takes(Protocol):
    """Whether a parsed object is of a format; looks at keys and shapes only."""

    def __call__(self, value: Mapping[str, Json], /) -> bool: ...


class Spans(Protocol):
    """The records of one object, in order; None for a span without a usable id. Never raises."""

    def __call__(self, value: Mapping[str, Json], /) -> Iterator[Raw]: ...


class TakesList(Protocol):
    """Whether a list as a whole is one object of a format, such as a bare list of messages."""

    def __call__(self, items: Sequence[Json], /) -> bool: ...


class ListSpans(Protocol):
    """The records of such a list."""

    def __call__(self, items: Sequence[Json], /) -> Iterator[Raw]: ...


def _otel_key(recorded: str) -> str:
    return clean_id(recorded, 16) or ""


class KeyOf(Protocol):
    """The id of a trace as its spans carry it, from the text that stands in the file."""

    def __call__(self, recorded: str, /) -> str: ...


class Links(Protocol):
    """(cursor a saved page was asked with, cursor of the page that follows it), None: none."""

    def __call__(self, page: Mapping[str, Json], /) -> tuple[str | None, str | None]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One way in which runs are written down."""

    name: str
    rank: Rank
    what: str
    """In a few words, for people: what writes it."""
    takes: Takes
    spans: Spans
    takes_list: TakesList | None = None
    list_spans: ListSpans | None = None
    whole: bool = False
    """Every object holds whole traces; nothing of them comes in another object."""
    id_pattern: re.Pattern[bytes] = OTEL_ID
    """Finds the ids of traces in the text, with their keys."""
    key_of: KeyOf = _otel_key
    links: Links | None = None
    """For saved pages: how they hang together, so that a missing one is seen."""


OTLP = Format(
    name="otlp-json",
    rank=3,
    what="OpenTelemetry export requests",
    takes=otlp.is_otlp,
    spans=otlp.otlp_spans,
)
TREE = Format(
    name="openinference-json",
    rank=3,
    what="span trees with OpenInference attributes",
    takes=openinference.is_span_tree,
    spans=openinference.tree_spans,
)


def _langfuse(form: "langfuse.Form", rank: Rank) -> Format:
    keys = b"|".join(key[1:-1] for key in form.id_keys)
    return Format(
        name=form.name,
        rank=rank,
        what=form.what,
        takes=form.takes,
        spans=form.spans,
        whole=form.whole,
        links=langfuse.page_links if form is langfuse.OBSERVATIONS else None,
        id_pattern=re.compile(rb'"(?:%b)"\s*:\s*"([^"\\]{1,128})"' % keys),
    )


LANGFUSE = tuple(_langfuse(form, 0 if form.notes_only else 3) for form in langfuse.FORMS)
LANGSMITH = tuple(
    Format(
        name=form.NAME,
        rank=3,
        what=what,
        takes=form.takes,
        spans=form.spans,
        id_pattern=langsmith.ID_IN_TEXT,
        key_of=langsmith.key_of,
    )
    for form, what in (
        (langsmith.BATCH, "LangSmith batch bodies"),
        (langsmith.RUNS, "LangSmith runs"),
    )
)
PRINTED = Format(
    name=ai_sdk.NAME,
    rank=3,
    what="spans as OpenTelemetry SDKs print them",
    takes=ai_sdk.takes,
    spans=ai_sdk.spans,
    key_of=lambda recorded: _otel_key(recorded.removeprefix("0x")),
)
ATIF = Format(
    name=atif.NAME, rank=2, what="ATIF trajectories", takes=atif.takes, spans=atif.spans, whole=True
)
INSPECT = Format(
    name=inspect_logs.NAME,
    rank=2,
    what="Inspect evaluation logs",
    takes=inspect_logs.takes,
    spans=inspect_logs.spans,
    whole=True,
)
SWE_AGENT = Format(
    name=swe_agent.NAME,
    rank=2,
    what="SWE-agent trajectories",
    takes=swe_agent.takes,
    spans=swe_agent.spans,
    whole=True,
)
CHAT = Format(
    name=chat_logs.NAME,
    rank=1,
    what="chat messages",
    takes=chat_logs.takes,
    spans=chat_logs.spans,
    takes_list=chat_logs.takes_list,
    list_spans=chat_logs.list_spans,
    whole=True,
)
FORMATS: Final = (OTLP, TREE, PRINTED, *LANGFUSE, *LANGSMITH, ATIF, INSPECT, SWE_AGENT, CHAT)
"""Every format, in the order in which they are asked; the first that takes an object has it."""


def formats() -> tuple[Format, ...]:
    """Every format, in the order in which they are asked."""
    return FORMATS


def named(name: str) -> Format:
    """The format of this name.

    Raises:
        UsageError: there is none; says which there are.
    """
    for one in formats():
        if one.name == name:
            return one
    known = ", ".join(one.name for one in formats())
    raise UsageError(f"--format {name!r}: no such format; known: {known}")


def format_of(value: Json, among: Sequence[Format] | None = None) -> Format | None:
    """The format of a parsed value: of an object, or of the first known thing in a list."""
    known = formats() if among is None else among
    stack: list[Json] = [value]
    for _ in range(MAX_TRIED):
        if not stack:
            break
        here = stack.pop()
        found: Format | None = None
        if isinstance(here, dict):
            found = next((one for one in known if one.takes(here)), None)
        elif isinstance(here, list):
            found = next((one for one in known if one.takes_list and one.takes_list(here)), None)
            stack.extend(reversed(here[:MAX_LINES_TRIED]))
        if found is not None:
            return found
    return None


def records(value: Json, first: Format | None) -> Iterator[tuple[Format, Raw]]:
    """Every record of a parsed value with its format; `first` is asked before all others."""
    known = formats() if first is None else (first, *(f for f in formats() if f is not first))
    stack: list[Json] = [value]
    while stack:
        here = stack.pop()
        if isinstance(here, dict):
            found = next((one for one in known if one.takes(here)), None)
            if found is not None:
                for raw in found.spans(here):
                    yield found, raw
        elif isinstance(here, list):
            whole = next((f for f in known if f.takes_list and f.takes_list(here)), None)
            if whole is not None and whole.list_spans is not None:
                for raw in whole.list_spans(here):
                    yield whole, raw
            else:
                stack.extend(reversed(here))


def detect_text(head: bytes, *, complete: bool) -> tuple[Format, TextShape] | None:
    """Format and shape of the text that begins with `head` (`complete`: nothing follows it).

    Lines when a line by itself is of a known format, else one document, of which as much is looked
    at as stands in the head.
    """
    lines = head.split(b"\n", MAX_LINES_TRIED)
    several = len(lines) > 1
    for line in lines[: MAX_LINES_TRIED if several else 0]:
        if line.strip()[:1] not in (b"{", b"["):
            continue
        document = load(line)
        if document.torn_at is None and (found := format_of(document.value)) is not None:
            return found, "lines"
    found = format_of(load(head).value if complete else head_value(head))
    return None if found is None else (found, "document" if several else "lines")
