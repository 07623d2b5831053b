"""Failing inputs of a finding as cases: what the gate runs to see whether an edit fixes it."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from contracts.findings import Finding
from contracts.gate import Case
from contracts.json_types import JsonObject
from memory.cases import case_id
from memory.families import assign_families
from nodes.insights.facts import MOSTLY, Facts
from nodes.insights.sketch import Sketch


def closing_tool(finding: Finding, passing: Sequence[Sketch]) -> str | None:
    """Among passing runs that called the finding's tool, the last tool that most of them called."""
    facts = Facts(
        kind=finding.kind,
        place=_place(finding),
        code="",
        failing=(),
        passing=tuple(passing),
    )
    runs = facts.passing_callers
    if not runs:
        return None
    needed = MOSTLY * len(runs)
    called = {call.tool for run in runs for call in run.calls if call.ok}
    common = [
        tool
        for tool in called
        if sum(any(c.tool == tool and c.ok for c in run.calls) for run in runs) >= needed
    ]
    if not common:
        return None
    return max(common, key=lambda tool: (_mean_place(tool, runs), tool))


def target_cases(
    finding: Finding,
    failing: Sequence[Sketch],
    passing: Sequence[Sketch],
    *,
    max_targets: int,
    seed: int,
) -> tuple[Case, ...]:
    """One case for each distinct failing input: `target` for one a family, the rest `training`.

    Which families become targets is decided by SHA-256 of seed and family, so that nobody can
    pick them. Without a closing tool a case is graded by absence alone and marked `weak`.
    """
    closing = closing_tool(finding, passing)
    # The mark of a template is left out: detectors of a single run give the key alone. What was
    # merged into the finding fails under its own key.
    names = [finding.signature, *(one.signature for one in finding.merged)]
    keys = dict.fromkeys(name.partition("~")[0] for name in names)
    assertions: list[JsonObject] = [*({"no_symptom": key} for key in keys), {"not_empty": True}]
    if closing is not None:
        assertions.append({"tool_called": {"name": closing}})
    by_id: dict[str, Case] = {}
    for sketch in sorted(failing, key=lambda s: s.trace_id):
        if sketch.request is None:
            continue
        key = case_id(sketch.request)
        by_id.setdefault(
            key,
            Case(
                id=key,
                input=sketch.request,
                assertions=tuple(assertions),
                tags=frozenset({"training"}),
                family="",
                origin=f"trace:{sketch.trace_id}",
                weak=closing is None,
            ),
        )
    cases = assign_families(sorted(by_id.values(), key=lambda case: case.id))
    families = sorted({case.family for case in cases}, key=lambda f: seeded(seed, f))[:max_targets]
    first = {case.family: case.id for case in reversed(cases)}
    chosen = {first[family] for family in families}
    tagged = [
        replace(case, tags=frozenset({"target"})) if case.id in chosen else case for case in cases
    ]
    return tuple(
        sorted(tagged, key=lambda c: ("target" not in c.tags, seeded(seed, c.family), c.id))
    )


def seeded(seed: int, family: str) -> str:
    """The order of families under a plan's seed."""
    return hashlib.sha256(f"{seed}|{family}".encode()).hexdigest()


def _place(finding: Finding) -> str:
    return finding.signature.partition("~")[0].split(":")[1]


def _mean_place(tool: str, runs: Sequence[Sketch]) -> float:
    """How late in a run the tool is called last, 0..1, over the runs that call it."""
    places = []
    for run in runs:
        at = [i for i, call in enumerate(run.calls) if call.tool == tool]
        if at:
            places.append((at[-1] + 1) / len(run.calls))
    return sum(places) / len(places)
