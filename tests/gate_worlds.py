"""Small gates to test with: cases, plans, and blocks written as words."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from contracts.gate import (
    Block,
    Case,
    CaseId,
    CaseTag,
    Exemption,
    GatePlan,
    Graded,
    PlannedCase,
    Quarantined,
    RunResult,
)
from contracts.harness import Revision
from memory.case_runs import Passes
from memory.cases import fingerprint
from nodes.gate.design import Profile, Purpose, design_plan
from nodes.gate.schedule import BlockToRun, Finished, next_step


def case(
    name: str,
    tag: CaseTag = "target",
    family: str | None = None,
    *,
    issue: str | None = None,
    also: CaseTag | None = None,
) -> Case:
    return Case(
        id=CaseId(name),
        input={"message": name},
        assertions=({"not_empty": True},),
        tags=frozenset({tag, also or tag}),
        family=family or f"family of {name}",
        origin="file:cases/a.yaml",
        issue=issue,
    )


def cases(count: int, tag: CaseTag = "target") -> list[Case]:
    return [case(f"c-{tag}-{i}", tag) for i in range(count)]


def stable(*groups: Sequence[Case], passes: int = 10, runs: int = 10) -> dict[str, Passes]:
    """Stored baseline runs by which all these cases pass so often."""
    return {
        fingerprint(each): Passes(passes=passes, runs=runs) for group in groups for each in group
    }


def designed(
    targets: int,
    sealed: int,
    *,
    purpose: Purpose = "fix",
    guards: Sequence[Case] = (),
    runs: Mapping[str, Passes] | None = None,
    issue: str | None = None,
    of_issue: int = 0,
    sealed_repeats: int = 1,
    listed_rounds: int = 0,
    tokens: tuple[int, int] | None = None,
    exempt: Sequence[Exemption] = (),
    quarantined: Mapping[CaseId, Quarantined] | None = None,
    uses: int = 1,
    use: int = 1,
    issue_use: int = 1,
    margin: float = 0.10,
    seed: int = 7,
    max_runs: int = 10_000,
    repeats: int | None = None,
    profile: Profile = "standard",
    critical: Sequence[Case] = (),
    discordance: float | None = None,
) -> GatePlan:
    unseen = cases(sealed, "sealed")
    known = [replace(each, issue=issue) for each in unseen[:of_issue]]
    return design_plan(
        base=Revision("base"),
        candidate=Revision("candidate"),
        targets=cases(targets),
        sealed=[*known, *unseen[of_issue:]],
        critical=critical,
        purpose=purpose,
        guards=guards,
        runs=runs or {},
        issue=issue,
        sealed_repeats=sealed_repeats,
        listed_rounds=listed_rounds,
        tokens=tokens,
        exempt=exempt,
        quarantined=quarantined or {},
        profile=profile,
        margin=margin,
        uses=uses,
        use=use,
        issue_use=issue_use,
        max_targets=50,
        max_runs=max_runs,
        max_usd=1_000.0,
        max_seconds=3_600.0,
        deadline_s=30.0,
        seed=seed,
        discordance=discordance,
        repeats=repeats,
    )


def one_look(
    plan: GatePlan, *, alpha: float | None = None, margin: float | None = None
) -> GatePlan:
    """The plan with one look at all its sealed cases."""
    level = alpha or plan.alpha
    looks = ((len(plan.sealed), level),) if plan.sealed else ()
    return replace(
        plan, alpha=level, target_alpha=None, looks=looks, margin=margin or plan.margin,
        profile="standard" if plan.sealed else plan.profile,
    )  # fmt: skip


def graded(result: RunResult, cost_usd: float | None = 0.01) -> Graded:
    return Graded(result=result, cost_usd=cost_usd, seconds=1.0)


def block(
    planned: PlannedCase | BlockToRun, baseline: RunResult, candidate: RunResult, *,
    phase: str | None = None, index: int = 0, attempt: int = 0,
    cost_b: float | None = 0.01, cost_c: float | None = 0.01,
) -> Block:  # fmt: skip
    if isinstance(planned, BlockToRun):
        return Block(
            phase=planned.phase, case=planned.case, index=planned.index, attempt=planned.attempt,
            first=planned.first, candidate=graded(candidate, cost_c),
            baseline=graded(baseline, cost_b) if "B" in planned.arms else None,
        )  # fmt: skip
    return Block(
        phase="sealed" if phase == "sealed" else "target", case=planned.case, index=index,
        attempt=attempt, first="B", baseline=graded(baseline, cost_b),
        candidate=graded(candidate, cost_c),
    )  # fmt: skip


def fixing(plan: GatePlan) -> list[Block]:
    """Every target block: the baseline fails, the candidate passes."""
    return [block(c, "fail", "pass", index=i) for c in plan.targets for i in range(c.repeats)]


def sealed_blocks(plan: GatePlan, *, won: int = 0, lost: int = 0, missing: int = 0) -> list[Block]:
    """All sealed blocks: first the won, then the lost, then the missing ones, the rest ties."""
    found: list[Block] = []
    for i, planned in enumerate(plan.sealed):
        if won + lost <= i < won + lost + missing:
            found += [
                block(planned, "pass", "missing", phase="sealed", attempt=a) for a in range(3)
            ]
            continue
        results: tuple[RunResult, RunResult] = ("pass", "pass")
        if i < won + lost:
            results = ("fail", "pass") if i < won else ("pass", "fail")
        found.append(block(planned, *results, phase="sealed"))
    return found


Answers = Callable[[BlockToRun], Block]


def drive(
    plan: GatePlan, answer: Answers, *, spent_seconds: float = 0.0
) -> tuple[Finished, list[Block]]:
    """Run a gate to its end as the node does: store what `next_step` asks for, ask again."""
    stored: list[Block] = []
    for _ in range(10_000):
        step = next_step(plan, stored, spent_seconds=spent_seconds, spent_usd=None)
        if isinstance(step, Finished):
            return step, stored
        assert step.blocks, "work without blocks never ends"
        stored += [answer(todo) for todo in step.blocks]
    raise AssertionError("the gate never ends")


def coin(rng: random.Random, rate: float) -> RunResult:
    return "pass" if rng.random() < rate else "fail"
