"""Facts about each step of a log that go with being the one where a run went wrong.

Each is computed from the log alone, with nothing of what comes after but the answer to the step
(did its code run, was it corrected) and the last words (which step brought in what the answer
says). All lie between 0 and about 1. Where a step stands in the log is no fact: logs of other
lengths have it elsewhere, and leaving it out cost nothing (docs/quality.md).
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.whowhen_steps import Log, Step

FACTS: Mapping[str, str] = {
    "code": "it holds code",
    "code1": "and is the first to",
    "search": "its code searches or fetches",
    "hedge": "it assumes, estimates, supposes",
    "made": "it speaks of placeholders, simulations, made-up data",
    "num": "it states numbers that nothing before has",
    "num1": "and is the first to",
    "told": "the same without any code",
    "cant": "it says that something could not be found or done",
    "err": "its code failed",
    "err1": "and is the first to",
    "empty": "its code printed nothing",
    "corrected": "the next messages speak of a mistake or of missing results",
    "after_run": "it follows the output of code",
    "after_err": "it follows code that failed",
    "new": "its speaker had not spoken yet",
    "long": "logarithm of its length",
    "short": "it has fewer than 80 characters",
    "orig": "share of what the last words name that it brought in",
    "orig_out": "the same for the output of its code",
    "asked": "it does what it was asked to",
    "results": "it shows a page of search results",
    "asked_nth": "one divided by how many such steps there were, itself counted",
    "ledger": "it is a record of where the work stands",
    "stuck": "which says that there is no progress",
}
ORCHESTRATED = frozenset(list(FACTS)[list(FACTS).index("asked") :])
"""Facts that only runs with an orchestrator have."""

_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_OPENED = re.compile(r"```(?:python|sh|bash)?\s*\n")
_HEDGE = re.compile(
    r"\b(?:assum(?:e|ed|ing|ption)|hypothetical(?:ly)?|simulat\w*|placeholder|mock\w*|dummy|"
    r"sample data|for (?:the sake|demonstration|illustration)|approximat\w*|likely|probably|"
    r"possibly|might|appears? to|seems?|let's say|manually|typically|generally|known|i recall|"
    r"based on (?:my|general|common|historical|available)|estimat\w*)\b",
    re.IGNORECASE,
)
_MADE_UP = re.compile(
    r"\b(?:assuming|assume|hypothetical|simulat\w+|placeholder|mock|dummy|"
    r"example (?:data|url|values?)|your[_ ]api[_ ]key|your_\w+|path/to)\b",
    re.IGNORECASE,
)
_FAILED = re.compile(
    r"exit ?code(?: was)?: [1-9]|traceback|\berror\b|execution failed|not found|404|failed",
    re.IGNORECASE,
)
_CANNOT = re.compile(
    r"\b(?:unable to|cannot|can't|could not|couldn't|not available|no (?:information|results?)|"
    r"did not (?:find|provide|return)|does not (?:contain|provide|mention)|don't have access|"
    r"without access)\b",
    re.IGNORECASE,
)
_CORRECTED = re.compile(
    r"\b(?:incorrect|mistake|issue with|error in|was not (?:found|generated|available)|"
    r"did not (?:work|provide|return|yield)|no (?:output|results))\b",
    re.IGNORECASE,
)
_FETCHES = re.compile(r"\b(?:search|requests\.get|urlopen|scrap\w+|BeautifulSoup)\b|search\(")
_EXIT_LINE = re.compile(r"exitcode: \d+ \([^)]*\)\s*Code output:")
_RESULTS = re.compile(r"[?&](?:q|query|search)=|\bsearch\]")
_NAMED = re.compile(r'\*\*([^*\n]{1,80})\*\*|"([^"\n]{2,60})"|\b([A-Z][\w\'-]+(?: [A-Z][\w\'-]+)*)')
HEAD = 400  # characters in which a result says that it failed
ENDING = 1_500  # characters of the last words
PAGE_TITLE = 500  # characters in which a page that is shown has its title and address


@dataclass(slots=True)
class _Before:
    """What the steps before had."""

    numbers: set[str]
    flags: set[str] = field(default_factory=set)
    """Facts that some step had."""
    speakers: set[str] = field(default_factory=set)
    asked: int = 0


def facts_of(log: Log) -> list[dict[str, float]]:
    """The facts of each candidate, in order; the names begin with `o:` in an orchestrated run."""
    before = _Before(numbers=set(numbers(log.question)))
    brought = _brought(log)
    wanted = {step.number for step in log.candidates}
    rows: list[dict[str, float]] = []
    prefix = "o:" if log.orchestrated else "g:"
    for at, step in enumerate(log.steps):
        if step.number in wanted:
            row = _said(step, before) | _answered(log.steps, at, before)
            row["new"] = step.speaker not in before.speakers
            following = log.steps[at + 1] if at + 1 < len(log.steps) else None
            row["orig"] = brought.get(at, 0.0)
            row["orig_out"] = brought.get(at + 1, 0.0) if following and following.ran else 0.0
            if log.orchestrated:
                row |= _orchestrated(step, before)
            rows.append({prefix + name: float(value) for name, value in row.items()})
            before.flags |= {name for name in ("code", "num", "err") if row.get(name)}
        before.speakers.add(step.speaker)
        before.numbers |= numbers(step.text)
    return rows


def numbers(text: str) -> set[str]:
    """All numbers of a text, without their commas."""
    return {match[0].replace(",", "") for match in _NUMBER.finditer(text)}


def _said(step: Step, before: _Before) -> dict[str, float]:
    """What the step itself says."""
    text = step.text
    code = "\n".join(match[0] for match in _CODE.finditer(text))
    coded = _OPENED.search(text) is not None
    stated = numbers(_CODE.sub("", text)) - before.numbers
    fresh = any(len(number.replace(".", "")) >= 2 for number in stated)
    return {
        "code": coded,
        "code1": coded and "code" not in before.flags,
        "search": bool(_FETCHES.search(code)),
        "hedge": bool(_HEDGE.search(text)),
        "made": bool(_MADE_UP.search(text)),
        "num": fresh,
        "num1": fresh and "num" not in before.flags,
        "told": fresh and not coded,
        "cant": bool(_CANNOT.search(text)),
        "long": math.log1p(len(text)) / 10,
        "short": len(text) < 80,
    }


def _answered(steps: Sequence[Step], at: int, before: _Before) -> dict[str, float]:
    """What came of the step, and of the one before it."""
    ran = steps[at + 1].text if at + 1 < len(steps) and steps[at + 1].ran else None
    failed = ran is not None and bool(_FAILED.search(ran[:HEAD]))
    later = " ".join(step.text for step in steps[at + 1 : at + 4])
    after_run = at > 0 and steps[at - 1].ran
    return {
        "err": failed,
        "err1": failed and "err" not in before.flags,
        "empty": ran is not None and len(_EXIT_LINE.sub("", ran).strip()) < 3,
        "corrected": bool(_CORRECTED.search(later)),
        "after_run": after_run,
        "after_err": after_run and bool(_FAILED.search(steps[at - 1].text[:HEAD])),
    }


def _orchestrated(step: Step, before: _Before) -> dict[str, float]:
    """What the step is in a run in which one agent hands work to others."""
    asked = not step.note and not step.ran
    before.asked += asked
    return {
        "asked": asked,
        "results": asked and bool(_RESULTS.search(step.text[:PAGE_TITLE].lower())),
        "asked_nth": 1 / before.asked if asked else 0.0,
        "ledger": step.ledger,
        "stuck": step.stuck,
    }


def _brought(log: Log) -> dict[int, float]:
    """For each place the share of what the last words name that stands there first."""
    ending = next((s.text for s in reversed(log.steps) if _worth(s)), "")[-ENDING:]
    known = (log.steps[0].text if log.steps else "").lower() + log.question.lower()
    named = {name for name in _names(_CODE.sub("", ending)) if name not in known}
    texts = [step.text.lower() for step in log.steps]
    firsts: list[int] = []
    for name in named:
        whole = re.compile(rf"(?<![\w.]){re.escape(name)}(?!\w)")
        place = next(
            (at for at, text in enumerate(texts) if name in text and whole.search(text)), None
        )
        if place is not None:
            firsts.append(place)
    return {at: firsts.count(at) / len(firsts) for at in set(firsts)}


def _worth(step: Step) -> bool:
    """Whether the step says more than that the run is over."""
    return not step.ran and not step.announces and len(step.text.strip()) > 15


def _names(text: str) -> set[str]:
    """Numbers, and what stands in bold, in quotes or in capitals, in lower case."""
    found = numbers(text)
    for match in _NAMED.finditer(text):
        name = next(group for group in match.groups() if group).lower().strip(" .:")
        if len(name) > 2:
            found.add(name)
    return found
