"""What a column holds on both databases: text without NUL and half surrogates, JSON without NaN.

PostgreSQL refuses these where SQLite takes some of them; here, and nowhere else, they are replaced,
so that a ledger says the same on both. JSON columns are of the type `json` and never `jsonb`: it
keeps NUL, half surrogates (as escapes) and the spelling of numbers, which hashes depend on.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence

from sqlalchemy import Dialect, String, TypeDecorator

from contracts.json_types import Json, sha256_hex

REPLACEMENT = "\ufffd"
_UNHOLDABLE = re.compile("[\x00\ud800-\udfff]")

KEY_CHARS = 200
"""Of a text in an index. PostgreSQL's index rows end at 2,700 bytes, of all their columns."""


class Text(TypeDecorator[str]):
    """Text that both databases hold. It is replaced in conditions too: a key finds its row."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """On the way into a statement."""
        return None if value is None else _UNHOLDABLE.sub(REPLACEMENT, value)


def bounded_key(key: str) -> str:
    """A key from outside as it is kept: itself, or its beginning and its SHA-256 where it is long.

    Idempotent; different keys stay different.
    """
    if len(key) <= KEY_CHARS:
        return key
    digest = sha256_hex(key.encode("utf-8", "surrogatepass"))
    return f"{key[: KEY_CHARS - len(digest) - 1]}~{digest}"


def dump_json(value: Json) -> str:
    """ASCII text of a JSON value; a number that is none (NaN, infinite) is null."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False)


def _finite(value: Json) -> Json:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_finite(part) for part in value]
    return value
