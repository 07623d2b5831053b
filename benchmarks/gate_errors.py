"""How often the whole gate errs, and what it costs: the shipped rule on simulated projects.

    python -m benchmarks.gate_errors --projects 1000 --results gates.jsonl   # all cells, resumable
    python -m benchmarks.gate_errors --projects 100 --cells Small --edits "no effect"
    python -m benchmarks.gate_errors --results gates.jsonl --projects 0 --plot gates.svg

Every gate is planned by `design_plan` and driven through `next_step` to its report, as the node
does. The usual rules are asked about the same projects. Printed: exact sizes (`--exact`), tables in
Markdown, what differs from the design sheet by more than chance, runs saved. Exit code 1: some edit
was falsely accepted more often than its level allows. Figures stand in `docs/gate-errors.md`.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.gate_errors_exact import exact_rows
from benchmarks.gate_errors_plot import plot
from benchmarks.gate_errors_results import EDIT, PROJECT, Key, Results, as_batch, excesses
from benchmarks.gate_errors_tables import differences, exact_table, saved, table, usual_table
from benchmarks.gate_errors_worlds import EDITS, FLAKINESS, PROJECTS, simulate
from contracts.json_types import JsonObject

BATCH = 50
"""Gates of a line of the results; a run that is stopped loses at most so many a process."""


def simulated(key: Key, first: int, count: int, *, guards: bool) -> JsonObject:
    """Run the gates `first` … `first + count - 1` of a cell."""
    project, edit = PROJECT[key[0]], EDIT[key[2]]
    numbers = range(first, first + count)
    gates = (simulate(project, edit, key[1], number, guards=guards) for number in numbers)
    return as_batch(key, first, gates)


def cells(projects: Sequence[str], edits: Sequence[str], flaky: Sequence[float]) -> Iterator[Key]:
    """The cells whose project and edit begin with one of the words; none given: all."""
    for project in PROJECTS:
        for flakiness in FLAKINESS:
            for edit in EDITS:
                if (
                    _named(project.name, projects)
                    and _named(edit.name, edits)
                    and (not flaky or flakiness in flaky)
                ):
                    yield project.name, flakiness, edit.name


def _named(name: str, words: Sequence[str]) -> bool:
    return not words or any(name.startswith(word) for word in words)


def run(
    results: Results, asked: Sequence[Key], projects: int, *, processes: int, guards: bool
) -> None:
    """Bring every cell to so many gates."""
    left = [
        (key, first, min(BATCH, projects - first))
        for first in range(0, projects, BATCH)
        for key in asked
        if (key, first) not in results.there
    ]
    with ProcessPoolExecutor(processes) as pool:
        jobs = [pool.submit(simulated, key, first, n, guards=guards) for key, first, n in left]
        for number, job in enumerate(jobs, 1):
            results.put(job.result())
            if number % 20 == 0:
                print(f"{number} of {len(jobs)} batches", file=sys.stderr, flush=True)


def main() -> int:
    """Simulate, print, draw; 1 where a level is exceeded."""
    given = _arguments()
    results = Results(given.results).read()
    asked = list(cells(given.cells, given.edits, given.flaky))
    run(results, asked, given.projects, processes=given.processes, guards=not given.unguarded)
    if given.exact:
        print(exact_table(exact_rows(lambda line: print(line, file=sys.stderr, flush=True))))
    print(table(results), usual_table(results), saved(results), differences(results), sep="\n\n")
    if given.plot is not None:
        given.plot.write_text(plot(results), "utf-8")
    wrong = excesses(results)
    print("\n" + "\n".join(wrong or ["False accepts: within the level in every cell."]))
    return 1 if wrong else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gate_errors")
    parser.add_argument("--projects", type=int, default=1_000, help="gates a cell; 0: only print")
    parser.add_argument("--cells", nargs="*", default=[], help="projects by how they begin")
    parser.add_argument("--edits", nargs="*", default=[], help="edits by how they begin")
    parser.add_argument("--flaky", nargs="*", type=float, default=[])
    parser.add_argument("--results", type=Path, help="JSON lines, read first and added to")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--unguarded", action="store_true", help="without protected cases")
    parser.add_argument("--exact", action="store_true", help="also enumerate sizes (minutes)")
    parser.add_argument("--plot", type=Path, help="where the SVG is written")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
