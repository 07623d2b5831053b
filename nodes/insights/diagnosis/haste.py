"""Refused for too many requests: by a client that repeats alone, by the model, or by the load."""

from contracts.findings import Diagnosis
from nodes.insights.diagnosis.made import already, made
from nodes.insights.facts import Facts, attempts

LEAST = 3  # equal calls in a row
NO_PAUSE_MS = 1_000


def retry_storm(facts: Facts) -> Diagnosis | None:
    """A client that repeats by itself, without a model turn and without a pause."""
    row, gap = facts.number("row"), facts.number("gap_ms")
    if row is None or row < LEAST or gap is None:
        return None
    pause = (
        f"pauses of at most {gap} ms" if gap < NO_PAUSE_MS else f"pauses up to {gap / 1000:.1f} s"
    )
    return made(
        "retry_storm", 0.85,
        f"{row} equal calls of {facts.place} follow each other with {pause} and no model turn"
        " between them: the client repeats by itself, too soon, and keeps itself over the limit."
        " No text of the agent changes that.",
        "A model turn between the calls that the traces do not show.",
        {"tool": facts.place, "calls": row, "gap_ms": gap, "row_ms": facts.number("row_ms"),
         "status": facts.code or None},
    )  # fmt: skip


def hasty_model(facts: Facts) -> Diagnosis | None:
    """The model itself asks again at once."""
    tried = attempts(facts)
    if tried < LEAST:
        return None
    said, more = already(facts)
    return made(
        "hasty_model", 0.7,
        f"The model calls {facts.place} {tried} times in a row though it is refused for too many"
        f" requests.{said}",
        "The same number of calls with a pause between them is refused as well.",
        {"tool": facts.place, "calls": tried, "status": facts.code or None, **more},
    )  # fmt: skip


def too_many(facts: Facts) -> Diagnosis:
    """The load as a whole."""
    return made(
        "rate_limited", 0.5,
        f"{facts.place} is refused for too many requests; calls are made faster than it allows.",
        "The same load passes without a refusal.",
        {"tool": facts.place, "status": facts.code or None},
    )  # fmt: skip
