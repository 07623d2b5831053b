"""What the server costs: beside a bare graph, beside other servers, with much waiting, in a storm.

    python -m benchmarks.server [ratio] [http] [proposals] [storm] [--small]

`ratio`: run to the interrupt and resume in one process at concurrency 1, 20 and 100, beside a bare
LangGraph graph of as many nodes on the same kind of SQLite saver, in turns. `http`: the same by
`langgraph_sdk` against `tracemend serve`, `langgraph dev` and Aegra (those that are here), which
run the bare graph. `proposals`: pages of GET /proposals with 1,000 that wait beside 10. `storm`:
10,000 alerts of four kinds. `--small`: a tenth of it, to see that it works.
Figures with date and command stand in `docs/reliability.md`.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.server_http import aegra, langgraph_dev, measure, others_here, ours
from benchmarks.server_pages import listing
from benchmarks.server_ratio import Level, Pair, compare
from benchmarks.server_storm import storm
from benchmarks.server_worlds import Kit, kit

LEVELS = (Level(at_once=1, waves=20), Level(at_once=20, waves=5), Level(at_once=100, waves=2))
SMALL = (Level(at_once=1, waves=3), Level(at_once=5, waves=1))
STEPS = ("run to interrupt", "resume")
KINDS = 4


def ratio(folder: Path, kit: Kit, *, small: bool) -> list[str]:
    """In one process."""
    lines = [
        "| at once | step | runs | bare /s | bare p50 ms | ours /s | ours p50 ms | p95 | ratio |",
        "|--:|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for found in asyncio.run(compare(folder, kit, SMALL if small else LEVELS)):
        for part, step in enumerate(STEPS):
            bare, own = found.bare[part], found.ours[part]
            lines.append(
                f"| {found.at_once} | {step} | {len(own.each)} | {bare.per_second:.1f} | "
                f"{bare.p50_ms:.0f} | {own.per_second:.1f} | {own.p50_ms:.0f} | {own.p95_ms:.0f} | "
                f"{found.ratio(part):.1f} |"
            )
    return lines


def http(folder: Path, kit: Kit, *, small: bool) -> list[str]:
    """By the SDK, over loopback."""
    here, missing = others_here()
    levels = SMALL if small else LEVELS
    lines = ["| server | at once | step | /s | p50 ms | p95 ms |", "|---|--:|---|--:|--:|--:|"]
    (folder / "ours").mkdir()
    with ours(folder / "ours") as server:
        found = asyncio.run(measure(server, levels, folder / "ours", kit))
        lines += _rows(server.name, levels, found)
    for name, start in (("dev", langgraph_dev), ("aegra", aegra)):
        if name not in here:
            continue
        with start(folder / name) as server:
            found = asyncio.run(measure(server, levels, folder, kit))
            lines += _rows(server.name, levels, found)
    return lines + [f"not measured: {why}" for why in missing]


def _rows(name: str, levels: Sequence[Level], found: Sequence[Pair]) -> list[str]:
    return [
        f"| {name} | {level.at_once} | {step} | {pair[part].per_second:.1f} | "
        f"{pair[part].p50_ms:.0f} | {pair[part].p95_ms:.0f} |"
        for level, pair in zip(levels, found, strict=True)
        for part, step in enumerate(STEPS)
    ]


def proposals(folder: Path, kit: Kit, *, small: bool) -> list[str]:
    """Few that wait, many in ten projects, many in one."""
    lines = [
        "| waiting | projects | pages | first page p50 ms | p95 | any page p50 ms | p95 |",
        "|--:|--:|--:|--:|--:|--:|--:|",
    ]
    many, repeat = (100, 5) if small else (1000, 40)
    for number, (waiting, projects) in enumerate(((10, 1), (many, 1), (many, 10))):
        home = folder / str(number)
        home.mkdir()
        found = listing(home, kit, waiting, projects, repeat)
        lines.append(
            f"| {found.waiting} | {found.projects} | {found.pages} | {found.first_p50_ms:.1f} | "
            f"{found.first_p95_ms:.1f} | {found.page_p50_ms:.1f} | {found.page_p95_ms:.1f} |"
        )
    return lines


def alerts(folder: Path, kit: Kit, *, small: bool) -> list[str]:
    """A storm; fails when an alert is lost or a kind has two incidents."""
    found = storm(folder, kit, 1000 if small else 10_000, KINDS)
    memory = ", ".join(f"{rss:.0f} after {count}" for count, rss in found.rss_mb.items())
    assert (found.lost, found.incidents, found.fired) == (0, found.kinds, found.alerts), found
    return [
        f"{found.alerts} alerts of {found.kinds} kinds: {found.accepted_per_second:.0f} accepted/s,"
        f" p50 {found.p50_ms:.0f} ms, p95 {found.p95_ms:.0f} ms; {found.lost} lost, "
        f"{found.incidents} incidents, which fired {found.fired} times",
        f"all taken in {found.taken_in_s:.1f} s after the last; server's memory in MB: {memory}",
    ]


Part = Callable[..., list[str]]
PARTS: dict[str, Part] = {"ratio": ratio, "http": http, "proposals": proposals, "storm": alerts}


def main(words: Sequence[str] | None = None) -> int:
    """Measure the parts that were asked for, print their tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--small", action="store_true", help="a tenth, to see that it works")
    asked = parser.parse_args(words)
    with kit() as known:
        for name in asked.parts or PARTS:
            with tempfile.TemporaryDirectory(prefix=f"server-{name}-") as folder:
                lines = PARTS[name](Path(folder), known, small=asked.small)
            print(f"{name}\n" + "\n".join(lines), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
