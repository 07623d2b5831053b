"""Causes of a tool that fails: how it is called, what has to come first, or the tool itself."""

import re
from difflib import get_close_matches

from contracts.findings import Diagnosis
from contracts.json_types import Json
from nodes.insights.diagnosis.made import already, made, times
from nodes.insights.facts import (
    SAFE_VALUE,
    Facts,
    argument_contrast,
    attempts,
    name_contrast,
    named_prerequisite,
    order_contrast,
    word_contrast,
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
_NO_PROGRAM = re.compile(
    r"command not found|\bsh: (?:\d+: )?\S+: not found|no module named|permission denied"
)
_SETTING = re.compile(
    r"\b(?:is|are|was) (?:not|un)[ -]?(?:set|defined|configured)\b|\bnot configured\b"
    r"|\bmissing (?:environment variable|env(?:ironment)? var|setting|configuration)"
    r"|environment variable \S+ (?:is )?(?:not|missing)|\bunbound variable\b"
)
_SETTING_NAME = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")


def timeout(facts: Facts) -> Diagnosis:
    """Always down, tried often enough, or given up too soon."""
    tool = facts.place
    parameters: dict[str, Json] = {"tool": tool, "status": facts.code or None}
    tried = attempts(facts)
    if not facts.good and len(facts.bad) >= MIN_CALLS:
        return made(
            "tool_unavailable", 0.8,
            f"{tool} timed out in all {len(facts.bad)} sampled calls: no instruction helps.",
            f"A successful call of {tool} in the same window.",
            parameters,
        )  # fmt: skip
    if tried >= GAVE_UP_AFTER:
        return made(
            "tool_unavailable", 0.75,
            f"{tool} timed out and the agent already tried {tried} times before it gave up.",
            f"Runs that give up on {tool} after a single try.",
            parameters,
        )  # fmt: skip
    worked = len(facts.good)
    said, more = already(facts)
    return made(
        "tool_timeout", 0.8 if worked else 0.6,
        f"{tool} times out now and then ({worked} of {worked + len(facts.bad)} sampled calls work),"
        f" and the agent gives up after {times(tried)}.{said}",
        f"Repeating a timed-out call of {tool} does not work any better.",
        {**parameters, **more},
    )  # fmt: skip


def no_such_tool(facts: Facts) -> Diagnosis:
    """A tool that does not exist; the nearest that does is named."""
    near = _nearest(facts)
    hint = f"; the nearest that exists is {near}" if near else ""
    return made(
        "unknown_tool", 0.85,
        f"The model calls {facts.place}, a tool that does not exist{hint}.",
        f"A run in which {facts.place} is offered to the model.",
        {"tool": facts.place, "nearest": near},
    )  # fmt: skip


def _nearest(facts: Facts) -> str | None:
    offered = sorted({name for sketch in facts.failing for name in sketch.offered})
    close = get_close_matches(facts.place, offered, n=1, cutoff=0.6)
    return close[0] if close else None


def argument(facts: Facts) -> Diagnosis | None:
    """A wrong name or shape of an argument, told from successful calls or the tool's schema."""
    spoken = facts.code in _ARGUMENT_CODES or any(word in facts.notes for word in _ARGUMENT_WORDS)
    named = name_contrast(facts)
    if named is not None and spoken:
        sent = f"`{named.sent}`" if named.sent else "something else"
        takes = ", ".join(f"`{name}`" for name in named.takes[:8]) or "no arguments"
        return made(
            "wrong_argument_format", 0.85,
            f"{facts.place} takes {takes}; the failing calls send {sent}.",
            f"A call of {facts.place} with what it takes fails in the same way.",
            {"tool": facts.place, "argument": named.argument, "bad_example": named.sent,
             "good_example": named.argument},
        )  # fmt: skip
    shape = argument_contrast(facts)
    if shape is None or not spoken:
        return _word(facts) if spoken else None
    return made(
        "wrong_argument_format", 0.85 if shape.bad >= 2 else 0.65,
        f"{facts.place} is called with `{shape.argument}` in another form than the"
        f" {shape.good} sampled calls that work have (like {_said(shape.shape)}).",
        f"A call of {facts.place} with `{shape.argument}` like {_said(shape.shape)} fails as well.",
        {"tool": facts.place, "argument": shape.argument, "shape": shape.shape,
         "bad_example": shape.bad_example, "good_example": shape.good_example},
    )  # fmt: skip


def _word(facts: Facts) -> Diagnosis | None:
    """A word that the tool does not know, where calls that work use a few."""
    found = word_contrast(facts)
    if found is None:
        return None
    words = "/".join(found.words)
    return made(
        "wrong_argument_format", 0.8 if found.bad >= 2 else 0.6,
        f"{facts.place} is called with words for `{found.argument}` that none of the {found.good}"
        f" sampled calls that work uses ({words}).",
        f"A call of {facts.place} with one of these words for `{found.argument}` fails as well.",
        {"tool": facts.place, "argument": found.argument, "words": words,
         "good_example": found.words[0]},
    )  # fmt: skip


def _said(shape: str) -> str:
    return shape if SAFE_VALUE.match(shape) else "theirs"


def prerequisite(facts: Facts) -> Diagnosis | None:
    """Another tool that has to be called first, told from passing runs or from its own words."""
    found = order_contrast(facts)
    if found is None:
        return _named_prerequisite(facts)
    return made(
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
    return made(
        "missing_prerequisite", 0.75,
        f"{facts.place} says that {name} has to come first; none of {skipped} sampled failing runs"
        " calls it.",
        f"Runs that call {name} first and still fail at {facts.place}.",
        {"tool": facts.place, "prerequisite": name},
    )  # fmt: skip


def setting(facts: Facts) -> Diagnosis | None:
    """A setting or variable of the environment that the tool misses."""
    if not _SETTING.search(facts.notes):
        return None
    named = [m[0] for quote in facts.quotes for m in _SETTING_NAME.finditer(quote)]
    name = max(sorted(set(named)), key=named.count) if named else None
    return made(
        "missing_setting", 0.75,
        f"{facts.place} misses a setting{f' ({name})' if name else ''} of its environment.",
        f"The same call of {facts.place} fails with the setting in place.",
        {"tool": facts.place, "setting": name, "status": facts.code or None},
    )  # fmt: skip


def missing_resource(facts: Facts) -> Diagnosis | None:
    """What the call is about does not exist: its name is wrong, or the data are."""
    gone = facts.code == "404" or facts.code.lower().endswith(("not_found", "notfound"))
    if not gone:
        return None
    return made(
        "resource_missing", 0.7,
        f"{facts.place} says that what it is asked for does not exist ({facts.code}): the name that"
        " the agent uses is wrong, or what it names is not there.",
        "The same name is found where it is looked up by hand.",
        {"tool": facts.place, "status": facts.code},
    )  # fmt: skip


def tool(facts: Facts) -> Diagnosis:
    """What is left: the tool fails by itself."""
    name = facts.place
    parameters: dict[str, Json] = {"tool": name, "status": facts.code or None}
    if _NO_PROGRAM.search(facts.notes):
        return made(
            "tool_failure", 0.6,
            f"{name} fails since something is missing in its environment.",
            f"The same call of {name} works in the same environment.",
            parameters, remedies=("infrastructure", "instructions", "tool"),
        )  # fmt: skip
    return made(
        "tool_failure", 0.5,
        f"{name} fails by itself: no difference in how it is called was found.",
        f"A change of how {name} is called makes it work.",
        parameters,
    )  # fmt: skip


def access(facts: Facts) -> Diagnosis:
    """A login, token or right that was not accepted."""
    code = f" ({facts.code})" if facts.code else ""
    return made(
        "access_refused", 0.85,
        f"{facts.place} does not accept the login{code}: a token or key is missing, has expired or"
        " lacks a right. Renew the login; repeating the call or waiting does not help.",
        f"A successful call of {facts.place} with the same credential.",
        {"tool": facts.place, "status": facts.code or None},
    )  # fmt: skip
