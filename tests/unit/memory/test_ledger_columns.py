"""What a column takes: bounded keys that stay apart, JSON that both databases read."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.columns import KEY_CHARS, bounded_key, dump_json

KEYS = st.text(alphabet=st.characters(), max_size=3 * KEY_CHARS)


@given(KEYS)
def test_a_bounded_key_is_short_and_bounded_again_the_same(key: str) -> None:
    bounded = bounded_key(key)
    assert len(bounded) <= KEY_CHARS
    assert bounded_key(bounded) == bounded
    assert bounded == key or len(key) > KEY_CHARS


@pytest.mark.parametrize("length", [KEY_CHARS, KEY_CHARS + 1, 5 * KEY_CHARS])
def test_keys_that_differ_at_their_end_stay_apart(length: int) -> None:
    assert bounded_key("x" * length + "1") != bounded_key("x" * length + "2")


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
))  # fmt: skip
def test_every_value_is_json_of_the_standard(value: object) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    text = dump_json(value)  # type: ignore[arg-type]
    assert text.isascii()
    read = json.loads(text, parse_constant=refuse)
    if "null" not in text:
        assert read == value
