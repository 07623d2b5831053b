"""Rules that say what probably causes a finding, where a fix belongs, and what would refute it."""

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches

from configs.taxonomy import taxonomy
from contracts.findings import Diagnosis, Remedy
from contracts.json_types import Json
from nodes.insights.facts import (
    SAFE_VALUE,
    Facts,
    argument_contrast,
    attempts,
    name_contrast,
    named_prerequisite,
    order_contrast,
)

GAVE_UP_AFTER = 4  # the first call and three retries
MIN_CALLS = 4  # calls from which "it never once worked" is concluded
_ARGUMENT_WORDS = (
    "invalid", "must ", "expected", "format", "unexpected keyword", "required", "missing",
    "validation", "not a valid", "unknown", "not found", "no such", "look like", "malformed",
    "typeerror", "valueerror", "keyerror", "bad request",
)  # fmt: skip
_ARGUMENT_CODES = frozenset(
    {"TypeError", "ValueError", "KeyError", "ValidationError", "400", "404", "422"}
)
_ACCESS_CODES = frozenset({"401", "403", "407"})
_NO_SUCH_TOOL = re.compile(
    r"not a valid tool|no tool (?:is )?(?:registered|named)|unknown tool|tool not found"
)
_NO_PROGRAM = re.compile(
    r"command not found|\bsh: (?:\d+: )?\S+: not found|no module named|permission denied"
)

Rule = Callable[[Facts], Diagnosis | None]


def diagnose(facts: Facts) -> Diagnosis:
    """The first rule of the kind that holds; the kind's default cause where none does."""
    for rule in _RULES.get(facts.kind, ()):
        found = rule(facts)
        if found is not None:
            return found
    return _default(facts)


def _made(
    cause: str,
    confidence: float,
    summary: str,
    falsifier: str,
    parameters: Mapping[str, Json],
    *,
    remedies: tuple[Remedy, ...] | None = None,
) -> Diagnosis:
    safe = {
        key: value
        for key, value in parameters.items()
        if value is not None and (not isinstance(value, str) or SAFE_VALUE.match(value))
    }
    return Diagnosis(
        cause=cause,
        remedies=remedies or taxonomy().causes[cause].remedies,
        confidence=confidence,
        summary=summary,
        falsifier=falsifier,
        parameters=safe,
    )


def _timeout(facts: Facts) -> Diagnosis:
    tool = facts.place
    parameters: dict[str, Json] = {"tool": tool, "status": facts.code or None}
    tried = attempts(facts)
    if not facts.good and len(facts.bad) >= MIN_CALLS:
        return _made(
            "tool_unavailable", 0.8,
            f"{tool} timed out in all {len(facts.bad)} sampled calls: no instruction helps.",
            f"A successful call of {tool} in the same window.",
            parameters,
        )  # fmt: skip
    if tried >= GAVE_UP_AFTER:
        return _made(
            "tool_unavailable", 0.75,
            f"{tool} timed out and the agent already tried {tried} times before it gave up.",
            f"Runs that give up on {tool} after a single try.",
            parameters,
        )  # fmt: skip
    worked = len(facts.good)
    return _made(
        "tool_timeout", 0.8 if worked else 0.6,
        f"{tool} times out now and then ({worked} of {worked + len(facts.bad)} sampled calls work),"
        f" and the agent gives up after {_times(tried)}.",
        f"Repeating a timed-out call of {tool} does not work any better.",
        parameters,
    )  # fmt: skip


def _times(tried: int) -> str:
    return "one try" if tried <= 1 else f"{tried} tries"


def _no_such_tool(facts: Facts) -> Diagnosis | None:
    named = facts.code in ("ToolNotFoundError", "UnknownToolError")
    if not named and not _NO_SUCH_TOOL.search(facts.notes):
        return None
    near = _nearest(facts)
    hint = f"; the nearest that exists is {near}" if near else ""
    return _made(
        "unknown_tool", 0.85,
        f"The model calls {facts.place}, a tool that does not exist{hint}.",
        f"A run in which {facts.place} is offered to the model.",
        {"tool": facts.place, "nearest": near},
    )  # fmt: skip


def _nearest(facts: Facts) -> str | None:
    offered = sorted({name for sketch in facts.failing for name in sketch.offered})
    close = get_close_matches(facts.place, offered, n=1, cutoff=0.6)
    return close[0] if close else None


def _argument(facts: Facts) -> Diagnosis | None:
    """A wrong name or shape of an argument, told from successful calls or the tool's schema."""
    spoken = facts.code in _ARGUMENT_CODES or any(word in facts.notes for word in _ARGUMENT_WORDS)
    named = name_contrast(facts)
    if named is not None and spoken:
        sent = f"`{named.sent}`" if named.sent else "something else"
        takes = ", ".join(f"`{name}`" for name in named.takes[:8]) or "no arguments"
        return _made(
            "wrong_argument_format", 0.85,
            f"{facts.place} takes {takes}; the failing calls send {sent}.",
            f"A call of {facts.place} with what it takes fails in the same way.",
            {"tool": facts.place, "argument": named.argument, "bad_example": named.sent,
             "good_example": named.argument},
        )  # fmt: skip
    shape = argument_contrast(facts)
    if shape is None or not spoken:
        return None
    return _made(
        "wrong_argument_format", 0.85 if shape.bad >= 2 else 0.65,
        f"{facts.place} is called with `{shape.argument}` in another form than the"
        f" {shape.good} sampled calls that work have (like {_said(shape.shape)}).",
        f"A call of {facts.place} with `{shape.argument}` like {_said(shape.shape)} fails as well.",
        {"tool": facts.place, "argument": shape.argument, "shape": shape.shape,
         "bad_example": shape.bad_example, "good_example": shape.good_example},
    )  # fmt: skip


def _said(shape: str) -> str:
    return shape if SAFE_VALUE.match(shape) else "theirs"


def _prerequisite(facts: Facts) -> Diagnosis | None:
    found = order_contrast(facts)
    if found is None:
        return _named_prerequisite(facts)
    return _made(
        "missing_prerequisite", 0.85 if len(facts.failing) >= 3 else 0.7,
        f"{found.passing[0]} of {found.passing[1]} sampled passing runs call {found.prerequisite}"
        f" before {facts.place}; of the failing ones {found.failing[0]} of {found.failing[1]} do.",
        f"Runs that call {found.prerequisite} first and still fail at {facts.place}.",
        {"tool": facts.place, "prerequisite": found.prerequisite},
    )  # fmt: skip


def _named_prerequisite(facts: Facts) -> Diagnosis | None:
    name = named_prerequisite(facts)
    if name is None:
        return None
    skipped = sum(not any(c.tool == name and c.ok for c in s.calls) for s in facts.failing)
    if skipped < len(facts.failing):
        return None  # it was called, and the failure came all the same
    return _made(
        "missing_prerequisite", 0.75,
        f"{facts.place} says that {name} has to come first; none of {skipped} sampled failing runs"
        " calls it.",
        f"Runs that call {name} first and still fail at {facts.place}.",
        {"tool": facts.place, "prerequisite": name},
    )  # fmt: skip


def _tool(facts: Facts) -> Diagnosis:
    tool = facts.place
    parameters: dict[str, Json] = {"tool": tool, "status": facts.code or None}
    if facts.code in _ACCESS_CODES:
        return _made(
            "access_refused", 0.8,
            f"{tool} refuses access ({facts.code}): a credential or a right is missing.",
            f"A successful call of {tool} with the same credential.",
            parameters,
        )  # fmt: skip
    if _NO_PROGRAM.search(facts.notes):
        return _made(
            "tool_failure", 0.6,
            f"{tool} fails since something is missing in its environment.",
            f"The same call of {tool} works in the same environment.",
            parameters, remedies=("infrastructure", "instructions", "tool"),
        )  # fmt: skip
    return _made(
        "tool_failure", 0.5,
        f"{tool} fails by itself: no difference in how it is called was found.",
        f"A change of how {tool} is called makes it work.",
        parameters,
    )  # fmt: skip


def _malformed(facts: Facts) -> Diagnosis:
    if facts.bad or any(call.tool == facts.place for s in facts.failing for call in s.calls):
        return _made(
            "malformed_tool_output", 0.8,
            f"{facts.place} answers with what should be JSON and cannot be parsed.",
            f"The whole answer of {facts.place} parses, and only the record of it is cut.",
            {"tool": facts.place},
        )  # fmt: skip
    return _made(
        "malformed_answer", 0.6,
        f"The model at {facts.place} does not keep to the output format that the host parses.",
        "The host parses the same text without complaint.",
        {"tool": facts.place},
    )  # fmt: skip


def _unfinished(facts: Facts) -> Diagnosis:
    if facts.code == "unclosed":
        return _made(
            "unfinished", 0.5,
            f"{facts.place} has no end: the process died, hung, or its last spans were lost.",
            "A late export that brings the missing end.",
            {"tool": facts.place},
        )  # fmt: skip
    if facts.code == "length":
        return _made(
            "answer_cut_off", 0.7,
            f"The last answer at {facts.place} is cut off by the model's output limit.",
            "The same answer fits when the limit is higher, and is complete.",
            {"tool": facts.place},
        )  # fmt: skip
    return _made(
        "step_limit", 0.6,
        f"{facts.place} uses up its steps before it is done.",
        "The same request succeeds with a slightly higher limit.",
        {"tool": facts.place},
    )  # fmt: skip


def _default(facts: Facts) -> Diagnosis:
    known = taxonomy().kinds.get(facts.kind)
    cause = known.cause if known else "tool_failure"
    summary, falsifier = _DEFAULTS.get(
        cause,
        ("{place} fails: {cause}.", "A run in which {place} works under the same conditions."),
    )
    words = {
        "place": facts.place,
        "cause": cause.replace("_", " "),
        "code": facts.code or "an error",
    }
    return _made(
        cause, 0.5, summary.format(**words), falsifier.format(**words),
        {"tool": facts.place, "status": facts.code or None},
    )  # fmt: skip


_DEFAULTS = {
    "rate_limited": (
        "{place} is refused for too many requests; calls are made faster than it allows.",
        "The same load passes without a refusal.",
    ),
    "exception_in_code": (
        "{place} raises {code}; the program has to be changed, not the text.",
        "The exception goes away under other instructions with the same code.",
    ),
    "repeated_call": (
        "The agent calls {place} again with the same arguments and gets the same answer each time.",
        "The answers differ where the record does not show it.",
    ),
    "empty_answer": (
        "The run ends without words for the one who asked.",
        "The answer reached the user by a way that the traces do not show.",
    ),
}

_RULES: dict[str, tuple[Rule, ...]] = {
    "tool_timeout": (_timeout,),
    "tool_error": (_no_such_tool, _argument, _prerequisite, _tool),
    "malformed_output": (_malformed,),
    "unfinished": (_unfinished,),
}
