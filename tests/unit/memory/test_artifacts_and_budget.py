"""Artifacts keep harness bytes exactly and mask texts; tokens are counted without a network."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contracts.errors import TracemendError
from contracts.harness import HarnessFile, HarnessSnapshot, Revision
from memory.artifacts import TEXT_CAP_BYTES
from memory.budget import count_tokens, estimate_tokens, install_vocabulary
from memory.ledger import Ledger, open_ledger

FILES = st.dictionaries(
    st.text("abc/.", min_size=1, max_size=8),
    st.builds(HarnessFile, data=st.binary(max_size=200), mode=st.sampled_from([0o644, 0o755])),
    max_size=4,
)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    opened = open_ledger(tmp_path_factory.mktemp("l") / "ledger.sqlite", "refunds")
    yield opened
    opened.close()


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(files=FILES)
def test_a_snapshot_comes_back_byte_for_byte(ledger: Ledger, files: dict[str, HarnessFile]) -> None:
    snapshot = HarnessSnapshot(files=files)
    with ledger.db.write() as tx:
        revision = ledger.artifacts.put_snapshot(tx, snapshot)
    assert ledger.artifacts.snapshot(revision) == snapshot


def test_an_unknown_revision_is_an_error(ledger: Ledger) -> None:
    with pytest.raises(TracemendError, match="no manifest blob 0000"):
        ledger.artifacts.snapshot(Revision("0" * 64))


def test_texts_are_masked_and_cut(ledger: Ledger) -> None:
    secret = "sk-" + "A1b2" * 8
    with ledger.db.write() as tx:
        digest = ledger.artifacts.put_text(tx, "trace", f"key {secret} " + "x" * TEXT_CAP_BYTES)
    kept = ledger.artifacts.text(digest, "trace")
    assert secret not in kept
    assert kept.startswith("key [api key]")
    assert len(kept.encode()) == TEXT_CAP_BYTES


def test_tokens_are_counted_with_the_carried_vocabulary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    install_vocabulary(tmp_path / "tiktoken")
    # Figures of the published vocabulary o200k_base.
    counts = [count_tokens(t) for t in ("hello world", "tiktoken is great!", "2 + 2 = 4")]
    assert [(c.tokens, c.estimated) for c in counts] == [(2, False), (6, False), (7, False)]
    assert count_tokens("<|endoftext|>").tokens > 1


@given(st.text(max_size=200))
def test_the_estimate_is_total_and_not_negative(text: str) -> None:
    assert estimate_tokens(text) >= 0
