"""Langfuse's API as far as an agent reads prompts by it; everything else is refused.

Source: Langfuse public API (GET api/public/v2/prompts[/{name}], health, projects) as the Python SDK
5.0.4 calls it; names with "/" come percent-encoded, the default label is `production`.
"""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import unquote

from connectors.probe.loopback import Ask
from connectors.probe.prompts_answers import Answered, not_found, refused, shown
from connectors.probe.prompts_store import PromptError, PromptFiles, StoredPrompt
from contracts.json_types import Json

ROOT: Final = "/api/public/"
_PROMPTS: Final = ("v2/prompts", "prompts")
_DROPPED: Final = ("ingestion", "scores", "media")
"""Telemetry that is not spans: taken, kept nowhere."""


def answer_langfuse(path: str, ask: Ask, files: PromptFiles) -> Answered:
    """The answer to one request; `path` begins behind `ROOT`."""
    what = path.strip("/")
    if ask.method != "GET":
        if what.partition("/")[0] in _DROPPED:
            return Answered.of(207, {"successes": [], "errors": []})
        return refused(ask.method, f"{ROOT}{path}")
    if what in _FIXED:
        return Answered.of(200, _FIXED[what])
    for root in _PROMPTS:
        if what == root:
            return Answered.of(200, _listed(files, ask.query))
        if what.startswith(f"{root}/"):
            return _prompt(unquote(what.removeprefix(f"{root}/")), ask.query, files)
    return not_found(f"{ROOT}{path}")


_FIXED: Final[Mapping[str, Json]] = {
    "health": {"status": "OK", "version": "5.0.0"},
    "projects": {"data": [{
        "id": "tracemend", "name": "tracemend", "metadata": {}, "retentionDays": None,
        "organization": {"id": "tracemend", "name": "tracemend"},
    }]},
}  # fmt: skip


def _prompt(name: str, query: Mapping[str, str], files: PromptFiles) -> Answered:
    if query.get("version"):
        return not_found(name, f"{shown(name)} is read by its version, which no edit changes")
    try:
        stored = files.get(name)
        if stored is not None and query.get("resolve", "true").lower() != "false":
            stored = files.resolved(stored)
    except PromptError as error:
        return not_found(name, shown(str(error)))
    if stored is None:
        return not_found(name, f"the harness has no prompts/{shown(name)}.json")
    label = query.get("label") or "production"
    if not stored.under(label):
        return not_found(name, f"{shown(name)} is read under a label that its file does not name")
    if stored.prompt is None:
        return not_found(name, f"{shown(name)} has only a manifest of LangSmith's")
    return Answered.of(200, _as_langfuse(stored, label))


def _as_langfuse(stored: StoredPrompt, label: str) -> Mapping[str, Json]:
    text = isinstance(stored.prompt, str)
    prompt: Json = stored.prompt
    if stored.prompt is not None and not isinstance(stored.prompt, str):
        prompt = [_message(message) for message in stored.prompt]
    return {
        "id": stored.commit[:24], "name": stored.name, "version": stored.version,
        "type": "text" if text else "chat", "prompt": prompt, "config": stored.config,
        "labels": list(stored.labels) or [label, "latest"], "tags": list(stored.tags),
        "commitMessage": None, "resolutionGraph": None, "projectId": "tracemend",
        "createdBy": "tracemend", "createdAt": _THEN, "updatedAt": _THEN,
    }  # fmt: skip


_THEN: Final = "2026-01-01T00:00:00.000Z"


def _message(message: Mapping[str, Json]) -> Mapping[str, Json]:
    kind = "placeholder" if message.get("type") == "placeholder" else "chatmessage"
    return {**message, "type": kind}


def _listed(files: PromptFiles, query: Mapping[str, str]) -> Mapping[str, Json]:
    wanted = query.get("name")
    found: Sequence[str] = [n for n in files.names() if wanted in (None, n)]
    data: list[Json] = []
    for name in found:
        try:
            stored = files.get(name)
        except PromptError:
            continue
        if stored is not None and stored.prompt is not None:
            data.append({
                "name": name, "type": "text" if isinstance(stored.prompt, str) else "chat",
                "versions": [stored.version], "labels": list(stored.labels) or ["production"],
                "tags": list(stored.tags), "lastUpdatedAt": _THEN, "lastConfig": stored.config,
            })  # fmt: skip
    meta = {"page": 1, "limit": max(len(data), 1), "totalItems": len(data), "totalPages": 1}
    return {"data": data, "meta": meta}
