"""The sample that is the same for every order and partition of the input: the lowest by hash."""

import hashlib
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")

Order = tuple[int, int]
"""(rank of the unit, rank of the trace): of two traces that of the lower unit comes first, so that
leaving out the units above some rank never brings back what was not kept."""


def rank(text: str) -> int:
    """A stable pseudo-random order over texts: 64 bits of the SHA-256."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8])


@dataclass(slots=True)
class Lowest(Generic[T]):
    """The `size` items of lowest order, one a key; of one key the item of lowest order."""

    size: int
    _items: dict[str, tuple[Order, T]] = field(default_factory=dict)
    _limit: Order | None = None

    def wants(self, key: str, order: Order) -> bool:
        """Whether an item under this key and order would be kept."""
        held = self._items.get(key)
        if held is not None:
            return order < held[0]
        return len(self._items) < self.size or (self._limit is not None and order < self._limit)

    def put(self, key: str, order: Order, item: T) -> None:
        """Keep the item if its order is low enough."""
        if not self.wants(key, order):
            return
        self._items[key] = (order, item)
        if len(self._items) > self.size:
            del self._items[max(self._items, key=lambda k: (self._items[k][0], k))]
        if len(self._items) == self.size:
            self._limit = max(order for order, _ in self._items.values())

    def take(self, other: "Lowest[T]") -> None:
        """Keep what is lowest of both. Where one key has two items of one order, a fixed one."""
        for key, order, item in other.entries():
            held = self._items.get(key)
            if held is not None and held[0] == order and repr(item) < repr(held[1]):
                self._items[key] = (order, item)
            else:
                self.put(key, order, item)

    def cut(self, below: int) -> None:
        """Leave out the items of units that do not rank below this."""
        self._items = {key: kept for key, kept in self._items.items() if kept[0][0] < below}
        if len(self._items) < self.size:
            self._limit = None

    def entries(self) -> list[tuple[str, Order, T]]:
        """Key, order and item of what was kept, lowest first."""
        found = [(key, order, item) for key, (order, item) in self._items.items()]
        return sorted(found, key=lambda entry: (entry[1], entry[0]))

    def items(self) -> list[T]:
        """What was kept, lowest first."""
        return [item for _, _, item in self.entries()]

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._items)
