"""What redaction costs beside parsing the same bytes.

    python -m benchmarks.redaction [PATH ...] [--repeat N]

Without a path it makes its own: clean chat-like text, the same with one secret in a hundred texts,
and with one in each. A path is a JSON or JSON-lines file (also gzip), or a folder of them; each
string in it is redacted by itself. Ratios are to `orjson.loads` of the same bytes in the same run,
the best of N each.
"""

import argparse
import gzip
import random
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import orjson

from configs.redaction import redact, redactor
from connectors.traces.redact import redact_json
from contracts.json_types import Json

NAMES = ("Ann Lee", "Müller", "Contoso", "Bob O'Neill")
TEXTS = 20_000
_SENTENCES = """
the order of customer was shipped on monday and {n} items are in stock please look it up
refund status {"ok": true, "id": "A-1042", "total": 12.5} search the web for papers about
span_id 00f067aa0ba902b7 retry after 30 seconds https://shop.example/items?page=2 error 504
"""


def own_documents(every: int) -> list[bytes]:
    """Documents of made-up texts; each `every`-th text holds a secret, 0: none does."""
    rng = random.Random(7)  # noqa: S311  # text, no key
    digits = "a1B2c3D4e5F6g7H8i9J0" * 3
    secrets = (f"sk-{digits[:40]}", "ann@example.com", f"password={digits[:12]}", "+49 30 901820")
    words_of = _SENTENCES.split()
    documents = []
    for start in range(0, TEXTS, 100):
        texts = []
        for number in range(start, start + 100):
            words = rng.choices(words_of, k=rng.randrange(10, 200))
            if every and number % every == 0:
                words.insert(len(words) // 2, secrets[number // every % len(secrets)])
            texts.append(" ".join(words))
        documents.append(orjson.dumps({"texts": texts}))
    return documents


def documents_of(paths: Iterable[Path]) -> Iterator[bytes]:
    """The JSON documents in files and folders; what is none is passed over."""
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if not file.is_file():
                continue
            data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
            for piece in [data] if _is_json(data) else data.splitlines():
                if _is_json(piece):
                    yield piece


def _is_json(data: bytes) -> bool:
    try:
        orjson.loads(data)
    except ValueError:
        return False
    return True


def strings_of(value: Json) -> Iterator[str]:
    """Every string of a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings_of(item)


def best_of(repeat: int, work: Callable[[], object]) -> float:
    """Seconds of the fastest of several runs."""
    times = []
    for _ in range(repeat):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


def report(name: str, documents: list[bytes], repeat: int) -> None:
    """One block of the table."""
    values = [orjson.loads(document) for document in documents]
    texts = [text for value in values for text in strings_of(value)]
    named = redactor(NAMES)
    masks = sum(named.masked(text)[1] for text in texts)
    parse = best_of(repeat, lambda: [orjson.loads(document) for document in documents])
    size = sum(map(len, documents)) / 1e6
    print(f"{name}: {size:.1f} MB, {len(texts)} texts, {masks} masks")
    print(f"  parse with orjson            1.00   ({parse * 1000:.0f} ms)")
    rows: list[tuple[str, Callable[[], object]]] = [
        ("redact each text", lambda: [redact(text) for text in texts]),
        (f"the same with {len(NAMES)} names", lambda: [named.redact(text) for text in texts]),
        ("redact_json each document", lambda: [redact_json(value) for value in values]),
        ("every rule on every text", lambda: [_each_rule(text) for text in texts]),
    ]
    for label, work in rows:
        print(f"  {label:<28} {best_of(1 if 'every' in label else repeat, work) / parse:.2f}")


def _each_rule(text: str) -> int:
    """What it would cost without prefilters."""
    return sum(1 for rule in redactor(()).rules for _ in rule.find(text))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.redaction")
    parser.add_argument("paths", type=Path, nargs="*")
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    if given.paths:
        report(", ".join(p.name for p in given.paths), [*documents_of(given.paths)], given.repeat)
        return
    for name, every in (("clean", 0), ("a secret in 1 of 100", 100), ("a secret in each", 1)):
        report(name, own_documents(every), given.repeat)


if __name__ == "__main__":
    main()
