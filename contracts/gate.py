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
    issue: str | None = None
    """Signature of the finding that the input once failed with; None: of no known issue."""


Verdict = Literal["accept", "reject", "inconclusive", "invalid"]
"""Only "accept" leads to apply by itself. "inconclusive" is never treated as a pass."""

RunResult = Literal["pass", "fail", "missing"]
"""A missing run is no fail and no pass: its block is repeated, at most twice."""

ClaimName = Literal["L1", "L2", "G", "K", "L3", "LK"]
"""LK: no harm on the listed sealed cases themselves (starter); reported, never asked for."""
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
    protected: bool = False
    """A stable pass under the baseline (ten stored runs or more, at least nine passes)."""
    of_issue: bool = False
    """A sealed case of the finding that the edit is for: L3 is about these."""
    hidden: bool = False
    """A guard or critical case that is sealed as well: reports name it by fingerprint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exemption:
    """A named person lets a critical case fail that also fails under the baseline."""

    case: CaseId
    by: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """A case left out in both arms because its surroundings are flaky; decided before the gate."""

    fingerprint: str
    owner: str
    until: datetime
    phase: Phase


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
    guards: tuple[PlannedCase, ...] = ()
    """Protected cases that are neither target nor sealed: the operator's own guards."""
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
    listed_rounds: int = 0
    """Starter: rounds over the sealed cases, for what can be said of these cases alone (LK)."""
    tokens: tuple[int, int] | None = None
    """Purpose simplify: tokens of the edited files before and after."""
    exempt: tuple[Exemption, ...] = ()
    quarantined: tuple[Quarantined, ...] = ()
    weak_targets: int = 0
    """Target cases graded by absence alone."""
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
    attempt, at most twice. Where only the candidate runs (a critical case, a guard's first run and
    its screen) `baseline` is None. Places of phase "guard": index 0 is the first run of the
    operator's own guards, 1 to 3 the screen, 4 to 13 the test. Places of phase "critical": below
    the case's repeats the candidate alone; ten more, of both arms, only after a failure.
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
class Conditions:
    """What else a gate's verdict hangs on beside its plan and blocks. Any set text: INVALID."""

    opening_alpha: float | None = None
    """Level of the opening entry; INVALID `use_taken` where it is not the plan's."""
    use_taken: bool = False
    """Another gate took the use of the sealed set that this plan assumed."""
    leaked: tuple[str, ...] = ()
    """Fingerprints of sealed cases found in the edit or in what its author was shown."""
    mismatch: str | None = None
    """How the plan, an arm or a case differs from what was approved."""
    judge: str | None = None
    """Why the judge's answers cannot be used, such as "kappa .41, at least .60 is needed"."""
    self_test: str | None = None
    """What the gate's last check of itself found wrong."""


NO_CONDITIONS = Conditions()
"""Nothing is known against the gate."""

CaseState = Literal[
    "passed", "better", "same", "worse", "signal", "cleared", "confirmed", "failed", "exempt",
    "missing",
]  # fmt: skip
"""better, same, worse: how often a target passes, before and after; no test of its own. passed: a
guard or critical case never failed. signal: the candidate failed, not tested yet. cleared,
confirmed: what the guard's test found. failed: a critical failure; exempt: a named person lets it
pass, since it fails without the edit too. missing: too little was observed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseOutcome:
    """One case before and after; a sealed one by fingerprint, and only where a guard was tested."""

    name: str
    phase: Phase
    before: tuple[int, int] | None
    """(passes, runs) of the baseline; None: it was not run."""
    after: tuple[int, int]
    state: CaseState
    p: float | None = None
    """Of a guard's test, after Holm."""


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
    cases: tuple[CaseOutcome, ...] = ()
    """Targets, guards and critical cases one by one; sealed ones only where a guard was tested."""
    cost_per_pass: tuple[float | None, float | None] = (None, None)
    """(baseline, candidate) USD a passing sealed run; None is unknown."""
    cost_per_run: tuple[float | None, float | None] = (None, None)
    latency_p95: tuple[float, float] | None = None
    """(baseline, candidate) seconds over the sealed runs; reported, not asked for."""
    listed: tuple[float, int, float] | None = None
    """LK: (last e-value, complete rounds, smallest margin shown on the listed cases or 1.0)."""
    e_value: float | None = None
    """Last of the e-process on the sealed differences at the plan's margin."""
    spent_seconds: float = 0.0
    """Sum over all runs."""
    in_words: tuple[str, ...] = ()
    """What was reached, in sentences for somebody who is no statistician."""
    not_tested: tuple[str, ...] = ()
    """What this gate says nothing about."""


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
