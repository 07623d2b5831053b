"""What runs that work do, as parameters for an edit: tools, numbers, the form of an argument."""

from dataclasses import replace

from contracts.findings import TEXT_REMEDIES, Diagnosis
from contracts.json_types import Json
from nodes.cases.witness import NAMELESS
from nodes.insights.facts import SAFE_VALUE, Facts, typical_argument
from nodes.insights.habits import MIN_RUNS, first_tool, last_tool, tool_before
from nodes.insights.sketch import MAX_CALLS


def with_observed(diagnosis: Diagnosis, facts: Facts) -> Diagnosis:
    """The diagnosis with what runs that work show; what a rule said itself stays.

    `usual` and `closing` are the tools that most of them call first and last, `steps` the calls
    that the longest of them made, `before` the tool that they call right before this one, and
    `argument`, `shape` and `good_example` how they write an argument.
    Nothing is added below five such runs, nor to a diagnosis that no text can mend.
    """
    if not TEXT_REMEDIES.intersection(diagnosis.remedies):
        return diagnosis
    found: dict[str, Json] = {**_of_runs(facts), **_of_tool(diagnosis, facts)}
    safe = {
        key: value
        for key, value in found.items()
        if value is not None and (not isinstance(value, str) or SAFE_VALUE.match(value))
    }
    return replace(diagnosis, parameters=safe | dict(diagnosis.parameters))


def _of_runs(facts: Facts) -> dict[str, Json]:
    runs = facts.passing_callers if facts.tools else facts.passing
    if len(runs) < MIN_RUNS:
        return {}
    longest = max(len(run.calls) for run in runs)
    return {
        "usual": first_tool(runs, facts.tools | NAMELESS),
        "closing": last_tool(runs, facts.tools | NAMELESS),
        "steps": longest if 0 < longest < MAX_CALLS else None,
    }


def _of_tool(diagnosis: Diagnosis, facts: Facts) -> dict[str, Json]:
    if not facts.tools or not facts.good:
        return {}
    found: dict[str, Json] = {"before": tool_before(facts.passing_callers, facts.tools)}
    known = diagnosis.cause == "wrong_argument_format" or "argument" in diagnosis.parameters
    form = None if known else typical_argument(facts)
    if form is not None and form.good_example is not None:
        found |= {
            "argument": form.argument, "shape": form.shape, "good_example": form.good_example
        }  # fmt: skip
    return found
