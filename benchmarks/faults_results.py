"""Results of stories: one JSON line each, so that a long run can be stopped and resumed."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGES = ("graph", "nodes", "memory", "connectors", "configs", "contracts", "runtime")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How one story ended. `problem` None: every promise was kept."""

    revision: str
    mode: str
    round: int
    point: str
    seconds: float
    kills: int
    at: str
    problem: str | None = None
    folder: str | None = None
    """Of a story that failed: where its world was left."""

    @property
    def key(self) -> tuple[str, str, int, str]:
        """What makes two stories the same one."""
        return (self.revision, self.mode, self.round, self.point)


def code_revision() -> str:
    """Twelve digits of a hash of the product's source: results of other code are not resumed."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        for file in sorted((REPOSITORY / package).rglob("*")):
            if file.suffix in (".py", ".yaml", ".mako") and file.is_file():
                digest.update(str(file.relative_to(REPOSITORY)).encode() + b"\0")
                digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:12]


def read(file: Path) -> list[Result]:
    """The results in a file; a last line that was cut off by a kill is left out."""
    if not file.exists():
        return []
    found = []
    for line in file.read_text("utf-8").splitlines():
        try:
            found.append(Result(**json.loads(line)))
        except (json.JSONDecodeError, TypeError):
            continue
    return found


def append(file: Path, result: Result) -> None:
    """Add one line, on its own line whatever the file ended with."""
    cut = file.exists() and file.stat().st_size and not file.read_bytes().endswith(b"\n")
    with file.open("a", encoding="utf-8") as out:
        out.write(("\n" if cut else "") + json.dumps(asdict(result)) + "\n")


def table(results: Iterable[Result]) -> list[str]:
    """A Markdown table: points, rounds, kills, failures, seconds a story."""
    by_point: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        by_point[(result.mode, result.point)].append(result)
    lines = [
        "| mode | killed at | rounds | kills | failures | s a story |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for (mode, point), told in by_point.items():
        lines.append(f"| {mode} | {point} | {_numbers(told)} |")
    everything = [result for told in by_point.values() for result in told]
    lines.append(f"| all | {len(by_point)} points | {_numbers(everything)} |")
    return lines


def _numbers(told: Sequence[Result]) -> str:
    failures = sum(result.problem is not None for result in told)
    mean = sum(result.seconds for result in told) / max(len(told), 1)
    kills = sum(result.kills for result in told)
    return f"{len(told)} | {kills} | {failures} | {mean:.1f}"
