"""Grade one observed run of a case: pass, fail, or missing."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, cast

import regex
from jsonschema.exceptions import ValidationError
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from connectors.traces.tool_arguments import Asked, asked_by_models, recorded_arguments
from contracts.findings import Symptom
from contracts.gate import Case, Graded
from contracts.harness import Observation
from contracts.json_types import Json
from contracts.traces import Span
from memory.assertions import assertion_problem, is_number
from nodes.gate.outage import outage
from nodes.insights.signature import matches

Answer = Literal["yes", "no", "unknown"]
"""Whether an assertion holds. "unknown": not observed, which is never a pass."""

_LONGEST_TEXT = 200_000  # characters of an answer that a pattern is tried on
_PATTERN_S = 1.0  # for one pattern on one answer; over it the answer is unknown
_NUMBER = re.compile(r"[-+]?\d[\d,_]*(?:\.\d+)?(?:[eE][-+]?\d{1,3})?")
_CLASS = re.compile(r"[A-Za-z_][\w.]{0,80}")


def grade(
    case: Case,
    observation: Observation,
    symptoms: Sequence[Symptom],
    outside: Mapping[int, Answer] | None = None,
) -> Graded:
    """Grade a run by the case's assertions; `symptoms` are what the detectors found in its spans.

    `outside` answers assertions that are not ours to answer (`python`, `judge`), by their place
    from 0; one that nobody answered is unknown.

    An agent's own error is a fail. A run that could not be observed, or in which no model could be
    reached, is missing whatever its text says. One assertion that does not hold fails the run;
    else one that nobody can know makes it missing.

    Raises:
        ValueError: the case holds an assertion that this version cannot grade.
    """
    if observation.missing is not None:
        return _graded(observation, "missing", (f"not observed: {_code(observation.missing)}",))
    lost = outage(observation)
    if lost is not None:
        return _graded(observation, "missing", (lost,))
    if observation.error is not None:
        return _graded(observation, "fail", (f"agent error: {_code(observation.error)}",))
    run = Run(observation=observation, symptoms=tuple(symptoms))
    given = outside or {}
    answers = [
        (_name(i + 1, a), given[i] if i in given else _holds(run, a))
        for i, a in enumerate(case.assertions)
    ]
    failed = tuple(name for name, answer in answers if answer == "no")
    unknown = tuple(f"{name}: unknown" for name, answer in answers if answer == "unknown")
    if failed:
        return _graded(observation, "fail", failed)
    return _graded(observation, "missing" if unknown else "pass", unknown)


def _graded(
    observation: Observation, result: Literal["pass", "fail", "missing"], failed: tuple[str, ...]
) -> Graded:
    usage = observation.usage
    return Graded(
        result=result,
        failed=failed,
        cost_usd=usage.cost_usd,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        seconds=observation.seconds,
    )


def _code(text: str) -> str:
    """The leading name of an error. The rest is text of a trace and stays out of reports."""
    match = _CLASS.match(text)
    return match.group() if match else "unnamed"


def _name(number: int, assertion: Mapping[str, Json]) -> str:
    """By kind and place alone: the case may be sealed, and its text is for nobody's eyes."""
    return f"{next(iter(assertion), '?')} (assertion {number})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What the assertions are asked about."""

    observation: Observation
    symptoms: tuple[Symptom, ...]

    @property
    def text(self) -> str:
        """The answer as text; of a structure its JSON, then each text in it as it is."""
        output = self.observation.output
        if isinstance(output, str):
            return output
        whole = json.dumps(output, ensure_ascii=False, sort_keys=True)
        return "\n".join((whole, *(leaf for leaf in _leaves(output) if isinstance(leaf, str))))

    @property
    def tools(self) -> tuple[Span, ...] | None:
        """Tool calls by their start; None: the run left no spans, so nobody knows."""
        trace = self.observation.trace
        if trace is None:
            return None
        calls = (span for span in trace.spans if span.kind == "tool")
        return tuple(sorted(calls, key=lambda span: span.started_at))


def _holds(run: Run, assertion: Mapping[str, Json]) -> Answer:
    problem = assertion_problem(assertion)
    if problem is not None:
        raise ValueError(f"assertion {problem}")
    kind, argument = next(iter(assertion.items()))
    return _CHECKS[kind](run, argument)


def _answer(held: bool) -> Answer:
    return "yes" if held else "no"


def _no_symptom(run: Run, argument: Json) -> Answer:
    if run.observation.trace is None:
        return "unknown"
    lasting = (s.signature for s in run.symptoms if s.counts)
    return _answer(not any(matches(s, str(argument)) for s in lasting))


def _not_empty(run: Run, argument: Json) -> Answer:
    del argument
    leaves = _leaves(run.observation.output)
    return _answer(
        any(leaf.strip() if isinstance(leaf, str) else leaf is not None for leaf in leaves)
    )


def _leaves(value: Json) -> list[bool | int | float | str | None]:
    if isinstance(value, Mapping):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


def _equals(run: Run, argument: Json) -> Answer:
    return _answer(_same(run.observation.output, argument))


def _same(one: Json, other: Json) -> bool:
    """Equal as JSON: `true` is not 1, and 1 is 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other


def _contains(run: Run, argument: Json) -> Answer:
    return _answer(str(argument) in run.text)


def _not_contains(run: Run, argument: Json) -> Answer:
    return _answer(str(argument) not in run.text)


def _regex(run: Run, argument: Json) -> Answer:
    text = run.text
    try:
        found = regex.search(str(argument), text[:_LONGEST_TEXT], timeout=_PATTERN_S)
    except TimeoutError:
        return "unknown"
    return "unknown" if found is None and len(text) > _LONGEST_TEXT else _answer(found is not None)


def _json_schema(run: Run, argument: Json) -> Answer:
    schema = dict(cast("Mapping[str, Json]", argument))
    # An empty registry: a reference to another document is an error, never a download.
    validator = validator_for(schema)(schema, registry=Registry())
    output = run.observation.output
    if isinstance(output, str) and schema.get("type") in {"object", "array"}:
        try:
            output = cast("Json", json.loads(output))
        except (ValueError, RecursionError):
            return "no"
    try:
        validator.validate(output)
    except ValidationError:
        return "no"
    except Unresolvable:
        return "unknown"
    return "yes"


def _number(run: Run, argument: Json) -> Answer:
    wanted: Mapping[str, Json] = argument if isinstance(argument, Mapping) else {"value": argument}
    output = run.observation.output
    if "path" in wanted:
        output = _at(output, str(wanted["path"]))
    found = _first_number(output)
    value, tolerance = cast("float", wanted["value"]), cast("float", wanted.get("tolerance", 0.0))
    return _answer(found is not None and abs(found - value) <= tolerance)


def _at(value: Json, path: str) -> Json:
    """The entry at a dotted path; None where there is none."""
    for key in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(key)
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value


def _first_number(value: Json) -> float | None:
    for leaf in _leaves(value):
        if is_number(leaf):
            return float(cast("float", leaf))
        match = _NUMBER.search(leaf) if isinstance(leaf, str) else None
        if match:
            return float(re.sub("[,_]", "", match.group()))
    return None


def _tool_called(run: Run, argument: Json) -> Answer:
    trace = run.observation.trace
    if trace is None or run.tools is None:
        return "unknown"
    wanted: Mapping[str, Json] = argument if isinstance(argument, Mapping) else {"name": argument}
    calls = [span for span in run.tools if _tool(span) == wanted["name"]]
    args = cast("Mapping[str, Json]", wanted.get("args", {}))
    if not args:
        return _answer(bool(calls))
    asked = asked_by_models(trace)
    found = [arguments(span, asked) for span in calls]
    if any(
        given is not None and all(k in given and _same(given[k], v) for k, v in args.items())
        for given in found
    ):
        return "yes"
    return "unknown" if None in found else "no"


def _tool_not_called(run: Run, argument: Json) -> Answer:
    called = _tool_called(run, argument)
    return {"yes": "no", "no": "yes", "unknown": "unknown"}[called]  # type: ignore[return-value]  # all three are answers


def _tool_order(run: Run, argument: Json) -> Answer:
    """Every named tool was called, each first call after that of the tool named before it."""
    if run.tools is None:
        return "unknown"
    names = [_tool(span) for span in run.tools]
    wanted = [str(name) for name in cast("Sequence[Json]", argument)]
    if any(name not in names for name in wanted):
        return "no"
    firsts = [names.index(name) for name in wanted]
    return _answer(firsts == sorted(firsts))


def _tool(span: Span) -> str:
    return span.tool_name or span.name


def arguments(span: Span, asked: Asked) -> Mapping[str, Json] | None:
    """The arguments of a tool call; None where they were not recorded so that one can read them."""
    found = recorded_arguments(span, asked)
    return found if isinstance(found, Mapping) else None


def _max_seconds(run: Run, argument: Json) -> Answer:
    return _answer(run.observation.seconds <= cast("float", argument))


def _max_usd(run: Run, argument: Json) -> Answer:
    cost = run.observation.usage.cost_usd
    return "unknown" if cost is None else _answer(cost <= cast("float", argument))


def _outside(run: Run, argument: Json) -> Answer:
    """Answered by the operator's function or by a judge; where nobody did, nobody knows."""
    del run, argument
    return "unknown"


_CHECKS: Final[Mapping[str, Callable[[Run, Json], Answer]]] = {
    "no_symptom": _no_symptom,
    "not_empty": _not_empty,
    "equals": _equals,
    "contains": _contains,
    "not_contains": _not_contains,
    "regex": _regex,
    "json_schema": _json_schema,
    "number": _number,
    "tool_called": _tool_called,
    "tool_not_called": _tool_not_called,
    "tool_order": _tool_order,
    "max_seconds": _max_seconds,
    "max_usd": _max_usd,
    "python": _outside,
    "judge": _outside,
}
