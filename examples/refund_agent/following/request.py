"""What the offline model understands of a customer's request: what is wanted, for which order."""

import re
from dataclasses import dataclass
from typing import Literal

Wish = Literal["refund", "shipping", "order", "return", "loyalty"]

TRADE: dict[Wish, tuple[str, ...]] = {
    "refund": ("get_order", "payment_api", "notify_customer"),
    "shipping": ("get_order", "shipping_status"),
    "order": ("get_order",),
    "return": ("get_order", "create_return_label"),
    "loyalty": ("loyalty_points",),
}
"""The tools a trained model would use for each wish, in order, with no instructions at all."""

_WISHES: tuple[tuple[re.Pattern[str], Wish], ...] = (
    (re.compile(r"\b(?:loyalty|bonus|points?)\b", re.I), "loyalty"),
    (
        re.compile(r"\blabel\b|\bsend(?:ing)? (?:it|this|them|\w+ \w+) back\b|\breturn", re.I),
        "return",
    ),
    (
        re.compile(r"\brefund|\bmoney\b|\breimburs|\bpa(?:y|id) (?:it |me )?back\b|\bcredit", re.I),
        "refund",
    ),
    (
        re.compile(
            r"\bwhere\b|\bparcel|\bpackage|\bship|\btrack|\barriv|\bdeliver|\bcourier|\bcarrier",
            re.I,
        ),
        "shipping",
    ),
)
_ORDER = re.compile(r"(?<![\w.,€-])(?P<id>#?[A-Za-z]?-?\d{4})(?![\w€]|[.,]\d)")
_CUSTOMER = re.compile(r"\bC-\d{4}\b")


@dataclass(frozen=True, slots=True)
class Request:
    """One customer's request as understood."""

    wish: Wish
    order: str | None
    """The order id exactly as the customer wrote it."""
    customer: str | None


def understand(text: str) -> Request:
    """Read a request by its words; what names no wish is a question about an order."""
    customer = _CUSTOMER.search(text)
    rest = _CUSTOMER.sub(" ", text)
    order = _ORDER.search(rest)
    wish: Wish = next((wish for pattern, wish in _WISHES if pattern.search(rest)), "order")
    return Request(
        wish, order["id"] if order is not None else None, customer[0] if customer else None
    )
