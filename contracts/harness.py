"""The agent's editable text at one revision, and what a probe saw when the agent ran with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NewType

from contracts.json_types import Json, sha256_hex
from contracts.traces import Trace

Revision = NewType("Revision", str)
"""SHA-256 over the sorted lines `path NUL mode NUL sha256` of a harness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessFile:
    """Exact bytes and permission bits (such as 0o644) of one file."""

    data: bytes
    mode: int = 0o644

    @property
    def sha256(self) -> str:
        """Of the bytes."""
        return sha256_hex(self.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessSnapshot:
    """All harness files by POSIX path relative to the root."""

    files: Mapping[str, HarnessFile]
    origin: str | None = field(default=None, compare=False)
    """What the place itself calls this state (a git commit, versions of prompts); None: a folder
    calls it nothing. No part of the revision."""

    @property
    def revision(self) -> Revision:
        """Equal files, modes and paths have equal revisions."""
        lines = sorted(f"{p}\0{f.mode:04o}\0{f.sha256}" for p, f in self.files.items())
        return Revision(sha256_hex("\n".join(lines).encode("utf-8", "surrogateescape")))

    def changed(self, other: "HarnessSnapshot") -> tuple[str, ...]:
        """Paths whose bytes, mode or presence differ between the two, sorted."""
        paths = set(self.files) | set(other.files)
        return tuple(sorted(p for p in paths if self.files.get(p) != other.files.get(p)))


Standing = Literal["before", "after", "mixed", "foreign"]
"""Where a target stands between two snapshots. "mixed": each file is its before or its after.
"foreign": some file is neither, so somebody else wrote it."""

EffectKind = Literal["apply", "undo"]
EffectState = Literal["intended", "done", "aborted", "stuck"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Why a change is made and who allowed it, as a target's own log may keep it.

    Made of what the ledger holds, so that the same effect is always told the same.
    """

    title: str
    """One line about the change, cleaned."""
    finding: str
    proposal: str
    revision: int
    approver: str
    gate_report: str | None
    """Hash of the gate's report; None: nothing was tested (an undo)."""
    at: datetime
    """When the decision was made."""
    undoes: str | None = None
    """The release that is taken back."""
    undoes_origin: str | None = None
    """What the target called the state that is taken back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetChange:
    """One entry of a target's own history."""

    origin: str
    """What the target calls the state after it: a commit, a version of a prompt."""
    at: datetime | None
    by: str | None
    message: str
    effect: str | None
    """Key of the effect of ours that made it; None: somebody else did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One change of one target, made at most once; `key` is made of the other identifying parts."""

    key: str
    kind: EffectKind
    project: str
    proposal_hash: str
    decision_id: str
    target: str
    before: Revision
    after: Revision
    state: EffectState = "intended"
    reason: str | None = None
    about: Provenance | None = field(default=None, compare=False)
    """None: not known here; a target that keeps a log writes the key alone."""


def effect_key(kind: EffectKind, proposal_hash: str, decision_id: str, target: str) -> str:
    """SHA-256 of the identifying parts joined by `|`."""
    return sha256_hex("|".join((kind, proposal_hash, decision_id, target)).encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one run of the agent used; None is unknown, never zero."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a probe saw in one run. It observes; grading is ours.

    Exactly one of three things is true: `missing` is set (the run could not be observed: the
    worker died, broke the protocol, or the provider was down), `error` is set (the agent failed:
    an exception, its own timeout), or `output` is the agent's answer.
    """

    output: Json = None
    error: str | None = None
    missing: str | None = None
    usage: Usage = field(default_factory=Usage)
    trace: Trace | None = None
    """Spans of the run, when the worker wrote any."""
    seconds: float = 0.0
