"""What the fake of LangSmith's hub keeps: repositories, commits and tags, as it shows them."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from contracts.json_types import Json

TENANT = "11111111-1111-4111-8111-111111111111"
OTHER = "22222222-2222-4222-8222-222222222222"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class HubCommit:
    """A commit of a prompt (`manifest`) or of a folder (`files`)."""

    id: str
    hash: str
    parent: str | None
    manifest: Json
    files: Mapping[str, Json]
    description: str | None
    at: str
    by: str


@dataclass(slots=True, kw_only=True)
class HubRepo:
    """One repository. Commits are oldest first; tags are by name the id of their commit."""

    handle: str
    kind: str
    tenant: str = TENANT
    public: bool = False
    commits: list[HubCommit] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    was: dict[str, str] = field(default_factory=dict)
    """Where each tag pointed to before."""

    @property
    def head(self) -> HubCommit | None:
        """The newest commit."""
        return self.commits[-1] if self.commits else None

    def find(self, which: str) -> HubCommit | None:
        """By tag, `latest`, or a hash that may be shortened."""
        if which == "latest":
            return self.head
        if len(which) >= 8:
            for commit in self.commits:
                if commit.hash.startswith(which):
                    return commit
        return self.by_id(self.tags.get(which, ""))

    def by_id(self, commit_id: str) -> HubCommit | None:
        """By id."""
        return next((c for c in self.commits if c.id == commit_id), None)


def merged(files: Mapping[str, Json], changes: Mapping[str, Json]) -> dict[str, Json]:
    """Files with changes; None removes one."""
    both = {**files, **changes}
    return {path: entry for path, entry in both.items() if entry is not None}


def without_model(manifest: Json) -> Json:
    """What the hub answers unless it is asked for the model too: a sequence's prompt alone."""
    if isinstance(manifest, dict) and isinstance(names := manifest.get("id"), list):
        kwargs = manifest.get("kwargs")
        if names[-1:] == ["RunnableSequence"] and isinstance(kwargs, dict):
            return kwargs.get("first")
    return manifest


def row_of(repo: HubRepo, commit: HubCommit) -> Json:
    """A commit in a listing."""
    parent = next((c for c in repo.commits if c.hash == commit.parent), None)
    return {
        "id": commit.id, "commit_hash": commit.hash, "parent_commit_hash": commit.parent,
        "parent_id": parent.id if parent else None, "description": commit.description,
        "created_at": commit.at, "updated_at": commit.at, "full_name": commit.by,
        "repo_id": uuid_of(repo.handle), "manifest_id": commit.id, "example_run_ids": [],
        "num_downloads": 0, "num_views": 0,
    }  # fmt: skip


def shown(repo: HubRepo) -> Json:
    """A repository as it is answered."""
    return {
        "id": uuid_of(repo.handle), "repo_handle": repo.handle, "repo_type": repo.kind,
        "tenant_id": repo.tenant, "owner": None, "full_name": repo.handle, "description": None,
        "readme": None, "is_public": repo.public, "is_archived": False, "tags": [],
        "created_at": BEGIN.isoformat(), "updated_at": BEGIN.isoformat(), "num_likes": 0,
        "num_downloads": 0, "num_views": 0, "num_commits": len(repo.commits),
        "last_commit_hash": repo.head.hash if repo.head else None,
    }  # fmt: skip


def uuid_of(seed: str) -> str:
    """The same id for the same seed."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, seed))
