"""Read webhooks of LangSmith: alerts, rules, Engine issues, Context Hub commits.

Source: LangSmith docs on alert webhooks, rule webhooks and Engine notifications, 30 Nov 2026.
Nothing here carries a signed time: what was seen before is known by its key, and what is older
than deliveries are remembered starts nothing.
"""

from datetime import datetime, timedelta

from connectors.alerts.body import BadDelivery
from connectors.alerts.kept import kept, key_of, line_of, title_of
from connectors.alerts.reading import (
    Arrival,
    Window,
    list_at,
    moment_of,
    name_of,
    object_at,
    text_at,
    window_of,
)
from contracts.alerts import Alert
from contracts.json_types import Json, JsonObject

ALERT_WINDOW = timedelta(minutes=15)
"""The longer of the two windows that an alert can have; which one it has is not in its body."""
_MAX_MINUTES = 1440
_MAX_RUNS = 100
_NAME_CHARS = 80


def read(body: JsonObject, arrival: Arrival) -> Alert:
    """The delivery, understood.

    Raises:
        BadDelivery: it is of a known kind and lacks what makes it one.
    """
    kind = text_at(body, "type") or ""
    if "alert_rule_id" in body:
        return _threshold(body, arrival)
    if "rule_id" in body:
        return _rule(body, arrival)
    if kind in ("issue.created", "issue.trace.added"):
        return _issue(body, arrival)
    if kind.startswith("context_hub.commit."):
        return _commit(body, arrival)
    # `issue.agent_run.failed` comes here: Engine's own scan failed, which is no news of the agent.
    return Alert(
        source="langsmith", key=_event_key(body, arrival), group="", kind="firing",
        title=f"LangSmith: {name_of(kind)}", body=kept({"type": name_of(kind)}),
        ignored=f"{name_of(kind)} says nothing about the agent's runs",
    )  # fmt: skip


def _event_key(body: JsonObject, arrival: Arrival) -> str:
    return key_of("event", text_at(body, "id") or arrival.digest)


def _threshold(body: JsonObject, arrival: Arrival) -> Alert:
    """A threshold alert. It has no id of its own: the rule and its time are one firing."""
    rule = text_at(body, "alert_rule_id")
    if rule is None:
        raise BadDelivery("alert_rule_id: needs the id of the alert's rule")
    fired_at = moment_of(body.get("timestamp"))
    key = key_of("alert", rule, fired_at.isoformat() if fired_at else arrival.digest)
    window = None
    if fired_at is not None:
        window = window_of(fired_at - _looked_back(body), fired_at, arrival.now)
    name = text_at(body, "alert_rule_name")
    return Alert(
        source="langsmith", key=key, group=key_of("alert", rule), kind="firing", window=window,
        title=title_of(f"LangSmith alert {name}" if name else None, f"LangSmith alert {rule}"),
        ignored=arrival.forgotten(fired_at),
        body=kept({
            "rule": rule, "project": body.get("project_name"),
            "measured": body.get("alert_rule_attribute"), "description":
            body.get("alert_rule_description"), "value": body.get("triggered_metric_value"),
            "threshold": body.get("triggered_threshold"), "link": body.get("alert_rule_url"),
            "runs_link": body.get("runs_url"),
        }),
    )  # fmt: skip


def _looked_back(body: JsonObject) -> timedelta:
    """What the alert's own body template says as `window_minutes`, else `ALERT_WINDOW`."""
    minutes = body.get("window_minutes")
    if isinstance(minutes, int) and not isinstance(minutes, bool) and 0 < minutes <= _MAX_MINUTES:
        return timedelta(minutes=minutes)
    return ALERT_WINDOW


def _rule(body: JsonObject, arrival: Arrival) -> Alert:
    """Runs that matched an automation. Their ids are hints; their texts are not kept."""
    rule, start = text_at(body, "rule_id"), moment_of(body.get("start_time"))
    if rule is None or start is None:
        raise BadDelivery("rule_id, start_time: a rule's webhook names its rule and its time")
    end = moment_of(body.get("end_time"))
    runs = list_at(body, "runs")
    return Alert(
        source="langsmith", key=key_of("rule", rule, start.isoformat()),
        group=key_of("rule", rule), kind="firing", window=window_of(start, end, arrival.now),
        title=title_of(f"LangSmith rule {rule}: {len(runs)} runs matched"),
        ignored=arrival.forgotten(end or start),
        body=kept({
            "rule": rule, "matched": len(runs), "feedback": body.get("feedback_stats"),
            "runs": [text_at(run, "id") for run in runs[:_MAX_RUNS]],
            "traces": sorted({t for run in runs[:_MAX_RUNS] if (t := text_at(run, "trace_id"))}),
        }),
    )  # fmt: skip


def _issue(body: JsonObject, arrival: Arrival) -> Alert:
    """An issue that Engine opened, or one more trace for it."""
    issue, trace = object_at(body, "data", "object"), object_at(body, "data", "trace")
    issue_id = text_at(issue, "id")
    if issue_id is None:
        raise BadDelivery("data.object.id: missing; an issue's webhook names its issue")
    created = moment_of(body.get("created"))
    name = text_at(issue, "name")
    return Alert(
        source="langsmith", key=_event_key(body, arrival), group=key_of("issue", issue_id),
        kind="firing", window=_around(trace, created, arrival),
        title=title_of(f"LangSmith issue: {name}" if name else None, f"LangSmith {issue_id}"),
        ignored=arrival.forgotten(created),
        body=kept({
            "issue": issue_id, "description": issue.get("description"),
            "severity": issue.get("severity"), "project": issue.get("session_name"),
            "link": issue.get("url"), "request": body.get("request_id"),
            "run": trace.get("run_id"), "trace": trace.get("trace_id"),
        }),
    )  # fmt: skip


def _around(trace: JsonObject, created: datetime | None, arrival: Arrival) -> Window | None:
    """From the issue's trace to the message about it; None, the project's window, without one."""
    start = moment_of(trace.get("start_time"))
    return window_of(start, created, arrival.now)


def _commit(body: JsonObject, arrival: Arrival) -> Alert:
    """A commit in Context Hub: a text of the agent changed. Never a run."""
    commit = object_at(body, "data", "commit")
    author = line_of(text_at(commit, "created_by"), _NAME_CHARS) or "somebody"
    repository = line_of(text_at(commit, "repo_handle"), _NAME_CHARS) or "(no name)"
    what = name_of(text_at(commit, "repo_type"))
    files: list[Json] = [text_at(file, "path") for file in list_at(commit, "files_changed")]
    done = f"{author} committed to the {what} {repository}"
    return Alert(
        source="langsmith", key=_event_key(body, arrival), group="", kind="note",
        title=title_of(done), ignored=done,
        body=kept({
            "changed": what, "repository": repository, "commit": commit.get("commit_hash"),
            "parent": commit.get("parent_commit_hash"), "files": files, "by": author,
        }),
    )  # fmt: skip
