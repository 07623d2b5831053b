"""LangSmith's API as far as an agent pulls prompts by it; everything else is refused.

Source: LangSmith API as the Python SDK 0.15.1 calls it: `pull_prompt_commit` gets
/commits/{owner}/{repo}/{commit or tag}, `get_prompt` /repos/{owner}/{repo}, its tracer /info first.
An owner of one's own is written "-".
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, cast
from urllib.parse import unquote

from langchain_core.load import dumpd
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate

from connectors.probe.loopback import Ask
from connectors.probe.prompts_answers import Answered, not_found, refused, shown
from connectors.probe.prompts_store import PromptError, PromptFiles, StoredPrompt
from contracts.json_types import Json, canonical_json, sha256_hex

_HASH: Final = re.compile(r"[0-9a-f]{8,64}")
_THEN: Final = "2026-01-01T00:00:00+00:00"
_DROPPED: Final = ("feedback",)
_ID: Final = "00000000-0000-4000-8000-000000000000"
_INFO: Final[Mapping[str, Json]] = {
    "version": "0.0.0", "license_expiration_time": None, "instance_flags": {},
    "batch_ingest_config": {
        "use_multipart_endpoint": False, "scale_up_qsize_trigger": 1000,
        "scale_up_nthreads_limit": 1, "scale_down_nempty_trigger": 4, "size_limit": 100,
        "size_limit_bytes": 16 * 1024 * 1024,
    },
}  # fmt: skip
"""Makes SDKs send runs as plain JSON."""
_FIXED: Final[Mapping[str, Json]] = {
    "info": _INFO,
    "settings": {
        "id": _ID, "display_name": "tracemend", "created_at": _THEN, "tenant_handle": None,
    },
}  # fmt: skip


def answer_langsmith(path: str, ask: Ask, files: PromptFiles) -> Answered:
    """The answer to one request; `path` may begin with /api/v1."""
    parts = [unquote(part) for part in path.removeprefix("/api/v1").strip("/").split("/")]
    if ask.method != "GET":
        if parts[0] in _DROPPED:
            return Answered.of(200, {"id": "00000000-0000-0000-0000-000000000000"})
        return refused(ask.method, path)
    if len(parts) == 1 and parts[0] in _FIXED:
        return Answered.of(200, _FIXED[parts[0]])
    return _read(parts, ask.query, files) or not_found(path)


def _read(parts: Sequence[str], query: Mapping[str, str], files: PromptFiles) -> Answered | None:
    """The answer to a read of a prompt or a skill; None: it is none."""
    match parts:
        case ["commits", owner, repo]:
            return _commit(owner, repo, None, files, model=False)
        case ["commits", owner, repo, which]:
            return _commit(owner, repo, which, files, model=_with_model(query))
        case ["repos", owner, repo]:
            return _repo(owner, repo, files)
        case ["platform", "hub", "repos", _, repo, "directories"]:
            return _directory(repo, query, files)
        case ["v1", "platform", "hub", "repos", _, repo, "directories"]:
            return _directory(repo, query, files)
        case _:
            return None


def _directory(repo: str, query: Mapping[str, str], files: PromptFiles) -> Answered:
    """A skill's files as the harness has them. Of an agent it has the texts alone."""
    if query.get("repo_type") == "agent":
        return not_found(
            repo, f"the agent {shown(repo)} is pulled whole; the harness has its texts"
        )
    found = files.folder(f"skills/{repo}/")
    if not found:
        return not_found(repo, f"the harness has no skills/{shown(repo)}/")
    if query.get("commit"):
        return not_found(repo, f"the skill {shown(repo)} is read by a commit, not as it is newest")
    entries: dict[str, Json] = {}
    for name, data in sorted(found.items()):
        try:
            entries[name] = {"type": "file", "content": data.decode()}
        except UnicodeDecodeError:
            return not_found(repo, f"skills/{shown(repo)}/{shown(name)} is no text in UTF-8")
    commit = sha256_hex(
        b"".join(canonical_json([name, sha256_hex(d)]) for name, d in found.items())
    )
    return Answered.of(200, {"commit_hash": commit, "commit_id": _uuid(commit), "files": entries})


def _stored(owner: str, repo: str, files: PromptFiles) -> StoredPrompt | Answered:
    """The prompt, by its name or with the owner before it."""
    try:
        stored = (
            files.get(repo) if owner == "-" else files.get(f"{owner}/{repo}") or files.get(repo)
        )
    except PromptError as error:
        return not_found(repo, shown(str(error)))
    return stored or not_found(repo, f"the harness has no prompts/{shown(repo)}.json")


def _with_model(query: Mapping[str, str]) -> bool:
    """Whether the agent asks for the model that a prompt was saved with, too."""
    return query.get("include_model", "").lower() == "true" or "model" in query.get("include", "")


def _commit(
    owner: str, repo: str, which: str | None, files: PromptFiles, *, model: bool
) -> Answered:
    stored = _stored(owner, repo, files)
    if isinstance(stored, Answered):
        return stored
    if which is not None and which != stored.commit and (why := _past_it(stored, which)):
        return not_found(repo, f"{shown(repo)} is read {why}")
    try:
        manifest = _answered(stored.manifest or manifest_of(stored), model=model)
    except (ValueError, TypeError, KeyError, ImportError):
        return not_found(repo, f"prompts/{shown(repo)}.json is no template of LangChain's")
    found: Mapping[str, Json] = {
        "commit_hash": stored.commit, "manifest": manifest, "examples": [], "description": None,
        "model_config": None, "model_provider": None,
    }  # fmt: skip
    if which is None:  # the list of commits
        listed = {**found, "id": _ID, "created_at": _THEN, "updated_at": _THEN, "num_downloads": 0,
                  "num_views": 0, "parent_commit_hash": None, "example_run_ids": [],
                  "repo_id": _ID, "manifest_id": _ID, "full_name": repo}  # fmt: skip
        return Answered.of(200, {"commits": [listed], "total": 1})
    return Answered.of(200, found)


def _past_it(stored: StoredPrompt, which: str) -> str | None:
    """Why an edit of the prompt would not reach who reads it so; None: it would."""
    if _HASH.fullmatch(which):
        return "by its commit, which no edit changes"
    if stored.under(which):
        return None
    newest = "as its newest commit, and an edit moves the tag"
    return newest if which == "latest" else "under a tag that its file does not name"


def _answered(manifest: Mapping[str, Json], *, model: bool) -> Mapping[str, Json]:
    """As the hub answers: of a prompt with a model the prompt alone, unless it is asked for."""
    names, kwargs = manifest.get("id"), manifest.get("kwargs")
    if model or not isinstance(names, list) or names[-1:] != ["RunnableSequence"]:
        return manifest
    first = kwargs.get("first") if isinstance(kwargs, Mapping) else None
    return first if isinstance(first, Mapping) else manifest


def _repo(owner: str, repo: str, files: PromptFiles) -> Answered:
    stored = _stored(owner, repo, files)
    if isinstance(stored, Answered):
        return stored
    return Answered.of(200, {"repo": {
        "repo_handle": repo, "description": None, "readme": None, "id": _uuid(repo),
        "tenant_id": _ID, "created_at": _THEN, "updated_at": _THEN, "is_public": False,
        "is_archived": False, "tags": list(stored.tags), "owner": None if owner == "-" else owner,
        "full_name": repo, "num_likes": 0, "num_downloads": 0, "num_views": 0,
        "last_commit_hash": stored.commit, "num_commits": 1,
    }})  # fmt: skip


def _uuid(name: str) -> str:
    digits = sha256_hex(name.encode("utf-8", "surrogatepass"))
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"


def manifest_of(stored: StoredPrompt) -> Mapping[str, Json]:
    """A text or chat prompt as LangSmith would keep it.

    Raises:
        ValueError: its braces are no template, or a message has no role.
        KeyError: the same.
    """
    prompt, form = stored.prompt, stored.template_format
    template: PromptTemplate | ChatPromptTemplate
    if isinstance(prompt, str):
        template = PromptTemplate.from_template(prompt, template_format=form)
    else:
        messages = [
            MessagesPlaceholder(str(m["name"]))
            if m.get("type") == "placeholder"
            else (str(m["role"]), str(m["content"]))
            for m in prompt or ()
        ]
        template = ChatPromptTemplate.from_messages(messages, template_format=form)
    return cast("Mapping[str, Json]", dumpd(template))
