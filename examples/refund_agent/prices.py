"""Tokens and prices of the offline model. Both are made up; they exist so that length costs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

OFFLINE_MODEL = "offline-simulator-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars for a million tokens."""

    input_usd: float
    output_usd: float


PRICES: Mapping[str, Price] = {OFFLINE_MODEL: Price(input_usd=0.40, output_usd=1.60)}
"""Made up: nobody sells this model. A model that is not in the table has an unknown price."""

CHARACTERS_PER_TOKEN = 4
"""The usual rule of thumb for English; an estimate, and the same for every text."""


def count_tokens(*texts: str) -> int:
    """Estimated tokens of texts that are sent one after the other."""
    return sum(math.ceil(len(text) / CHARACTERS_PER_TOKEN) for text in texts)


def cost_usd(model: str, input_tokens: int, output_tokens: int) -> float | None:
    """What a call cost, or None where the price is unknown."""
    price = PRICES.get(model)
    if price is None:
        return None
    return (input_tokens * price.input_usd + output_tokens * price.output_usd) / 1_000_000
