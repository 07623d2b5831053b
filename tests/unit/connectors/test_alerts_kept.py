"""What is kept of a delivery is masked, small, and says where it was cut."""

from typing import Any

import pytest

from connectors.alerts.body import MAX_DEPTH, BadDelivery, read_object
from connectors.alerts.kept import CUT, MAX_BYTES, kept
from contracts.json_types import canonical_json

SECRET = "sk-ant-api03-" + "Ab3" * 30


def deep(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "body",
    [
        {f"part-{n}": "word " * 900 for n in range(100)},
        {"long": "x" * 1_000_000},
        {"many": list(range(100_000))},
        {"wide": {f"\u20ac{n}" * 30: "\u20ac" * 500 for n in range(5_000)}},
        {"deep": [[[["\u20ac" * 900] * 90] * 90] * 90]},
        {"\u20ac" * 400 + str(n): {"a": "\u20ac" * 4_000} for n in range(200)},
    ],
)
def test_however_large_a_body_is_what_is_kept_is_small(body: dict[str, Any]) -> None:
    assert len(canonical_json(kept(body))) <= MAX_BYTES


def test_what_was_cut_says_so() -> None:
    cut = kept({"list": list(range(200)), "deep": deep(30), "text": "a" * 9_000})
    assert isinstance(cut["list"], list)
    assert cut["list"][-1] == CUT
    assert CUT in str(cut["deep"])
    assert str(cut["text"]).endswith("…")


def test_a_small_body_is_kept_as_it_is() -> None:
    body: dict[str, Any] = {"a": [1, 2.5, True, {"b": "c"}], "d": "e"}
    assert kept({**body, "none": None}) == body


@pytest.mark.parametrize(
    "body",
    [
        {"a": f"key {SECRET}"}, {"a": [[{"b": SECRET}]]}, {SECRET: 1},
        {"password": SECRET}, {"a": "x" * 3_950 + " " + SECRET}, {"k" * 60 + " " + SECRET: 1},
    ],
)  # fmt: skip
def test_a_secret_is_masked_wherever_it_stands_and_also_where_it_is_cut(
    body: dict[str, Any],
) -> None:
    text = canonical_json(kept(body)).decode()
    assert SECRET not in text
    assert SECRET[:20] not in text


def test_a_body_may_be_as_deep_as_is_said_and_no_deeper() -> None:
    def body(levels: int) -> bytes:
        return b'{"a": ' + b"[" * levels + b"]" * levels + b"}"

    assert "a" in read_object(body(MAX_DEPTH - 1))
    with pytest.raises(BadDelivery, match="nested deeper"):
        read_object(body(MAX_DEPTH))


def test_numbers_up_to_64_bits_are_read_exactly() -> None:
    read = read_object(b'{"a": 9223372036854775807, "b": -9223372036854775808, "c": 1.5e3}')
    assert (read["a"], read["b"], read["c"]) == (2**63 - 1, -(2**63), 1500.0)
