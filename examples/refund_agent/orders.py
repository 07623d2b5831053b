"""Facts about every order of the shop, worked out from its number: nothing is stored."""

import re
from dataclasses import dataclass

_ITEMS = (
    "desk lamp",
    "rain jacket",
    "coffee grinder",
    "yoga mat",
    "wall clock",
    "bread knife",
    "bicycle pump",
    "wool blanket",
    "travel adapter",
    "tea kettle",
    "garden hose",
    "picture frame",
    "camping stove",
)
_TOWNS = ("Ulm", "Graz", "Basel", "Ghent", "Turin", "Aarhus", "Lille", "Porto", "Bern", "Delft")
_CARRIERS = ("Norda", "Kurio", "Blitzpost", "Parvo", "Tellus", "Westline", "Ostra")

SHARDS = 11
"""The payment data is spread over this many shards, by order number."""

ORDER_ID = re.compile(r"A-\d{4}")
"""The one form of an order id that the back office accepts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One order."""

    number: int
    """Four digits; the id is `A-` and the number."""

    def __post_init__(self) -> None:
        if not 1000 <= self.number <= 9999:
            raise ValueError(f"order number out of range 1000..9999: {self.number!r}")

    @property
    def id(self) -> str:
        """As the back office writes it."""
        return f"A-{self.number}"

    @property
    def item(self) -> str:
        """What was bought."""
        return _ITEMS[self.number % len(_ITEMS)]

    @property
    def amount_eur(self) -> str:
        """What it cost, with two decimals."""
        return f"{12 + self.number * 37 % 9000 / 100:.2f}"

    @property
    def town(self) -> str:
        """Where the parcel was seen last."""
        return _TOWNS[self.number // 10 % len(_TOWNS)]

    @property
    def carrier(self) -> str:
        """Who brings the parcel."""
        return _CARRIERS[self.number % len(_CARRIERS)]

    @property
    def shard(self) -> int:
        """Where its payment lies, 0 to `SHARDS - 1`."""
        return self.number % SHARDS

    @property
    def moved(self) -> bool:
        """The customer's address changed since: a return label needs it verified first."""
        return self.number % 2 == 1

    @property
    def label(self) -> str:
        """Code on its return label."""
        return f"RL-{self.number}-{self.number * 7 % 97:02d}"


def order_of(order_id: str) -> Order | None:
    """The order with this id, or None where the id has not exactly the form `A-1042`."""
    if ORDER_ID.fullmatch(order_id) is None or order_id[2] == "0":
        return None
    return Order(number=int(order_id[2:]))


def points_of(customer: str) -> int:
    """Loyalty points of a customer."""
    digits = re.sub(r"\D", "", customer)
    return int(digits or "0") * 13 % 2400 + 20


def wholesale(customer: str) -> bool:
    """Wholesale accounts (`C-9…`) share one small quota of the loyalty service."""
    return customer.startswith("C-9")
