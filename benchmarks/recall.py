"""How long recall takes, over how many lessons, by which way.

    python -m benchmarks.recall                 # 1,000, 10,000 and 100,000 lessons
    python -m benchmarks.recall --lessons 2000  # for CI: about a quarter of a minute

Lessons are made on the fly: failures of many tools with words of their own, several lessons a
signature, as projects have them. `recall` is what an analysis calls: two searches, the lessons of
the nearest failures, ranking. Times are of one warm process; the first call is told apart.
"""

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from sqlalchemy import insert

from contracts.codec import to_json
from contracts.findings import Diagnosis, Finding, FindingId, Signature
from contracts.gate import Lesson
from contracts.json_types import Json
from memory.database import rfc3339
from memory.schema import lessons
from memory.semantic import SemanticMemory
from memory.workspace import Workspace, open_project, register
from nodes.insights.recall import recall
from nodes.ports import open_embedder_of, open_memory

WORDS = (
    "order refund invoice shipping label customer address card payment ledger stock warehouse mail "
    "calendar search index document ticket user login token session price discount coupon carrier "
    "parcel pickup return claim policy quote contract archive report export import batch queue"
)
NOUNS = WORDS.split()
KINDS = ("tool_timeout", "tool_error", "rate_limit", "malformed_output", "exception")
CODES = ("504", "500", "429", "403", "ValueError", "KeyError", "")
CAUSES = ("tool_timeout", "wrong_argument_format", "missing_prerequisite", "tool_failure")
OUTCOMES = ("applied", "fell", "not_fallen", "rejected", "undone", "gate: not accepted")
A_SIGNATURE = 8
"""Lessons of one failure."""
P95_MS = 50.0


def signature_of(number: int) -> Signature:
    """One of the failures: a kind at a tool whose name is made of two words."""
    draw = random.Random(number)  # noqa: S311  # names, not secrets
    tool = f"{draw.choice(NOUNS)}_{draw.choice(NOUNS)}_{number % 97}"
    code = draw.choice(CODES)
    return Signature(f"{draw.choice(KINDS)}:{tool}" + (f":{code}" if code else ""))


def lesson_of(number: int, now: datetime) -> Lesson:
    """One lesson of the failure `number // A_SIGNATURE`."""
    draw = random.Random(-number)  # noqa: S311
    signature = signature_of(number // A_SIGNATURE)
    tool = signature.split(":")[1]
    said = " ".join(draw.choices(NOUNS, k=6))
    return Lesson(
        id=f"l-{number:07d}", finding_id=f"f-{number // A_SIGNATURE:07d}", signature=signature,
        cause=draw.choice(CAUSES), edit=f"playbook:retry: skills/retry-{tool}/SKILL.md",
        decision="approve", reason=f"seen with {said}", outcome=draw.choice(OUTCOMES),
        at=now - timedelta(hours=draw.randrange(24 * 700)), facts={"files": []},
    )  # fmt: skip


def finding_of(number: int) -> Finding:
    """A finding with the signature of a failure that has lessons."""
    signature = signature_of(number)
    kind, tool, *_ = signature.split(":")
    return Finding(
        id=FindingId(f"f-{number:07d}"), kind=kind, signature=signature,
        title=f"{tool} fails", units=9, units_total=150, rate=(0.03, 0.06, 0.11),
        baseline_units=0, baseline_total=150, change="new", p_holm=0.001, severity="high",
        diagnosis=Diagnosis(
            cause=CAUSES[number % len(CAUSES)], remedies=("skill",), confidence=0.6,
            summary=f"{tool} is slow and the agent gives up.", falsifier="-", parameters={},
        ),
        actionable=True, why_not=None, exemplars=(), first_seen=None, last_seen=None, score=1.0,
    )  # fmt: skip


def fill(ws: Workspace, count: int) -> None:
    """Keep that many lessons; past the store, which writes an audit entry for each."""
    now = datetime(2026, 11, 30, tzinfo=UTC)
    for start in range(0, count, 2_000):
        made = [lesson_of(number, now) for number in range(start, min(count, start + 2_000))]
        rows = [
            {"project": ws.project, "id": one.id, "signature": one.signature, "body": to_json(one),
             "at": rfc3339(one.at)}
            for one in made
        ]  # fmt: skip
        with ws.ledger.db.write() as tx:
            tx.execute(insert(lessons), rows)


def timed(does: Callable[[], object]) -> float:
    """Milliseconds of one call."""
    start = time.perf_counter()
    does()
    return (time.perf_counter() - start) * 1_000


def spread(times: list[float]) -> dict[str, Json]:
    """Median, p95 and worst, in ms."""
    ordered = sorted(times)
    return {
        "p50": round(statistics.median(ordered), 1),
        "p95": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))], 1),
        "max": round(ordered[-1], 1),
    }


def agreement(ws: Workspace, exact: SemanticMemory, index: SemanticMemory, count: int) -> float:
    """Of the 10 nearest by comparing all, the share that the index finds as near, mean."""
    shares = []
    for number in range(0, count, max(1, count // 25)):
        lesson = lesson_of(number, ws.ledger.db.clock())
        asked = f"{lesson.signature} {lesson.reason}"
        truth = exact.search(asked, kind="lesson", limit=10, mend=False).near
        found = index.search(asked, kind="lesson", limit=10, mend=False).near
        least = truth[-1].likeness - 1e-4
        shares.append(sum(one.likeness >= least for one in found) / len(truth))
    return round(statistics.mean(shares), 3)


def measure(count: int, folder: Path, queries: int) -> dict[str, Json]:
    """Fill, index, recall."""
    root = folder / f"agent-{count}"
    root.mkdir()
    (root / "tracemend.yaml").write_text(yaml.safe_dump({"version": 1, "project": "recall"}))
    home = folder / f"home-{count}"
    register(home, "recall", root)
    ws = open_project(home, "recall")
    memory, embedder = open_memory(ws), open_embedder_of(ws)
    assert memory is not None
    assert embedder is not None
    fill(ws, count)
    built_s = timed(memory.reindex) / 1_000
    asked = [replace(finding_of(n * 7 % max(1, count // A_SIGNATURE))) for n in range(queries)]
    first = timed(lambda: recall(ws, asked[0]))
    cpu = time.process_time()
    times = [timed(lambda one=one: recall(ws, one)) for one in asked]  # type: ignore[misc]
    cpu_ms = (time.process_time() - cpu) * 1_000 / len(asked)
    how = recall(ws, asked[0]).how.partition(",")[0]
    exact = SemanticMemory(ws.ledger, embedder, home, index_from=10**9)
    exact.search("warm", kind="lesson", mend=False)
    searched = [
        timed(lambda one=one: exact.search(one.title, kind="lesson", limit=60, mend=False))  # type: ignore[misc]
        for one in asked
    ]
    size = sum(path.stat().st_size for path in (home / "chroma").rglob("*") if path.is_file())
    ws.ledger.close()
    return {
        "lessons": count, "way": how, "reindex_s": round(built_s, 1), "first_ms": round(first, 1),
        "recall_ms": spread(times), "recall_cpu_ms": round(cpu_ms, 1),
        "exact_search_ms": spread(searched),
        "same_nearest": agreement(ws, exact, memory, count) if how == "Chroma" else None,
        "index_mb": round(size / 1e6, 1),
    }  # fmt: skip


def main() -> None:
    """Measure and print one JSON line a size; exit 1 where p95 is over its bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lessons", type=int, nargs="*", default=[1_000, 10_000, 100_000])
    parser.add_argument("--queries", type=int, default=200)
    asked = parser.parse_args()
    over = False
    with tempfile.TemporaryDirectory(prefix="recall-") as folder:
        for count in asked.lessons:
            told = measure(count, Path(folder), asked.queries)
            print(json.dumps(told), flush=True)
            spent = told["recall_ms"]
            assert isinstance(spent, dict)
            over |= float(str(spent["p95"])) > P95_MS
    raise SystemExit(1 if over else 0)


if __name__ == "__main__":
    main()
