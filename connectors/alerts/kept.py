"""What is kept of a delivery: masked, cleaned, and never more than a card can use."""

from collections.abc import Iterator, Mapping, Sequence

from configs.redaction import redact, redact_head
from connectors.review.clean import one_line
from connectors.traces.redact import redact_json
from contracts.json_types import Json, JsonObject, canonical_json, sha256_hex

TITLE_CHARS = 200
MAX_BYTES = 64_000
"""Of the canonical JSON; it travels in the graph's state, a checkpoint a step."""
CUT = "[left out]"

_DEPTH = 12
_ITEMS = 100
_KEY_CHARS = 100
_TEXT_CHARS = 4_000
_NODES = 5_000
_LINE_WINDOW = 2_000
"""As much of a text as is looked at to make one line of it."""
_MAX_KEY_CHARS = 200


def kept(values: Mapping[str, Json]) -> JsonObject:
    """The values without secrets, long texts, deep nesting or more than `MAX_BYTES`.

    What was cut says so in its place. Values that are None are not kept.
    """
    counted = iter(range(_NODES))
    cut = _cut({key: value for key, value in values.items() if value is not None}, 0, counted)
    masked = redact_json(cut)
    fitting: dict[str, Json] = dict(masked) if isinstance(masked, Mapping) else {}
    sizes = {key: len(canonical_json(value)) for key, value in fitting.items()}
    for key in sorted(sizes, key=lambda name: -sizes[name]):
        if len(canonical_json(fitting)) <= MAX_BYTES:
            break
        fitting[key] = f"[left out: {sizes[key]} bytes]"
    return fitting


def title_of(*said: str | None) -> str:
    """The first text that is not empty, on one clean line of at most `TITLE_CHARS` characters."""
    for text in said:
        line = line_of(text, TITLE_CHARS)
        if line:
            return line
    return ""


def line_of(text: str | None, limit: int) -> str:
    """A text of a sender as one masked line without hidden characters; "" for none."""
    return one_line(redact_head(text, _LINE_WINDOW), limit) if text else ""


def key_of(*parts: str) -> str:
    """One key of these parts: readable where that is harmless, else their hash.

    It is stored and shown, so it holds only printable ASCII and nothing that would be masked.
    """
    key = "|".join(parts)
    plain = len(key) <= _MAX_KEY_CHARS and key.isascii() and key.isprintable()
    if plain and redact(key) == key:
        return key
    return "sha256:" + sha256_hex(canonical_json(list(parts)))


def _cut(value: Json, depth: int, counted: Iterator[int]) -> Json:
    """The value, cut; `counted` gives one number for each value that may still be kept."""
    if next(counted, None) is None:
        return CUT
    if isinstance(value, str):
        return value if len(value) <= _TEXT_CHARS else redact_head(value, _TEXT_CHARS) + "…"
    if not isinstance(value, Mapping | Sequence):
        return value
    if depth >= _DEPTH:
        return CUT
    if isinstance(value, Mapping):
        return _cut_object(value, depth, counted)
    items: list[Json] = [_cut(item, depth + 1, counted) for item in value[:_ITEMS]]
    return [*items, CUT] if len(value) > _ITEMS else items


def _cut_object(value: JsonObject, depth: int, counted: Iterator[int]) -> Json:
    cut: dict[str, Json] = {}
    for key, item in list(value.items())[:_ITEMS]:
        cut[redact_head(key, _KEY_CHARS)] = _cut(item, depth + 1, counted)
    if len(value) > _ITEMS:
        cut["…"] = CUT
    return cut
