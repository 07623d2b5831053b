"""Tables of weights beside the benchmarks: written by `--fit`, read by everything else.

A table says how it was made and holds one number for each fact, so that a person can read what a
score is made of.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from benchmarks.fitting import Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What each fact adds to the score of an item; a fact without a weight adds nothing."""

    made: str
    """How and of what, in one line."""
    ridge: float
    base: float
    weights: Mapping[str, float]

    def score(self, facts: Facts) -> float:
        """The additive score (log odds before any calibration)."""
        known = self.weights
        return self.base + sum(known.get(name, 0.0) * value for name, value in facts.items())


def read_weights(path: Path) -> Weights:
    """The table of a file.

    Raises:
        FileNotFoundError: there is none; `--fit` writes it.
    """
    value: dict[str, Any] = orjson.loads(path.read_bytes())
    return Weights(
        made=value["made"], ridge=value["ridge"], base=value["base"], weights=value["weights"]
    )


def write_weights(path: Path, table: Weights, order: Sequence[str]) -> None:
    """Write a table with three digits, in the order given."""
    rounded = {name: round(table.weights[name], 3) for name in order if name in table.weights}
    value = {
        "made": table.made,
        "ridge": table.ridge,
        "base": round(table.base, 3),
        "weights": rounded,
    }
    path.write_bytes(orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n")
