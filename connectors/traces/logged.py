"""Values as logs write them down: times of any kind, counts that may be none, content as an id."""

from datetime import UTC, datetime, timedelta

import orjson

from connectors.traces.raw import as_float, as_int, as_ns, as_objects
from contracts.json_types import Json, canonical_json, sha256_hex

MAX_TOOLS = 128
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def usage(
    *,
    model: Json = None,
    sent: Json = None,
    received: Json = None,
    cost_usd: Json = None,
    stop: Json = None,
    spoke: bool = True,
) -> dict[str, Json]:
    """Attributes of a model call; what is not known is left out.

    A prompt of no tokens, a message of no tokens (`spoke`), and a price of nothing without tokens
    are what recorders write that did not count.
    """
    tokens_in, tokens_out, cost = as_int(sent) or None, as_int(received), as_float(cost_usd)
    if tokens_out == 0 and (spoke or tokens_in is None):
        tokens_out = None
    if not cost and tokens_in is None and tokens_out is None:
        cost = None
    known: dict[str, Json] = {
        "llm.model_name": model if isinstance(model, str) and model else None,
        "llm.token_count.prompt": tokens_in,
        "llm.token_count.completion": tokens_out,
        "llm.cost.total": cost,
        "llm.finish_reason": stop if isinstance(stop, str) and stop else None,
    }
    return {key: value for key, value in known.items() if value is not None}


def offered(tools: Json) -> dict[str, Json]:
    """Attributes of a model call that say which tools it was offered, from their schemas."""
    schemas = [tool for tool in as_objects(tools) if tool][:MAX_TOOLS]
    return {
        f"llm.tools.{number}.tool.json_schema": json_text(schema)
        for number, schema in enumerate(schemas)
    }


def time_ns(value: Json) -> int | None:
    """A recorded time as Unix nanoseconds: RFC 3339 (without a zone: UTC), or a number since 1970.

    The unit of a number is told by its size.
    """
    if isinstance(value, str) and not value.replace(".", "", 1).isdecimal():
        try:
            when = datetime.fromisoformat(value.strip())
            when = when.replace(tzinfo=UTC) if when.tzinfo is None else when
            return as_ns((when - _EPOCH) // timedelta(microseconds=1) * 1000)
        except (ValueError, OverflowError):
            return None
    number = as_float(value)
    if number is None or number < 1e8:
        return None
    for least, unit in ((1e17, 1), (1e14, 1_000), (1e11, 1_000_000)):
        if number >= least:
            return as_ns(round(number * unit))
    return as_ns(round(number * 1e9))


def json_text(value: Json) -> str:
    """The value as text: text as it is, anything else as JSON; nothing for None."""
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return orjson.dumps(value).decode()
    except (TypeError, ValueError):
        return _content(value).decode("utf-8", "replace")


def content_trace_id(*parts: Json) -> str:
    """A trace id made from content: equal logs are one trace."""
    return sha256_hex(b"\0".join(_content(part) for part in parts))[:32]


def _content(value: Json) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (TypeError, ValueError):
        pass
    try:
        return canonical_json(value)
    except (ValueError, RecursionError):
        return b"too deep"
