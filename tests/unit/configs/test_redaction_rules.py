"""Promise 8: secrets and personal data are masked; ordinary text is left alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.redaction import find_secrets, redact


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("key sk-" + "A1b2" * 6, "key [api key]"),
        ("sk_live_" + "a1B2" * 5, "[api key]"),
        ("AKIA" + "ABCDEFGH12345678", "[aws key]"),
        ("Authorization: Bearer " + "abc.DEF-123_" * 2, "Authorization: [authorization]"),
        ('{"password": "hunter2222"}', '{"password": "[password]"}'),
        ("https://ann:s3cret@host/x", "https://[url password]@host/x"),
        ("mail ann@example.com now", "mail [email] now"),
        ("card 4111 1111 1111 1111", "card [card number]"),
        ("DE89 3704 0044 0532 0130 00", "[iban]"),
    ],
)
def test_secrets_are_masked(text: str, masked: str) -> None:
    assert redact(text) == masked
    assert find_secrets(text)


@pytest.mark.parametrize(
    "text",
    ["order A-1042 of 2026-11-30", "trace 4bf92f3577b34da6a3ce929d0e0e4736", "1234567890123456"],
)
def test_ordinary_text_stays(text: str) -> None:
    assert redact(text) == text
    assert not find_secrets(text)


@given(st.text(st.sampled_from("sk-_live=: @.passwordA1b2[]4111 "), max_size=80))
def test_redaction_is_idempotent(text: str) -> None:
    once = redact(text)
    assert redact(once) == once
