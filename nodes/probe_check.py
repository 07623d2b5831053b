"""Run the agent once as a gate would: what the probe saw, and what of it would stop a gate."""

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from configs.gate_settings import ProbeSettings
from connectors.probe.environment import ENVIRONMENT
from contracts.errors import UsageError
from contracts.findings import Symptom
from contracts.gate import Case, CaseId, RunResult
from contracts.harness import Observation, Revision
from contracts.json_types import Json
from memory.workspace import Workspace
from nodes.casebook import read_casebook
from nodes.gate.outage import outage
from nodes.gate.outside import answers
from nodes.gate.score import Answer, grade
from nodes.insights.detect.all import detect_trace
from nodes.ports import open_harness, open_probe

NO_CASE: Final = CaseId("input")
_NEAR_DEADLINE: Final = 0.8  # share of the deadline beyond which a slower hour fails runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Asserted:
    """One assertion of the case by itself."""

    kind: str
    answer: Answer | None
    """None: not asked, since the run has no answer that it could be asked of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What one run showed."""

    case: Case
    spec: ProbeSettings
    revision: Revision
    seen: Observation
    again: Observation | None
    """The same case with another seed; None: it was not run twice."""
    symptoms: tuple[Symptom, ...]
    result: RunResult
    failed: tuple[str, ...]
    """What did not hold, or why the run is missing."""
    asserted: tuple[Asserted, ...]

    @property
    def spans(self) -> dict[str, int] | None:
        """Spans by kind; None: there is no trace."""
        trace = self.seen.trace
        if trace is None:
            return None
        kinds = Counter(span.kind for span in trace.spans if not span.virtual)
        return dict(sorted(kinds.items()))

    @property
    def tools(self) -> tuple[str, ...]:
        """Tools in the order in which they were called."""
        trace = self.seen.trace
        if trace is None:
            return ()
        calls = sorted((s for s in trace.spans if s.kind == "tool"), key=lambda s: s.started_at)
        return tuple(span.tool_name or span.name for span in calls)


def chosen_case(ws: Workspace, name: str | None) -> Case:
    """The case of this id; without one the first that may be looked at.

    Raises:
        UsageError: there is none, or it is sealed.
        ConfigError: a case file cannot be used.
    """
    cases = {str(case.id): case for case in read_casebook(ws).cases}
    open_ones = {key: case for key, case in cases.items() if "sealed" not in case.tags}
    if name is None:
        if not open_ones:
            raise UsageError(
                'there is no case to run yet; give an input: --input \'{"message": "hi"}\''
            )
        return next(iter(open_ones.values()))
    if name in open_ones:
        return open_ones[name]
    if name in cases:
        raise UsageError(
            f"{name} is sealed: to look at a run of it would open it; take another case, or --input"
        )
    near = difflib.get_close_matches(name, open_ones, n=1)
    raise UsageError(f"no case {name!r}{f'; is it {near[0]!r}?' if near else ''}")


def case_of_input(value: Json) -> Case:
    """A case without assertions: it passes when it is observed."""
    return Case(
        id=NO_CASE, input=value, assertions=(), tags=frozenset(), family="", origin="input",
        weak=True,
    )  # fmt: skip


async def check_probe(ws: Workspace, case: Case, *, seed: int, twice: bool) -> Check:
    """Run the case with the harness as it is now, and grade it as the gate does.

    Raises:
        ConfigError: no probe is configured.
        ProbeError: the agent cannot be started.
        ConnectorError: the harness cannot be read.
    """
    harness = await open_harness(ws).read()
    again: Observation | None = None
    async with open_probe(ws) as probe:
        spec = _spec(ws)
        seen = await probe.run(case.input, harness, seed=seed, deadline_s=spec.timeout_s)
        if twice:
            again = await probe.run(case.input, harness, seed=seed + 1, deadline_s=spec.timeout_s)
    symptoms = tuple(detect_trace(seen.trace)) if seen.trace is not None else ()
    outside = await answers(ws, case, seen)
    graded = grade(case, seen, symptoms, outside)
    asked = seen.missing is None and seen.error is None and outage(seen) is None
    asserted = []
    for place, assertion in enumerate(case.assertions):
        answer: Answer | None = None
        if asked:
            alone = replace(case, assertions=(assertion,))
            given = {0: outside[place]} if place in outside else None
            answer = _ANSWERS[grade(alone, seen, symptoms, given).result]
        asserted.append(Asserted(kind=next(iter(assertion), "?"), answer=answer))
    return Check(
        case=case, spec=spec, revision=harness.revision, seen=seen, again=again,
        symptoms=symptoms, result=graded.result, failed=graded.failed, asserted=tuple(asserted),
    )  # fmt: skip


_ANSWERS: Final[dict[RunResult, Answer]] = {"pass": "yes", "fail": "no", "missing": "unknown"}


def _spec(ws: Workspace) -> ProbeSettings:
    spec = ws.settings.probe
    if spec is None:  # open_probe refused it already
        raise UsageError("probe: missing")
    return spec


def hints(check: Check) -> tuple[str, ...]:
    """What of this run would keep a gate from accepting, or should be known; one line each."""
    seen = check.seen
    if seen.missing is not None:
        return (
            "the run could not be observed: a block that stays missing after two repeats is scored "
            "against the edit, and over 5 % of them make the gate invalid",
        )
    lost = outage(seen)
    if lost is not None:
        return (f"{lost}: such runs are missing; is the model's key let through `probe.env`?",)
    found = [*_of_usage(check), *_of_spans(check), *_of_assertions(check), *_of_seeds(check)]
    if seen.error == "timeout":
        found.insert(0, f"over its deadline of {check.spec.timeout_s:g} s (`probe.timeout_s`)")
    elif seen.seconds > _NEAR_DEADLINE * check.spec.timeout_s:
        found.insert(0, f"close to its deadline of {check.spec.timeout_s:g} s: a slower hour fails")
    return tuple(found)


def _of_usage(check: Check) -> list[str]:
    if check.seen.usage.cost_usd is not None:
        return []
    return [
        "no cost (`usage.cost_usd`): the claim on cost stays unknown, and the gate cannot accept"
    ]


def _of_spans(check: Check) -> list[str]:
    trace = check.seen.trace
    if trace is None:
        return [
            "no spans: assertions about tools and symptoms stay unknown, and a run with one is "
            "missing; mined cases always have one"
        ]
    found = []
    if not trace.own:
        found.append(
            f"the spans do not carry the mark of our runs (environment {ENVIRONMENT}, or "
            "tracemend.run_id): where they are also recorded, they would count as evidence"
        )
    asks = any(one.kind in _ABOUT_TOOLS for one in check.asserted)
    if asks and not check.tools:
        found.append("the spans hold no tool call, and the case asks about tools")
    return found


_ABOUT_TOOLS: Final = frozenset({"tool_called", "tool_not_called", "tool_order"})


def _of_assertions(check: Check) -> list[str]:
    found = []
    for place, one in enumerate(check.asserted, start=1):
        if one.answer == "unknown":
            why = _WHY_UNKNOWN.get(one.kind, "what it asks about was not observed")
            found.append(f"assertion {place} ({one.kind}) is unknown: {why}")
    if check.case.weak and check.asserted:
        found.append("the case is graded by absence alone: an agent that does nothing could pass")
    return found


_WHY_UNKNOWN: Final = {
    "judge": "`gate.judge.model` names no model, or it could not tell",
    "python": "the function did not answer yes or no",
    "max_usd": "the agent told no cost",
}


def _of_seeds(check: Check) -> Sequence[str]:
    if check.again is None or check.again.missing is not None:
        return ()
    if (check.again.output, check.again.error) != (check.seen.output, check.seen.error):
        return (
            "two seeds gave two answers: the agent is not deterministic, so target cases need "
            "several blocks each",
        )
    return (
        "two seeds gave one answer: fine where the agent is deterministic; where it calls a model, "
        "see that no cache answers",
    )
