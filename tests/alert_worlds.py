"""Deliveries of every sender, made up, and an arrival to read them at."""

from datetime import UTC, datetime, timedelta
from typing import Any

from connectors.alerts.reading import Arrival
from connectors.alerts.senders import READERS
from contracts.alerts import Alert, HookSource

NOW = datetime(2026, 11, 24, 9, 30, tzinfo=UTC)


def arrival(**changes: Any) -> Arrival:
    """A delivery of this moment to a project with the usual settings."""
    usual: dict[str, Any] = {
        "now": NOW, "longest": timedelta(hours=24), "kept": timedelta(days=90), "digest": "d" * 64,
    }  # fmt: skip
    return Arrival(**{**usual, **changes})


def read(source: HookSource, body: dict[str, Any], **changes: Any) -> Alert:
    """The body as this source's reader understands it."""
    return READERS[source](body, arrival(**changes))


MONITOR: dict[str, Any] = {
    "id": "3b1c2f", "timestamp": "2026-11-24T09:29:30.000Z", "type": "monitor-alert",
    "apiVersion": "v1", "payload": {
        "monitorId": "mon-desk", "projectId": "pr-1", "severity": "ALERT",
        "permalink": "https://traces.example/alerts/mon-desk",
        "message": {"title": "[ALERT] desk is slow", "body": "p95 is above 9 s"},
        "fromTimestamp": "2026-11-24T09:14:00.000Z", "toTimestamp": "2026-11-24T09:29:00.000Z",
        "view": "observations", "window": "15m", "filters": [
            {"type": "string", "column": "name", "operator": "=", "value": "answer"},
        ],
    },
}  # fmt: skip
PROMPT: dict[str, Any] = {
    "id": "77aa01", "type": "prompt-version", "action": "updated",
    "user": {"name": "Noa", "email": "noa@example.com"}, "prompt": {
        "id": "prm-3", "name": "desk/greeting", "version": 4, "labels": ["production"],
        "prompt": "Greet {{name}}.", "commitMessage": "shorter", "type": "text", "tags": [],
    },
}  # fmt: skip
THRESHOLD: dict[str, Any] = {
    "project_name": "desk", "workspace_name": "shop", "alert_rule_id": "al-1",
    "alert_rule_name": "too many errors", "alert_rule_type": "threshold",
    "alert_rule_attribute": "error_count", "triggered_metric_value": 12, "triggered_threshold": 5,
    "alert_rule_url": "https://smith.example/al-1", "runs_url": "https://smith.example/runs",
    "timestamp": "2026-11-24T09:28:00Z",
}  # fmt: skip
RULE: dict[str, Any] = {
    "rule_id": "ru-1", "start_time": "2026-11-24T09:20:00", "end_time": "2026-11-24T09:25:00",
    "runs": [
        {"id": "run-1", "trace_id": "tr-1", "inputs": {"ask": "where is my parcel"}},
        {"id": "run-2", "trace_id": "tr-1"},
    ],
}  # fmt: skip
ISSUE: dict[str, Any] = {
    "id": "ev-1", "type": "issue.trace.added", "created": int(NOW.timestamp()) - 60,
    "request_id": "rq-1", "data": {
        "object": {"id": "is-1", "name": "asks twice", "description": "d", "severity": 1},
        "trace": {"run_id": "run-9", "trace_id": "tr-9", "start_time": "2026-11-24T09:10:00Z"},
    },
}  # fmt: skip
COMMIT: dict[str, Any] = {
    "id": "ev-2", "type": "context_hub.commit.created.v1", "created": int(NOW.timestamp()),
    "data": {"commit": {
        "repo_handle": "desk-manners", "repo_type": "skill", "commit_hash": "c0ffee",
        "parent_commit_hash": "beef", "created_by": "Noa",
        "files_changed": [{"path": "SKILL.md", "action": "modified"}],
    }},
}  # fmt: skip
NOTIFICATION: dict[str, Any] = {
    "version": "4", "groupKey": '{}:{alertname="DeskErrors"}', "truncatedAlerts": 0,
    "status": "firing", "receiver": "tracemend", "externalURL": "http://am.example",
    "commonLabels": {"alertname": "DeskErrors"}, "commonAnnotations": {"summary": "desk fails"},
    "alerts": [
        {"status": "firing", "labels": {"alertname": "DeskErrors", "pod": "a"},
         "startsAt": "2026-11-24T09:12:00.123456789Z", "endsAt": "0001-01-01T00:00:00Z",
         "fingerprint": "f1"},
        {"status": "firing", "labels": {"alertname": "DeskErrors", "pod": "b"},
         "startsAt": "2026-11-24T10:20:00+01:00", "fingerprint": "f2"},
    ],
}  # fmt: skip
PING: dict[str, Any] = {
    "title": "nightly look", "group": "nightly", "key": "nightly-2026-11-24",
    "window": {"start": "2026-11-23T22:00:00Z", "end": "2026-11-24T06:00:00+00:00"},
    "pipeline": {"run": 81},
}  # fmt: skip

SENT: dict[HookSource, list[dict[str, Any]]] = {
    "langfuse": [MONITOR, PROMPT],
    "langsmith": [THRESHOLD, RULE, ISSUE, COMMIT],
    "alertmanager": [NOTIFICATION],
    "generic": [PING],
}
