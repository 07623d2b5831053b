"""What `tracemend analyze` reads: paths, standard input, or a backend, without a project."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from configs.settings import TimeSpan, TraceSettings
from connectors.traces.files import FilesSource
from connectors.traces.opening import open_trace_source
from contracts.errors import UsageError
from contracts.protocols import TraceSource
from contracts.traces import TraceQuery

STDIN = "-"
BACKENDS = ("langfuse", "langsmith", "phoenix")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of the command, as given."""

    traces: tuple[str, ...]
    baseline: tuple[str, ...]
    form: str | None
    source: str | None
    base_url: str | None
    project: str | None
    environment: str | None
    since: str | None
    compare: str | None
    within: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A source with the window to read, and what to compare with."""

    source: TraceSource
    window: TraceQuery
    baseline: tuple[TraceSource, TraceQuery] | None


@contextmanager
def adhoc_source(asked: Asked) -> Iterator[Given]:
    """Open what was asked for. Standard input is kept in a private file until the end.

    Raises:
        UsageError: the options do not go together, or one of them is wrong.
        ConfigError: a variable of the environment is missing.
    """
    _check(asked)
    with tempfile.TemporaryDirectory(prefix="tracemend-") as scratch:
        source = _source(asked, Path(scratch))
        since = asked.since or ("24h" if asked.source else None)
        now = datetime.now(UTC)
        start = _before(now, "--since", since) if since else None
        window = TraceQuery(start=start, end=now if start else None)
        baseline: tuple[TraceSource, TraceQuery] | None = None
        if asked.baseline:
            before = FilesSource([*asked.baseline], format=asked.form)
            baseline = (before, TraceQuery())
        elif asked.compare and start is not None:
            earlier = TraceQuery(start=_before(start, "--compare", asked.compare), end=start)
            baseline = (source, earlier)
        yield Given(source=source, window=window, baseline=baseline)


def _check(asked: Asked) -> None:
    if bool(asked.traces) == bool(asked.source):
        raise UsageError("analyze: give either --traces PATH or --source NAME, not both")
    if asked.source and asked.source not in BACKENDS:
        known = ", ".join(BACKENDS)
        raise UsageError(f"--source {asked.source!r}: not known; one of {known}, or --traces PATH")
    if asked.source and (asked.form or asked.baseline):
        raise UsageError("--format and --baseline go with --traces; with --source use --compare")
    if asked.compare and not (asked.since or asked.source):
        raise UsageError("--compare: needs --since, to know where the window begins")
    if asked.compare and asked.baseline:
        raise UsageError("--compare and --baseline: give one of them")


def _source(asked: Asked, scratch: Path) -> TraceSource:
    if asked.source:
        spec = TraceSettings.model_validate(
            {
                "kind": asked.source,
                "base_url": asked.base_url,
                "project": asked.project,
                "environment": asked.environment,
            }
        )
        budget_s = length("--within", asked.within).total_seconds()
        return open_trace_source(spec, "--source", Path.cwd(), budget_s=budget_s)
    paths = [_from_stdin(scratch) if path == STDIN else path for path in asked.traces]
    shown = ", ".join("standard input" if path == STDIN else path for path in asked.traces)
    return FilesSource([*paths], format=asked.form, environment=asked.environment, shown=shown)


def _from_stdin(scratch: Path) -> str:
    """Standard input in a file, since reading goes over it twice."""
    path = scratch / "stdin"
    with path.open("xb") as out:
        shutil.copyfileobj(sys.stdin.buffer, out)
    return str(path)


_SPAN = TypeAdapter(TimeSpan)


def length(option: str, text: str) -> timedelta:
    """A length of time that an option gives, such as 24h.

    Raises:
        UsageError: it is none.
    """
    try:
        span = _SPAN.validate_python(text)
    except (ValidationError, OverflowError):
        span = timedelta(0)
    if span <= timedelta(0):
        raise UsageError(f"{option} {text!r}: not a length of time, such as 24h or 7d")
    return span


def _before(moment: datetime, option: str, text: str) -> datetime:
    try:
        return moment - length(option, text)
    except OverflowError:
        raise UsageError(f"{option} {text!r}: reaches back before all calendars") from None
