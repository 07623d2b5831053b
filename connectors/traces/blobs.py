"""Images and files inside chat text: a short mark in place of megabytes of base64."""

import re
from collections.abc import Mapping
from typing import Final

from contracts.json_types import Json

MIN_RUN: Final = 1024
"""Base64 characters in one run that no prose has; shorter ones are left alone."""

_BLOCK: Final = MIN_RUN // 2
# Possessive and only from the start of a run: linear, whatever the text.
_DATA_URL = re.compile(
    r"data:([\w.+-]{1,64}/[\w.+-]{1,64})(?:;[\w=.-]{1,64}){0,4};base64,([\w+/=-]*+)"
)
_RUN = re.compile(rf"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{{{MIN_RUN},}}+={{0,2}}")
_MEDIA: Final = frozenset(
    {"image", "image_url", "input_image", "audio", "input_audio", "video", "file", "input_file",
     "document", "blob", "uri", "media", "image-url", "audio-url", "video-url", "document-url",
     "binary", "inlineData", "inline_data", "fileData", "file_data", "image-data", "file-data"}
)  # fmt: skip
_BYTES: Final = ("data", "bytes", "base64", "file_data", "image", "content", "body")
_LINKS: Final = ("url", "uri", "image_url", "file_uri", "fileUri", "file_url", "file_id", "name")
_TYPES: Final = (
    "media_type", "mime_type", "mimeType", "mediaType", "contentType", "media", "format",
)  # fmt: skip
_INNER: Final = (
    "source", "image_url", "inline_data", "inlineData", "file_data", "fileData", "input_audio",
    "file", "image", "audio", "document", "video", "s3Location",
)  # fmt: skip


def without_blobs(text: str) -> str:
    """The text with data URLs and long runs of base64 replaced by marks; idempotent."""
    if "base64," in text:
        text = _DATA_URL.sub(lambda found: mark(found[1], _decoded(found[2])), text)
    if len(text) >= MIN_RUN and _has_run(text):
        text = _RUN.sub(_run_mark, text)
    return text


def _has_run(text: str) -> bool:
    """Whether some block holds nothing that ends a run; a run that is long enough fills one."""
    for start in range(0, len(text) - _BLOCK + 1, _BLOCK):
        block = text[start : start + _BLOCK]
        if " " not in block and '"' not in block and "\n" not in block:
            return True
    return False


def mark(mime: str, size_bytes: int | None) -> str:
    """What stands for a file: its type, and its size where it is known."""
    return f"[{mime}]" if size_bytes is None else f"[{mime}, {size_bytes} bytes]"


def media_mark(part: Mapping[str, Json]) -> str | None:
    """The mark of a part of a message that is an image or a file; None for any other part."""
    kind = part.get("type") or part.get("part_kind") or part.get("kind")
    named = kind if isinstance(kind, str) else ""
    if named not in _MEDIA:
        named = next((key for key in _MEDIA if isinstance(part.get(key), dict)), "")
        if not named or (kind is not None and isinstance(part.get("text"), str)):
            return None
    found: dict[str, Json] = {}
    here: Json = part
    for _ in range(4):  # {"image": {"source": {"bytes": ...}}} is the deepest that is known
        if not isinstance(here, dict):
            break
        _look(here, found)
        here = next((here[key] for key in _INNER if isinstance(here.get(key), dict)), None)
    return _written(named.partition("_")[0].partition("-")[0], found)


def _look(here: Mapping[str, Json], found: dict[str, Json]) -> None:
    for names, what in ((_BYTES, "data"), (_LINKS, "link"), (_TYPES, "mime")):
        for name in names:
            value = here.get(name)
            if isinstance(value, str | list) and value and what not in found:
                found[what] = value


def _written(named: str, found: Mapping[str, Json]) -> str:
    mime = found.get("mime")
    label = mime[:64] if isinstance(mime, str) else named
    data, link = found.get("data"), found.get("link")
    for text in (data, link):
        if isinstance(text, str) and text.startswith("data:"):
            match = _DATA_URL.match(text)
            return mark(match[1], _decoded(match[2])) if match else mark(label, len(text))
    if isinstance(data, list):
        return mark(label, len(data))
    if isinstance(data, str) and not data.startswith(("http:", "https:")):
        return mark(label, _decoded(data))
    where = link if isinstance(link, str) else data
    return f"[{label}: {where[:200]}]" if isinstance(where, str) else mark(label, None)


def _decoded(base64_text: str) -> int:
    return len(base64_text.rstrip("=")) * 3 // 4


def _run_mark(found: re.Match[str]) -> str:
    run = found[0]
    head = run[:512]
    mixed = any(c.islower() for c in head) and any(c.isupper() for c in head)
    if not mixed or not any(c.isdigit() for c in head):
        return run  # one character or word over and over is what the model said
    return mark("base64", _decoded(run))
