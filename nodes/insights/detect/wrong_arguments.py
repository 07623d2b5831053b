"""A tool is asked for with arguments that its own declaration does not know.

Meaning: the model misread the tool: a name that the tool's schema does not declare, an argument
without a name, or a declared argument that must be there and is missing.
Evidence: the model call that asked (its answer), and the declaration as the trace carries it
(schemas of function calling, or the list of tools in the prompt).
Counted where an argument has no name or is missing, or where the declaration refuses others. An
undeclared name alone is a hint: many hosts drop it. A hint too where the tool's own failure tells
of it already.
Limits: tools whose declaration was not recorded, and calls with positional arguments only, are
not judged. Values are not checked against types.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence

from contracts.findings import Symptom
from contracts.json_types import Json
from nodes.insights.detect.answers import parsed
from nodes.insights.detect.contracts import Offered
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.runs import Run, Turn
from nodes.insights.detect.view import View

KIND = "wrong_arguments"


def wrong_arguments(view: View, symptoms: Sequence[Symptom]) -> Iterator[Hit]:
    """One hit for each tool and turn that asked for it wrongly."""
    told = {s.span_id for s in symptoms if s.counted}
    for run in view.runs:
        for turn in run.turns:
            for offered, given in _asked(run, turn):
                problem = _problem(offered, given)
                if problem is None:
                    continue
                code, words, sure = problem
                known = any(c.span.id in told for c in turn.tools if c.tool == offered.name)
                known = known or turn.call.id in told
                yield Hit(
                    kind=KIND,
                    span=turn.call,
                    message=f"{offered.name} was asked for {words}",
                    field="output",
                    place=offered.name,
                    code=code,
                    template=f"asked for with {code} arguments",
                    counted=False if known or not sure else None,
                )


def _asked(run: Run, turn: Turn) -> Iterator[tuple[Offered, frozenset[str]]]:
    seen: set[tuple[str, frozenset[str]]] = set()
    for name, given in (*_native(turn), *_in_code(turn)):
        offered = run.offered.get(name)
        if offered is not None and offered.parameters is not None and (name, given) not in seen:
            seen.add((name, given))
            yield offered, given


def _native(turn: Turn) -> Iterator[tuple[str, frozenset[str]]]:
    for name, raw in turn.asked:
        value: Json = parsed(raw)
        if isinstance(value, Mapping):
            yield name, frozenset(value)


def _in_code(turn: Turn) -> Iterator[tuple[str, frozenset[str]]]:
    """Calls with keyword arguments only: of others nobody knows which parameter is meant."""
    for node in turn.nodes:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and not node.args
            and all(k.arg is not None for k in node.keywords)
        ):
            yield node.func.id, frozenset(k.arg for k in node.keywords if k.arg is not None)


def _problem(offered: Offered, given: frozenset[str]) -> tuple[str, str, bool] | None:
    """(code, words, whether it is a failure for sure)."""
    declared = offered.parameters or frozenset()
    if any(not name.strip() for name in given - declared):
        return "unnamed", "with an argument that has no name", True
    missing = offered.required - given
    if missing:
        return "missing", f"without {', '.join(sorted(missing)[:3])}, which it needs", True
    undeclared = given - declared
    if undeclared:
        names = ", ".join(sorted(undeclared)[:3])
        return "undeclared", f"with {names}, which it does not declare", offered.closed
    return None
