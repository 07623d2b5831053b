"""TRAIL's annotations, and which traces are of one task. Only the measurement reads these."""

import gzip
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.trail_score import Pair, category
from contracts.traces import Trace

_TRAILING = re.compile(r",(\s*[}\]])")
_WORD = re.compile(r"\w+")
FOLDS = 10
ALIKE, OFTEN = 0.5, 0.1


def annotations(folder: Path) -> dict[str, set[Pair]]:
    """(span, category) pairs by trace; a file with a comma too many is read all the same.

    Raises:
        SystemExit: the folder has no annotation.
    """
    found = {}
    for path in sorted(folder.rglob("*.json*")):
        data = path.read_bytes()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
        errors = json.loads(_TRAILING.sub(r"\1", text)).get("errors", [])
        found[path.name.split(".")[0]] = {(e["location"], category(e["category"])) for e in errors}
    if not found:
        raise SystemExit(f"no annotation below {folder}")
    return found


def subsets(folder: Path) -> dict[str, str]:
    """The subset of each trace: the name of the folder that its file is in."""
    return {
        path.name.split(".")[0]: path.parent.name
        for path in sorted(folder.rglob("*.json*"))
        if path.is_file()
    }


def tasks(traces: Sequence[Trace]) -> dict[str, str]:
    """A name for the task of each trace; traces with nearly the same request share one.

    The request is the first message of a user. Words that many requests hold are the frame around
    the task; tasks are alike where half of their other words are common.
    """
    words = {str(t.id): frozenset(_WORD.findall(_request(t).lower())) for t in traces}
    often = Counter(word for own in words.values() for word in own)
    common = max(2.0, OFTEN * len(traces))
    known: list[tuple[frozenset[str], str]] = []
    found = {}
    for trace in sorted(words):
        own = frozenset(word for word in words[trace] if often[word] <= common)
        for other, name in known:
            if own and len(own & other) >= ALIKE * len(own | other):
                found[trace] = name
                break
        else:
            known.append((own, trace))
            found[trace] = trace
    return found


def _request(trace: Trace) -> str:
    for span in trace.spans:
        for message in span.messages_in:
            if message.role in ("user", "human"):
                return message.content[:20_000]
    return ""


def folds(task_of: Mapping[str, str], seed: int = 0) -> list[list[str]]:
    """Traces in folds; those of one task stay together."""
    by_task: dict[str, list[str]] = {}
    for trace, task in sorted(task_of.items()):
        by_task.setdefault(task, []).append(trace)
    out: list[list[str]] = [[] for _ in range(FOLDS)]
    for index, task in enumerate(sorted(by_task, key=lambda t: (hash_of(t, seed), t))):
        out[index % FOLDS] += by_task[task]
    return [fold for fold in out if fold]


def hash_of(text: str, seed: int) -> int:
    """A stable order that a seed changes."""
    value = seed * 1_000_003 + 17
    for char in text:
        value = (value * 31 + ord(char)) % 1_000_000_007
    return value
