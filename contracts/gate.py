"""Cases, the gate's plan, its blocks and its report (see docs/gate.md for the statistics)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NewType

from contracts.harness import Revision
from contracts.json_types import Json, JsonObject

CaseId = NewType("CaseId", str)
CaseTag = Literal["target", "training", "sealed", "guard", "critical"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An input with named assertions. Two cases of one family share a near-duplicate input."""

    id: CaseId
    input: Json
    assertions: tuple[JsonObject, ...]
    """Each `{kind: argument}`; all must hold."""
    tags: frozenset[CaseTag]
    family: str
    origin: str
    """`file:<name>` or `trace:<id>`."""
    weak: bool = False
    """Graded by absence alone, so an agent that does nothing could pass."""


Verdict = Literal["accept", "reject", "inconclusive", "invalid"]
"""Only "accept" leads to apply by itself. "inconclusive" is never treated as a pass."""

RunResult = Literal["pass", "fail", "missing"]
"""A missing run is no fail and no pass: its block is repeated, at most twice."""

ClaimName = Literal["L1", "L2", "G", "K", "L3"]
ClaimState = Literal["held", "not_held", "unknown", "not_asked"]
Phase = Literal["target", "sealed", "critical", "guard"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCase:
    """One family in the plan: the member that is run, and how often in each arm."""

    case: CaseId
    family: str
    fingerprint: str
    """SHA-256 of the canonical case; the only thing a card shows of a sealed one."""
    repeats: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePlan:
    """The approved part of a plan: frozen before the first run and hashed into the proposal."""

    purpose: Literal["fix", "simplify"] = "fix"
    profile: Literal["starter", "standard", "strict"] = "standard"
    base: Revision
    candidate: Revision
    targets: tuple[PlannedCase, ...]
    sealed: tuple[PlannedCase, ...]
    """In the order in which they run: SHA-256 of seed and family."""
    critical: tuple[PlannedCase, ...] = ()
    guards: tuple[CaseId, ...] = ()
    """Protected cases (ten stored baseline runs or more, at least nine passes)."""
    alpha: float
    """Level of this use, for L1 and L2 each."""
    target_alpha: float | None = None
    """Level of L1 where the uses of this issue's targets set another one; None: `alpha`."""
    use: int
    """Which use of the sealed set this is assumed to be, from 1."""
    uses: int
    margin_asked: float
    margin: float
    """The smallest the sealed cases can prove at power .80, or the asked one if that is larger."""
    discordance: float
    """Assumed share of discordant cases."""
    looks: tuple[tuple[int, float], ...]
    """(cases, level) of each look at the sealed set."""
    cost_margin: float = 0.25
    seed: int
    max_runs: int
    max_usd: float
    max_seconds: float
    deadline_s: float
    agent_model: str | None = None
    judge_model: str | None = None
    notes: tuple[str, ...] = ()
    """What the plan can and cannot prove, in sentences for the card."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """One graded run of one arm."""

    result: RunResult
    failed: tuple[str, ...] = ()
    """Assertions that did not hold, or why the run is missing."""
    cost_usd: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One run of each arm on one case, close in time, in random order. Stored whole or not at all.

    A block with a missing run stays stored with its attempt number and is repeated as the next
    attempt, at most twice. In a guard's screen only the candidate runs and `baseline` is None.
    """

    phase: Phase
    case: CaseId
    index: int
    """Which repeat, from 0."""
    attempt: int
    """From 0 to 2."""
    first: Literal["B", "C"]
    baseline: Graded | None
    candidate: Graded

    @property
    def missing(self) -> bool:
        """Whether some run of the block could not be observed."""
        return self.candidate.result == "missing" or (
            self.baseline is not None and self.baseline.result == "missing"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim of the gate with its test."""

    name: ClaimName
    state: ClaimState
    p: float | None
    level: float | None
    detail: str
    """One sentence for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReport:
    """The verdict and everything a person needs to judge it."""

    verdict: Verdict
    reason: str
    """First failing claim or cause, such as `not fixed`, `harm not excluded`, `use_taken`."""
    claims: tuple[Claim, ...]
    plan_hash: str
    runs: int
    """Single runs of an arm, missing ones included."""
    planned_runs: int
    target_passes: tuple[int, int, int]
    """(baseline passes, candidate passes, runs an arm) over the target cases."""
    sealed: tuple[int, int, int]
    """(b, c, n): sealed cases only the candidate passes, only the baseline passes, all."""
    sealed_passes: tuple[int, int]
    sealed_interval: tuple[float, float] | None
    """Two-sided 95 % interval of the sealed change, for display only."""
    proven_margin: float
    cost_ratio: tuple[float, float] | None
    """(estimate, one-sided upper bound) of candidate over baseline cost per passing run."""
    spent_usd: float | None
    worse: tuple[str, ...]
    """Target cases that pass less often, by id; sealed ones by fingerprint."""
    needed: str | None
    """For an inconclusive verdict: how many more cases or repeats it would take."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What memory keeps of one proposal: finding, cause, edit, decision and reason, outcome."""

    id: str
    finding_id: str
    signature: str
    cause: str
    edit: str
    """The author and the changed paths; never sealed text."""
    decision: str
    reason: str | None
    outcome: str
    """The proposal's state (applied, rejected, expired, stuck, undone …), `gate: not accepted`, or
    what a watch saw (too_few, fell, not_fallen)."""
    at: datetime
    facts: Mapping[str, Json] = field(default_factory=dict)
