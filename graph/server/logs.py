"""Log lines of the server: JSON on stderr, for people where stderr is a terminal.

Everything that is logged under `tracemend`, and what libraries warn of, is written by one handler.
It masks secrets in every value, so that no line has to be trusted to.
"""

import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, TextIO

import orjson
import structlog
from structlog.stdlib import ProcessorFormatter

from configs.redaction import redact_head

MAX_CHARS = 2_000
MAX_TRACE_CHARS = 20_000
"""Of an exception with its frames."""
MAX_DEPTH = 4
NEVER = frozenset({"authorization", "cookie", "token", "secret", "password", "body"})
"""Keys whose value is not written, whatever it holds."""
QUIET = ("apscheduler", "httpx", "httpcore", "urllib3", "opentelemetry", "uvicorn", "asyncio")
"""Libraries that are heard from warnings on."""
_HIDDEN = "[not logged]"
_MARK = "_tracemend"

Event = MutableMapping[str, Any]


def configure(stream: TextIO | None = None, *, human: bool | None = None) -> None:
    """Write all logs of this process to one stream; called again it replaces what it did before.

    Args:
        stream: None: stderr as it is now.
        human: True: lines to read. False: one JSON object a line. None: by whether the stream is a
            terminal.
    """
    out = sys.stderr if stream is None else stream
    reads = out.isatty() if human is None else human
    handler = logging.StreamHandler(out)
    handler.setFormatter(_formatter(human=reads))
    setattr(handler, _MARK, True)
    root = logging.getLogger()
    for old in [h for h in root.handlers if getattr(h, _MARK, False)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def _formatter(*, human: bool) -> ProcessorFormatter:
    render: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if human else structlog.processors.JSONRenderer(_dumps)
    )
    return ProcessorFormatter(
        foreign_pre_chain=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.ExtraAdder(),
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        ],
        processors=[
            ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            masked,
            render,
        ],
    )


def masked(_logger: object, _method: str, event: Event) -> Event:
    """Every value without secrets and without control characters; the last word before a line."""
    event.pop("message", None)  # what another handler's formatter leaves on a record
    for key, value in event.items():
        if key.lower() in NEVER:
            event[key] = _HIDDEN
        elif key == "exception":
            event[key] = _plain(str(value), MAX_TRACE_CHARS, keep="\n")
        else:
            event[key] = _masked(value, MAX_DEPTH)
    return event


def _masked(value: object, depth: int) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth and isinstance(value, Mapping):
        kept = {str(k): v if str(k).lower() not in NEVER else _HIDDEN for k, v in value.items()}
        return {_plain(k, 100): _masked(v, depth - 1) for k, v in kept.items()}
    if depth and isinstance(value, list | tuple | set | frozenset):
        return [_masked(item, depth - 1) for item in value]
    return _plain(str(value), MAX_CHARS)


def _plain(text: str, limit: int, *, keep: str = "") -> str:
    shown = redact_head(text, limit)
    return "".join(c if c.isprintable() or c in keep else " " for c in shown)


def _dumps(event: object, **_: object) -> str:
    return orjson.dumps(event, default=str).decode()
