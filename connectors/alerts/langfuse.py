"""Read webhooks of Langfuse automations (server 4.16): alerts and prompt versions.

Source: Langfuse docs on alerts and on prompt webhooks, and the server's source, 6275144.
"""

import re

from connectors.alerts.body import BadDelivery
from connectors.alerts.kept import kept, key_of, line_of, title_of
from connectors.alerts.reading import (
    Arrival,
    list_at,
    moment_of,
    name_of,
    object_at,
    text_at,
    value_at,
    window_of,
)
from contracts.alerts import Alert, AlertKind
from contracts.json_types import Json, JsonObject

_CHANGE = re.compile(r"\b(p-[a-z0-9]{1,40}) r([0-9]{1,6})\b")
_NAME_CHARS = 80
_KINDS: dict[str, AlertKind] = {"ALERT": "firing", "WARNING": "firing", "OK": "recovered"}
_MOVES_BY_ITSELF = "latest"


def changes_named(message: str) -> list[tuple[str, int]]:
    """Proposal and revision of every change that a commit message names."""
    return [(proposal, int(revision)) for proposal, revision in _CHANGE.findall(message[:2000])]


def read(body: JsonObject, arrival: Arrival) -> Alert:
    """The delivery, understood.

    Raises:
        BadDelivery: it is of a known type and lacks what makes it one.
    """
    kind = text_at(body, "type")
    if kind == "monitor-alert":
        return _alert(body, arrival)
    if kind == "prompt-version":
        return _prompt(body, arrival)
    return Alert(
        source="langfuse", key=_event_key(body, arrival), group="", kind="firing",
        title=f"Langfuse: {name_of(kind)}", body=kept({"type": name_of(kind)}),
        ignored=f"{name_of(kind)} says nothing about the agent's runs",
    )  # fmt: skip


def _event_key(body: JsonObject, arrival: Arrival) -> str:
    return key_of("event", text_at(body, "id") or arrival.digest)


def _alert(body: JsonObject, arrival: Arrival) -> Alert:
    """An alert's change of severity.

    One evaluation goes out once for each automation, with another id each time, and once more for
    each retry, with the same id. Monitor, severity and end of the window are equal for all of
    these and differ for the next evaluation, so they are the key; the id is kept in the body.
    """
    payload = object_at(body, "payload")
    monitor = text_at(payload, "monitorId")
    if monitor is None:
        raise BadDelivery("payload.monitorId: missing; a monitor-alert names its monitor")
    severity = text_at(payload, "severity") or ""
    end = moment_of(payload.get("toTimestamp"))
    window = window_of(moment_of(payload.get("fromTimestamp")), end, arrival.now)
    key = _event_key(body, arrival)
    if end is not None:
        key = key_of("monitor", monitor, end.isoformat(), name_of(severity))
    ignored = arrival.forgotten(end)
    if severity not in _KINDS:
        ignored = f"severity {name_of(severity)} says neither that it fires nor that it recovered"
    return Alert(
        source="langfuse", key=key, group=key_of(monitor), kind=_KINDS.get(severity, "firing"),
        window=window, ignored=ignored,
        title=title_of(text_at(payload, "message", "title"), f"Langfuse alert {monitor}"),
        body=kept({
            "event": body.get("id"), "monitor": monitor, "severity": severity,
            "message": value_at(payload, "message", "body"), "link": payload.get("permalink"),
            "view": payload.get("view"), "filters": payload.get("filters"),
            "over": payload.get("window"),
        }),
    )  # fmt: skip


def _prompt(body: JsonObject, arrival: Arrival) -> Alert:
    """A prompt version that was made, relabelled or deleted: never a run.

    A label move makes two deliveries, one of them for the version that lost the label.
    """
    prompt = object_at(body, "prompt")
    action = name_of(text_at(body, "action"))
    message = text_at(prompt, "commitMessage") or ""
    labels = [label for label in list_at(prompt, "labels") if isinstance(label, str)]
    name = line_of(text_at(prompt, "name"), _NAME_CHARS) or "(no name)"
    version = prompt.get("version")
    version = version if isinstance(version, int) else None
    # A person in the interface is named; calls with an API key, ours too, are not.
    person = line_of(text_at(body, "user", "name"), _NAME_CHARS)
    which = f"version {version} of the prompt {name}"
    by_us = not body.get("user") and action != "deleted" and arrival.is_ours(message)
    if by_us:
        return _note(body, arrival, ignored=f"our own change of {which}", kind="firing")
    if action == "updated" and not set(labels) - {_MOVES_BY_ITSELF}:
        return _note(body, arrival, ignored=f"{which} lost a label", kind="firing")
    said: dict[str, Json] = {
        "changed": "prompt", "prompt": name, "version": version, "action": action,
        "labels": labels, "by": person or None, "message": message or None,
    }  # fmt: skip
    done = f"{person or 'a caller with an API key'} {action} {which}"
    if labels:
        done += f" ({line_of(', '.join(labels), _NAME_CHARS)})"
    return _note(body, arrival, ignored=done, kind="note", said=said)


def _note(
    body: JsonObject,
    arrival: Arrival,
    *,
    ignored: str,
    kind: AlertKind,
    said: dict[str, Json] | None = None,
) -> Alert:
    return Alert(
        source="langfuse", key=_event_key(body, arrival), group="", kind=kind,
        title=title_of(ignored), body=kept(said or {}), ignored=ignored,
    )  # fmt: skip
