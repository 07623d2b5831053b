"""What an analysis gives to models, by the number of traces: the real pipeline, scripted answers.

Called by `python -m benchmarks.insights tokens`. Runs are drawn as in `planted_world`, five causes
in 6 % each; the analyst gives its opinions and the router model its readings from scripts, over a
ledger of its own. Tokens are counted by the pipeline, since the scripts report no use.
"""

import asyncio
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.planted_world import Fault, Held, Plan, Pools, lay_out, numbers
from contracts.json_types import Json
from contracts.traces import TraceQuery
from memory.workspace import Workspace
from nodes.insights.analyze import analyze
from nodes.insights.by_models import add_models
from tests.model_worlds import ANALYST, ROUTER, T1, workspace

FAULTS = tuple(
    Fault(condition=name, share=0.06)
    for name in ("index_down", "withdrawn", "desk_full", "short_years", "short_years_new")
)
SCREENED = 100
"""Runs that the router model may read."""
_OPINION: dict[str, Json] = {
    "cause": "tool_failure", "remedy": "tool", "evidence": ["e1"], "confidence": 0.8,
    "summary": "The tool refuses the call.", "falsifier": "The same call works elsewhere.",
}  # fmt: skip


def _script(ws: Workspace, name: str, answer: dict[str, Json], count: int) -> None:
    line = json.dumps({"answer": answer}) + "\n"
    (ws.root / name.removeprefix("scripted:")).write_text(line * count, "utf-8")


def used(traces: int, pools: Pools, folder: Path) -> dict[str, Json]:
    """The report of the models' part of one analysis."""
    window = lay_out(Plan(traces=traces, faults=FAULTS), pools, numbers(1))
    models: dict[str, Json] = {
        "analyst": ANALYST, "router": ROUTER, "screen_traces": SCREENED,
    }  # fmt: skip
    ws = workspace(folder, models=models)
    _script(ws, ANALYST, _OPINION, 60)
    _script(ws, ROUTER, {"hits": []}, 60)
    source = Held(window.traces)

    async def work() -> dict[str, Json]:
        found = await analyze(source, TraceQuery(), project="tokens")
        told = await add_models(ws, T1, source, found, resting=frozenset(), asked=True)
        return dict(told.report or {})

    try:
        return asyncio.run(work())
    finally:
        ws.ledger.close()


def tokens(sizes: Sequence[int], scratch: Path) -> None:
    """A line for each number of traces."""
    pools = Pools(scratch, 24)
    for count in sizes:
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            report = used(count, pools, Path(folder))
        spent = report.get("tokens")
        total = (
            sum(n for n in spent.values() if isinstance(n, int)) if isinstance(spent, dict) else 0
        )
        print(
            f"{count:>7} traces: {total} tokens {spent}, {report.get('diagnosed')} findings "
            f"diagnosed, limit {report.get('limit')}, notes {report.get('notes')}",
            flush=True,
        )
