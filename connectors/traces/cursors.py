"""Cursors of our own: an opaque text by which an interrupted read goes on, in any process."""

import base64
import binascii
import json

from contracts.errors import UsageError
from contracts.json_types import Json, sha256_hex

MAX_CHARS = 64 << 10


def write_cursor(read: Json, place: dict[str, Json]) -> str:
    """The place in a read, bound to what that read asked for."""
    document = {"v": 1, "read": _digest(read), "place": place}
    return base64.urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")


def read_cursor(read: Json, cursor: str | None) -> dict[str, Json] | None:
    """The place that was written, None for no cursor.

    Raises:
        UsageError: it is no cursor of ours, or one of another read.
    """
    if cursor is None:
        return None
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        data = base64.b64decode(padded, altchars=b"-_", validate=True)
        document = json.loads(data) if len(cursor) <= MAX_CHARS else None
    except (binascii.Error, ValueError, RecursionError):
        document = None
    place = document.get("place") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(place, dict) or document.get("v") != 1:
        raise UsageError("this is no cursor that a read gave away; start without one")
    if document.get("read") != _digest(read):
        raise UsageError("this cursor is of another source or window; start without one")
    return place


def _digest(read: Json) -> str:
    return sha256_hex(json.dumps(read, sort_keys=True).encode())[:16]
