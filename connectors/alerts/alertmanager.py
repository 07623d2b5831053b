"""Read webhooks of Prometheus Alertmanager (payload version 4); Grafana's have the same fields.

Source: Alertmanager docs, `webhook_config`. The payload names no delivery and no time of its own.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from connectors.alerts.body import BadDelivery
from connectors.alerts.kept import kept, key_of, title_of
from connectors.alerts.reading import (
    Arrival,
    Window,
    list_at,
    moment_of,
    object_at,
    text_at,
)
from contracts.alerts import Alert
from contracts.json_types import Json, JsonObject, canonical_json, sha256_hex

BEFORE_START = timedelta(minutes=5)
"""An alert starts firing after its `for`; what made it fire is older."""


def read(body: JsonObject, arrival: Arrival) -> Alert:
    """The notification, understood.

    The key is the group with the state and start of each of its alerts: a retry and an unchanged
    repeat are the same delivery, one more alert in the group is another one that joins it.

    Raises:
        BadDelivery: it is no notification of Alertmanager.
    """
    group, status = text_at(body, "groupKey"), text_at(body, "status")
    alerts = [alert for alert in list_at(body, "alerts") if object_at(alert)]
    if group is None or status not in ("firing", "resolved") or not alerts:
        raise BadDelivery(
            "groupKey, status, alerts: needs a notification of Alertmanager (payload version 4)"
        )
    firing = [alert for alert in alerts if text_at(alert, "status") != "resolved"]
    recovered = status == "resolved"
    return Alert(
        source="alertmanager", key=key_of("group", group, status, _standing(alerts)),
        group=key_of("group", group), kind="recovered" if recovered else "firing",
        window=None if recovered else _window(firing or alerts, arrival),
        title=title_of(*_names(body, alerts[0]), "Alertmanager"),
        body=kept({
            "status": status, "receiver": body.get("receiver"), "alerts": [
                _shown(object_at(alert)) for alert in alerts
            ],
            "labels": body.get("commonLabels"), "annotations": body.get("commonAnnotations"),
            "link": body.get("externalURL"), "not_sent": body.get("truncatedAlerts"),
        }),
    )  # fmt: skip


def _standing(alerts: Sequence[Json]) -> str:
    """A digest of which alerts are in the group, since when, and how they stand."""
    each: list[Json] = []
    for alert in alerts:
        labels = sha256_hex(canonical_json(object_at(alert, "labels")))
        who = text_at(alert, "fingerprint") or labels
        each.append([who, text_at(alert, "startsAt"), text_at(alert, "status")])
    return sha256_hex(canonical_json(sorted(each, key=canonical_json)))[:32]


def _window(alerts: Sequence[Json], arrival: Arrival) -> Window | None:
    """From shortly before the first alert began until now, as far as the project looks back."""
    starts = [moment for alert in alerts if (moment := _started(alert)) is not None]
    if not starts:
        return None
    start = max(min(starts) - BEFORE_START, arrival.now - arrival.longest)
    return (start, arrival.now) if start < arrival.now else None


def _started(alert: Json) -> datetime | None:
    return moment_of(object_at(alert).get("startsAt"))


def _names(body: JsonObject, alert: Json) -> tuple[str | None, ...]:
    return (
        text_at(body, "commonAnnotations", "summary"),
        text_at(alert, "annotations", "summary"),
        text_at(body, "commonLabels", "alertname"),
        text_at(alert, "labels", "alertname"),
    )


def _shown(alert: JsonObject) -> Json:
    return {key: alert.get(key) for key in ("status", "labels", "startsAt", "fingerprint")}
