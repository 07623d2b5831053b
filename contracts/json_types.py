"""JSON values, their canonical bytes, and ids made from content."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence

from typing_extensions import TypeAliasType

Json = TypeAliasType(
    "Json", "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
)
"""A JSON value. Read it with `isinstance`; never trust its shape."""

JsonObject = TypeAliasType("JsonObject", Mapping[str, Json])


def canonical_json(value: Json) -> bytes:
    """UTF-8 bytes with sorted keys and no blanks: equal values have equal bytes."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def sha256_hex(data: bytes) -> str:
    """SHA-256 as 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def content_id(prefix: str, *parts: str) -> str:
    """`prefix` and the first 10 base32 characters of the SHA-256 of the parts joined by `|`."""
    digest = hashlib.sha256("|".join(parts).encode("utf-8", "surrogatepass")).digest()
    return prefix + base64.b32encode(digest)[:10].decode().lower()
