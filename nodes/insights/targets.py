"""Failing inputs of a finding as cases: what the gate runs to see whether an edit fixes it."""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from contracts.findings import Finding
from contracts.gate import Case, CaseId, CaseTag
from contracts.json_types import JsonObject
from memory.cases import case_id
from memory.families import assign_families
from nodes.cases.soundness import Soundness, check_case, notes_of
from nodes.cases.witness import NAMELESS, witness_of_sketch
from nodes.insights.facts import Facts
from nodes.insights.habits import last_tool
from nodes.insights.signature import place_part
from nodes.insights.sketch import Sketch


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """The cases of one finding, and why some failing inputs are none."""

    cases: tuple[Case, ...]
    """Targets first, in the order of the seed."""
    notes: tuple[str, ...] = ()
    """What was left out as unsound, in sentences."""
    held_back: int = 0
    """Failing inputs that are not used: relatives of theirs are sealed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """What has to be kept apart while the cases of a finding are chosen."""

    known: tuple[Case, ...] = ()
    """All other cases of the project with their tags of now, and what an editor is about to see as
    training cases."""
    seal_rest: bool = False
    """Keep half of the failing families that are no targets sealed, for claim L3."""


NOTHING_APART = Apart()


def closing_tool(finding: Finding, passing: Sequence[Sketch]) -> str | None:
    """Among passing runs that called the finding's tool, the last tool that most of them called."""
    return last_tool(_callers(finding, passing), NAMELESS)


def target_cases(
    finding: Finding,
    failing: Sequence[Sketch],
    passing: Sequence[Sketch],
    *,
    max_targets: int,
    seed: int,
    apart: Apart = NOTHING_APART,
) -> Targets:
    """One case for each distinct failing input: `target` for one a family, the rest `training`.

    A case is a target only if it fails on its own evidence and clean runs satisfy it; assertions
    that they do not satisfy are left out. Which families become targets is decided by SHA-256 of
    seed and family, so that nobody can pick them; families with a sealed relative come last, so
    that as few as possible leak. Without a closing tool a case is graded by absence alone and
    marked `weak`.
    """
    found = _checked(finding, failing, passing)
    together = assign_families((*apart.known, *(one.case for one in found)))
    known, cases = together[: len(apart.known)], together[len(apart.known) :]
    sound = frozenset(one.case.id for one in found if one.sound)
    roles = _Roles(cases, known, sound, seed, max_targets, seal_rest=apart.seal_rest)
    tagged = [(case, roles.tag(case)) for case in cases]
    kept = [replace(case, tags=frozenset({tag})) for case, tag in tagged if tag is not None]
    return Targets(
        cases=tuple(
            sorted(kept, key=lambda c: ("target" not in c.tags, seeded(seed, c.family), c.id))
        ),
        notes=notes_of(found),
        held_back=len(cases) - len(kept),
    )


def _checked(
    finding: Finding, failing: Sequence[Sketch], passing: Sequence[Sketch]
) -> list[Soundness]:
    """A case a distinct input, by id, with the assertions that are sound."""
    closing = closing_tool(finding, passing)
    # The mark of a template is left out: detectors of a single run give the key alone. What was
    # merged into the finding fails under its own key.
    names = [finding.signature, *(one.signature for one in finding.merged)]
    keys = dict.fromkeys(name.partition("~")[0] for name in names)
    assertions: list[JsonObject] = [*({"no_symptom": key} for key in keys), {"not_empty": True}]
    if closing is not None:
        assertions.append({"tool_called": {"name": closing}})
    clean = [witness_of_sketch(sketch) for sketch in passing]
    alike = frozenset(
        call.tool for run in _callers(finding, passing) for call in run.calls
        if _place(finding) in (call.tool, place_part(call.tool))
    )  # fmt: skip
    found: dict[CaseId, Soundness] = {}
    for sketch in sorted(failing, key=lambda s: s.trace_id):
        if sketch.request is None or case_id(sketch.request) in found:
            continue
        case = Case(
            id=case_id(sketch.request),
            input=sketch.request,
            assertions=tuple(assertions),
            tags=frozenset({"training"}),
            family="",
            origin=f"trace:{sketch.trace_id}",
            issue=finding.signature,
        )
        checked = check_case(case, witness_of_sketch(sketch), clean, alike=alike)
        weak = not any("tool_called" in one for one in checked.case.assertions)
        found[case.id] = replace(checked, case=replace(checked.case, weak=weak))
    return [found[key] for key in sorted(found)]


class _Roles:
    """Which cases of a finding are targets, which train, which are sealed, which are not used."""

    def __init__(
        self,
        cases: Sequence[Case],
        known: Sequence[Case],
        sound: Collection[CaseId],
        seed: int,
        max_targets: int,
        *,
        seal_rest: bool,
    ) -> None:
        self._seen = {c.family for c in known if c.tags & {"target", "training"}}
        self._sealed = {c.family for c in known if "sealed" in c.tags} - self._seen
        first = {case.family: case.id for case in reversed(cases) if case.id in sound}
        order = sorted(first, key=lambda family: (family in self._sealed, seeded(seed, family)))
        free = [family for family in order if family not in self._sealed] or order[:1]
        self._targets = {first[family] for family in free[:max_targets]}
        self._chosen = set(free[:max_targets])
        rest = [family for family in free[max_targets:] if family not in self._seen]
        self._kept_back = set(rest[: (len(rest) + 1) // 2]) if seal_rest else set[str]()

    def tag(self, case: Case) -> CaseTag | None:
        """What the case is for; None: it is not used, since that would cost a sealed case."""
        if case.id in self._targets:
            return "target"
        if case.family in self._kept_back:
            return "sealed"
        if case.family in self._sealed and case.family not in self._chosen:
            return None
        return "training"


def seeded(seed: int, family: str) -> str:
    """The order of families under a plan's seed."""
    return hashlib.sha256(f"{seed}|{family}".encode()).hexdigest()


def _callers(finding: Finding, passing: Sequence[Sketch]) -> list[Sketch]:
    """Passing runs that called the finding's tool."""
    return Facts(
        kind=finding.kind, place=_place(finding), code="", failing=(), passing=tuple(passing)
    ).passing_callers


def _place(finding: Finding) -> str:
    return finding.signature.partition("~")[0].split(":")[1]
