"""The body of a delivery as one JSON object, or the sentence why it is none.

Stricter than most parsers: what two programs could read differently is refused, so that what was
signed, what is kept and what is shown are the same thing.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, cast

from contracts.errors import TracemendError
from contracts.json_types import Json, JsonObject

MAX_DEPTH = 32
"""Objects and lists inside one another; the deepest body of a known sender has 6."""
_BITS_64 = 2**63


class BadDelivery(TracemendError):
    """A delivery that is refused although its sender is known.

    Attributes:
        problem: "syntax" for what is no JSON, "content" for JSON that makes no alert.
    """

    def __init__(self, message: str, *, problem: Literal["syntax", "content"] = "content") -> None:
        super().__init__(message)
        self.problem = problem


def read_object(raw: bytes) -> JsonObject:
    """The JSON object that these bytes are.

    Raises:
        BadDelivery: they are no JSON, no object, nested deeper than `MAX_DEPTH`, or hold a key
            twice, a number that is none or beyond 64 bits, or half a character.
    """
    try:
        value: object = json.loads(
            raw.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_number,
            parse_float=_finite, parse_int=_whole,
        )  # fmt: skip
    except RecursionError:
        raise _too_deep() from None
    except UnicodeDecodeError as error:
        raise BadDelivery(
            f"the body is not UTF-8 (byte {error.start}); send JSON in UTF-8", problem="syntax"
        ) from None
    except json.JSONDecodeError as error:
        raise BadDelivery(
            f"the body is not JSON (character {error.pos}); send one JSON object", problem="syntax"
        ) from None
    if not isinstance(value, dict):
        raise BadDelivery('the body must be a JSON object, such as {"title": "…"}')
    body = cast("JsonObject", value)  # a dict out of json.loads
    _check(body)
    return body


def _check(body: JsonObject) -> None:
    level: list[Json] = [body]
    for _ in range(MAX_DEPTH):
        level = [inner for value in level for inner in _inside(value)]
        if not level:
            return
        if any(isinstance(value, str) and not _whole_text(value) for value in level):
            raise BadDelivery("the body holds half of a surrogate pair; send whole characters")
    raise _too_deep()


def _inside(value: Json) -> Iterator[Json]:
    """What a value holds: the items of a list, the keys and values of an object."""
    if isinstance(value, Mapping):
        yield from value
        yield from value.values()
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield from value


def _whole_text(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _too_deep() -> BadDelivery:
    return BadDelivery(f"the body is nested deeper than {MAX_DEPTH}; send a flatter one")


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    read = dict(pairs)
    if len(read) != len(pairs):
        raise BadDelivery("the body holds the same key twice; send each key once")
    return read


def _no_number(_: str) -> object:
    raise BadDelivery("the body holds NaN or Infinity, which JSON has not; send null")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise BadDelivery("the body holds a number beyond 64 bits; send it as text")
    return number


def _whole(text: str) -> int:
    number = int(text) if len(text) < 21 else _BITS_64
    if not -_BITS_64 <= number < _BITS_64:
        raise BadDelivery("the body holds a number beyond 64 bits; send it as text")
    return number
