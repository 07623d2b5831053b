"""Read a ping of anything that can send JSON: a cron job, a pipeline, another alert manager."""

from collections.abc import Mapping

from connectors.alerts.body import BadDelivery
from connectors.alerts.kept import kept, key_of, title_of
from connectors.alerts.reading import Arrival, Window, moment_of, text_at, window_of
from contracts.alerts import Alert, AlertKind
from contracts.json_types import JsonObject

BODY_KEY = "body"
"""First part of the key of a ping that has none of its own; the bucket of its time is the last."""
_KINDS: dict[str, AlertKind] = {"firing": "firing", "recovered": "recovered"}


def read(body: JsonObject, arrival: Arrival) -> Alert:
    """The ping, understood.

    Its key is the header `Idempotency-Key` or `key`; without one it is the body's own bytes, and
    `connectors.alerts.repeats` says in which time those are a retry.

    Raises:
        BadDelivery: `status`, `window`, `key` or `group` is not what it should be.
    """
    for name in ("key", "group", "title", "status"):
        if body.get(name) is not None and text_at(body, name) is None:
            raise BadDelivery(f"{name}: needs text, or leave it out")
    status = text_at(body, "status") or "firing"
    if status not in _KINDS:
        raise BadDelivery("status: needs 'firing' or 'recovered', or leave it out")
    kind, group = _KINDS[status], text_at(body, "group")
    said = arrival.said_key or text_at(body, "key")
    key = key_of("key", kind, said) if said else key_of(BODY_KEY, arrival.digest)
    ignored = None
    if kind == "recovered" and group is None:
        ignored = "it recovers nothing: `group` says which trouble is meant"
    return Alert(
        source="generic", key=key, group=key_of("group", group) if group else "", kind=kind,
        window=_window(body, arrival), title=title_of(text_at(body, "title"), "Asked by webhook"),
        body=kept({k: v for k, v in body.items() if k not in ("window", "title", "key")}),
        ignored=ignored,
    )  # fmt: skip


def _window(body: JsonObject, arrival: Arrival) -> Window | None:
    asked = body.get("window")
    if asked is None:
        return None
    found = None
    if isinstance(asked, Mapping):
        start, end = text_at(asked, "start"), text_at(asked, "end")
        found = window_of(moment_of(start), moment_of(end), arrival.now)
    if found is None:
        raise BadDelivery(
            "window: needs start before end in RFC 3339, not in the future, at most 31 days"
        )
    return found
