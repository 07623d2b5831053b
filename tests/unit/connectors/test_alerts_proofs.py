"""Proofs take constant time: every secret is compared, whichever is right."""

import hmac
from datetime import UTC, datetime

import pytest

from connectors.alerts.proofs import Presented, prove
from contracts.alerts import HOOK_SOURCES, HookSource
from tests.hook_worlds import proof, signature

NOW = datetime(2026, 11, 24, 9, 30, tzinfo=UTC)
T = int(NOW.timestamp())
RAW = b'{"a": 1}'


def presented(headers: dict[str, str], raw: bytes = RAW) -> Presented:
    return Presented(raw=raw, headers={name: [value] for name, value in headers.items()})


@pytest.mark.parametrize("right", [0, 1, 2])
@pytest.mark.parametrize("source", HOOK_SOURCES)
def test_every_secret_is_compared_whichever_is_right(
    source: HookSource, right: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[bool] = []

    def counted(expected: bytes, found: bytes) -> bool:
        compared.append(real(expected, found))
        return compared[-1]

    real = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", counted)
    secrets = [b"first", b"second", b"third"]
    headers = proof(source, RAW, T, secrets[right].decode())
    assert prove(source, presented(headers), secrets, NOW) == "good"
    assert compared == [number == right for number in range(3)]


@pytest.mark.parametrize("source", HOOK_SOURCES)
def test_without_a_secret_nothing_is_good(source: HookSource) -> None:
    assert prove(source, presented(proof(source, RAW, T, "")), [], NOW) == "bad"
    assert prove(source, presented({}), [], NOW) == "bad"


def test_a_wrong_signature_with_a_stale_time_is_bad_and_not_old() -> None:
    headers = {"x-langfuse-signature": f"t={T - 9_000},v1={'0' * 64}"}
    assert prove("langfuse", presented(headers), [b"s"], NOW) == "bad"


def test_a_digest_may_be_in_capitals() -> None:
    headers = {"x-langsmith-signature": "sha256=" + signature("s", RAW).upper()}
    assert prove("langsmith", presented(headers), [b"s"], NOW) == "good"


def test_a_wrong_signature_is_not_made_good_by_a_secret_beside_it() -> None:
    headers = {"x-langsmith-signature": "sha256=" + "0" * 64, "authorization": "Bearer s"}
    assert prove("langsmith", presented(headers), [b"s"], NOW) == "bad"
    headers = {"x-tracemend-signature": "sha256=" + "0" * 64, "authorization": "Bearer s"}
    assert prove("generic", presented(headers), [b"s"], NOW) == "bad"


def test_a_time_counts_only_when_it_was_signed() -> None:
    headers = {"x-tracemend-signature": f"t={T},sha256=" + signature("s", RAW)}
    assert prove("generic", presented(headers), [b"s"], NOW) == "bad"
