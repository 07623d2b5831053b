"""A span as it was recorded, before its attributes are read: what every format is parsed into."""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from contracts.json_types import Json, sha256_hex
from contracts.traces import Score

RawStatus = Literal["unset", "ok", "error"]

_HEX = re.compile(r"[0-9a-f]+\Z")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}\Z")
_SAFE = re.compile(r"[A-Za-z0-9_.:-]{1,64}\Z")
NO_TIMES = "tracemend.no_times"
"""Mark of a run's root: its log holds no times, the recorded ones only keep the order."""
MAX_NS = 253_402_300_799_000_000_000  # end of the year 9999, the last a datetime can hold


@dataclass(slots=True, kw_only=True)
class RawSpan:
    """One recorded span with flat attributes. Mutable only while it is being parsed."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    start_ns: int | None
    end_ns: int | None
    status: RawStatus = "unset"
    status_message: str = ""
    attributes: dict[str, Json] = field(default_factory=dict)
    events: list[tuple[str, Mapping[str, Json]]] = field(default_factory=list)
    """(name, attributes) in recorded order."""
    resource: Mapping[str, Json] = field(default_factory=dict)
    replaced: bool = False
    """Bytes that are not UTF-8 were replaced in the text this span comes from."""
    updated_ns: int | None = None
    """When the record was last written; of several records of one span the newest stays."""
    open: bool = False
    """The backend says that the step is still running."""


@dataclass(slots=True, kw_only=True)
class RawNote:
    """What is recorded of a trace beside its spans. Its attributes stand in for the root's."""

    trace_id: str
    attributes: dict[str, Json] = field(default_factory=dict)
    """Under the same keys as a span's, such as `session.id` or `langfuse.trace.name`."""
    scores: tuple[Score, ...] = ()


Raw = RawSpan | RawNote | None
"""One record of a piece; None: a span without a usable id, which is counted."""


@lru_cache(maxsize=65536)
def clean_id(recorded: str, size: int) -> str | None:
    """An id of `size` bytes as lower-case hex; None where nothing was recorded.

    Exporters that dump protobuf as JSON write ids in base64, with or without padding; UUIDs come
    with hyphens. Any other id is kept when it is harmless text, else its hash stands for it.
    """
    text = recorded.strip()
    low = text.lower().replace("-", "")
    if len(low) == size * 2 and _HEX.match(low):
        return low if low.strip("0") else None
    if not text:
        return None
    if len(text.rstrip("=")) == -(-size * 8 // 6) and _BASE64.match(text):
        plain = text.rstrip("=").replace("-", "+").replace("_", "/")
        try:
            data = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
        except (binascii.Error, ValueError):
            data = b""
        if len(data) == size:
            return data.hex() if data.strip(b"\0") else None
    if _SAFE.match(text):
        return text if text.strip("0") else None
    return "x-" + sha256_hex(text.encode("utf-8", "surrogatepass"))[:24]


def as_id(value: Json, size: int) -> str | None:
    """`clean_id` of whatever stands where an id should."""
    return clean_id(value, size) if isinstance(value, str) else None


def as_text(value: Json) -> str:
    """The value when it is text, else nothing."""
    return value if isinstance(value, str) else ""


def as_int(value: Json) -> int | None:
    """A whole number, also one recorded as text or as a float."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and len(value) <= 24:
        try:
            return int(value)
        except ValueError:
            pass
    number = as_float(value)
    return int(number) if number is not None else None


def as_float(value: Json) -> float | None:
    """A finite number, also one recorded as text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) < 1e19 else None


def as_ns(value: Json) -> int | None:
    """Unix nanoseconds within what a datetime can hold; zero means that none were recorded."""
    number = as_int(value)
    return number if number is not None and 0 < number <= MAX_NS else None


def as_objects(value: Json) -> list[Mapping[str, Json]]:
    """The objects of a list; whatever else is in it is left out."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        return []
    return [item for item in value if isinstance(item, dict)]
