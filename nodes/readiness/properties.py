"""What a property of readiness says: how it stands, the figures behind it, and what to do."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warn", "no", "unknown"]
"""How a property stands. "unknown": nothing can be known yet, which is never "ok"."""

GOOD = 0.95
"""From this share on a property holds; a few odd traces are normal."""
FAIR = 0.5
"""Below this share it does not hold: what is concluded would rest on the lesser part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """One property of a project."""

    name: str
    state: State
    evidence: str
    """The figures that the state follows from."""
    advice: str = ""
    """What to do; empty where nothing is to be done."""


def by_share(name: str, good: int, total: int, evidence: str, advice: str) -> Property:
    """A property that holds for a share of something; of nothing it is not known."""
    if total == 0:
        return Property(name=name, state="unknown", evidence=evidence, advice=advice)
    share = good / total
    state: State = "ok" if share >= GOOD else "warn" if share >= FAIR else "no"
    return Property(
        name=name, state=state, evidence=evidence, advice="" if state == "ok" else advice
    )


def of(good: int, total: int) -> str:
    """`good of total (share)`."""
    return f"{good} of {total} ({good / total:.0%})" if total else "0 of 0"
