"""Customers' requests, made up from a seed."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from examples.refund_agent.following.request import Wish
from examples.refund_agent.orders import Order

SHARES: dict[Wish, float] = {
    "refund": 0.60,
    "shipping": 0.20,
    "return": 0.08,
    "loyalty": 0.07,
    "order": 0.05,
}
LOOSE_IDS = 0.09
"""Of the requests that name an order: the customer writes `1042`, `#1042` or `a1042`."""
WHOLESALE = 1 / 75
"""Of all requests: a wholesale account asks for its loyalty points."""

FIRST_ORDER, LAST_ORDER = 1000, 6999
"""Customers in traffic have these orders; the sealed cases have others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One customer's request, in one session of its own."""

    message: str
    customer: str
    session: str

    @property
    def input(self) -> dict[str, str]:
        """What the agent is given, and what a case made from it holds."""
        return {"message": self.message, "customer": self.customer}


_OPENINGS = (
    "Hello,",
    "Hi there,",
    "Good morning.",
    "Dear team,",
    "Hey,",
    "Good evening,",
    "",
    "To whom it may concern:",
    "Hi,",
)
_REASONS = (
    "the {item} came with a crack",
    "the {item} never came out of the box in one piece",
    "I got the wrong colour of {item}",
    "the {item} stopped working after two days",
    "the {item} is not what the photo shows",
    "my {item} has a part missing",
    "I ordered the {item} twice by mistake",
    "the {item} is far smaller than described",
    "the {item} smells odd and I do not want it",
    "somebody gave me the same {item} yesterday",
    "the {item} arrived a week after the party",
    "the {item} rattles when I pick it up",
)
_REFUNDS = (
    "Please refund order {order}.",
    "I would like my money back for order {order}.",
    "Can you refund {order}?",
    "Order {order}: I want a refund.",
    "Could you send the money for {order} back to my card?",
    "I ask for a refund of order {order}, please.",
    "Kindly reimburse me for order {order}.",
)
_SHIPPING = (
    "Where is my order {order}?",
    "When I track {order} nothing moves, where is it?",
    "Has the parcel for order {order} left the depot?",
    "Can you tell me where the {item} of order {order} is by now?",
    "Which carrier has order {order}, and where is it?",
    "I have been waiting for my {item}, order {order}. Where is the package?",
    "My neighbour got hers last week, but order {order} has not arrived. Any news?",
)
_RETURNS = (
    "I want to send the {item} back, order {order}. May I have a label?",
    "Please make me a return label for order {order}.",
    "How do I return order {order}? I need a label.",
    "The {item} does not fit. Could I get a return label for {order}?",
    "Return label for {order}, please, the {item} goes back.",
)
_ORDERS = (
    "What exactly did I buy under {order}?",
    "Can you confirm what order {order} cost?",
    "Is order {order} paid?",
    "I need the details of order {order} for my records.",
)
_LOYALTY = (
    "How many loyalty points do I have?",
    "What is my points balance at the moment?",
    "Could you look up my bonus points?",
    "Do I have enough points for the next level?",
)
_CLOSINGS = (
    "",
    "Thanks!",
    "Thank you.",
    "Best regards",
    "Cheers",
    "Looking forward to your answer.",
)


def generate(n: int, seed: int) -> list[Request]:
    """`n` requests in random order, the same for the same seed.

    The share of each kind, of loosely written ids and of wholesale accounts is met to within one
    request, and order numbers are spread evenly, so that small recordings do not differ by luck.
    No order and no customer comes twice.
    """
    rng = random.Random(f"requests|{seed}")  # noqa: S311 -- made-up traffic, not a secret
    kinds = _kinds(n, rng)
    numbers = {wish: _numbers(rng) for wish in SHARES}
    ordering = [i for i, wish in enumerate(kinds) if wish != "loyalty"]
    loose = set(rng.sample(ordering, round(LOOSE_IDS * len(ordering))))
    loyal = [i for i, wish in enumerate(kinds) if wish == "loyalty"]
    wholesale = set(rng.sample(loyal, min(len(loyal), round(WHOLESALE * n))))
    customers = rng.sample(range(8000), n)
    used: set[int] = set()
    made = []
    for index, wish in enumerate(kinds):
        number = next(x for x in numbers[wish] if x not in used)
        used.add(number)
        written = _written(Order(number=number), rng, loose=index in loose)
        first = 9000 + customers[index] % 1000 if index in wholesale else 1000 + customers[index]
        made.append(
            Request(
                message=_message(wish, Order(number=number), written, rng),
                customer=f"C-{first}",
                session=f"s-{rng.getrandbits(48):012x}",
            )
        )
    return made


def _kinds(n: int, rng: random.Random) -> list[Wish]:
    kinds: list[Wish] = []
    share = 0.0
    for wish, part in SHARES.items():
        share += part
        kinds += [wish] * (round(share * n) - len(kinds))
    rng.shuffle(kinds)
    return kinds


def _numbers(rng: random.Random) -> Iterator[int]:
    """Order numbers in a fixed stride: any run of them meets every shard and carrier alike."""
    size = LAST_ORDER - FIRST_ORDER + 1
    start = rng.randrange(size)
    for k in range(size):
        yield FIRST_ORDER + (start + k * 1237) % size


def _written(order: Order, rng: random.Random, *, loose: bool) -> str:
    styles = (f"{order.number}", f"#{order.number}", f"a{order.number}")
    return rng.choice(styles) if loose else order.id


def _message(wish: Wish, order: Order, written: str, rng: random.Random) -> str:
    asks: dict[Wish, tuple[str, ...]] = {
        "refund": _REFUNDS,
        "shipping": _SHIPPING,
        "return": _RETURNS,
        "order": _ORDERS,
        "loyalty": _LOYALTY,
    }
    ask = rng.choice(asks[wish]).format(order=written, item=order.item)
    reason = rng.choice(_REASONS).format(item=order.item)
    middle = [f"{reason[0].upper()}{reason[1:]}."] if wish == "refund" else []
    middle.insert(rng.randrange(len(middle) + 1), ask)
    return " ".join(
        part for part in (rng.choice(_OPENINGS), *middle, rng.choice(_CLOSINGS)) if part
    )
