"""How a rule's diagnosis is put together. No free text of a trace gets into it."""

from collections.abc import Callable, Mapping

from configs.taxonomy import taxonomy
from contracts.findings import Diagnosis, Remedy
from contracts.json_types import Json
from nodes.insights.facts import SAFE_VALUE, Facts

Rule = Callable[[Facts], Diagnosis | None]
"""None: it does not hold, and the next rule of the kind is asked."""


def made(
    cause: str,
    confidence: float,
    summary: str,
    falsifier: str,
    parameters: Mapping[str, Json],
    *,
    remedies: tuple[Remedy, ...] | None = None,
) -> Diagnosis:
    """A diagnosis; texts among its parameters stay only where they are short and plain."""
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


def times(tried: int) -> str:
    """`one try`, `3 tries`."""
    return "one try" if tried <= 1 else f"{tried} tries"


def already(facts: Facts) -> tuple[str, dict[str, Json]]:
    """(sentence, parameters) where the instructions ask for the same already; else nothing."""
    line = facts.number("rule_line")
    if line is None:
        return "", {}
    said = (
        f" Line {line} of the instructions asks for it already: saying it again will not help;"
        " change or move that line, or add an example or a check."
    )
    return said, {"already": f"line-{line}"}
