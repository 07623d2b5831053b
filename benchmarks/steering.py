"""How often recorded traces tell what steered them: `python -m benchmarks.steering --in DIR …`.

One line a folder: of so many traces, in how many a system text, a managed prompt, an opened skill
and an agent were recorded, the same of the failed ones, and what that took beside detection.
"""

import argparse
import asyncio
from collections import Counter
from pathlib import Path
from time import perf_counter

from connectors.traces.files import FilesSource
from contracts.errors import TracemendError
from contracts.traces import TraceQuery
from nodes.insights.detect.all import Detected, detect
from nodes.insights.detect.faults import Scans
from nodes.insights.steering import Steer, steering_of

KINDS = ("text", "prompt", "agent")


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--in", dest="folders", nargs="+", type=Path, required=True)
    parser.add_argument("--most", type=int, default=400, help="traces of a folder")
    chosen = parser.parse_args()
    for folder in chosen.folders:
        try:
            print(f"{folder.name}: {asyncio.run(counted(folder, chosen.most))}")
        except TracemendError as error:
            print(f"{folder.name}: {error}")


async def counted(folder: Path, most: int) -> str:
    """The line of one folder."""
    counts: Counter[str] = Counter()
    scans, detecting, steering = Scans(), 0.0, 0.0
    async for batch in FilesSource([folder]).window(TraceQuery()):
        for trace in batch.traces:
            if counts["traces"] == most:
                break
            began = perf_counter()
            detected = detect(trace, scans)
            middle = perf_counter()
            _count(counts, detected)
            detecting += middle - began
            steering += perf_counter() - middle
    said = ", ".join(f"{counts[kind]} {kind}" for kind in (*KINDS, "skill"))
    failed = ", ".join(f"{counts[f'failed {kind}']} {kind}" for kind in KINDS)
    share = steering / detecting if detecting else 0.0
    return (
        f"{counts['traces']} traces: {said}; {counts['failed']} failed: {failed}; "
        f"{share:.2f} of the time of detection"
    )


def _count(counts: Counter[str], detected: Detected) -> None:
    places = [(str(s.signature), s.span_id) for s in detected.symptoms if s.counts]
    found = steering_of(detected.view, places)
    counts["traces"] += 1
    counts["skill"] += bool(found.skills)
    counts["failed"] += bool(places)
    failing = {number for numbers in found.of.values() for number in numbers}
    for kind in KINDS:
        counts[kind] += any(_told(one, kind) for one in found.steers)
        counts[f"failed {kind}"] += any(_told(found.steers[n], kind) for n in failing)


def _told(steer: Steer, kind: str) -> bool:
    return bool(getattr(steer, kind))


if __name__ == "__main__":
    main()
