"""One graded run of the agent: what the gate, the precheck and every other caller count."""

from contracts.gate import Case, Graded
from contracts.harness import HarnessSnapshot
from contracts.protocols import Probe
from memory.workspace import Workspace
from nodes.gate.outside import answers
from nodes.gate.score import grade
from nodes.insights.detect.all import detect_trace


async def run_one(
    ws: Workspace,
    probe: Probe,
    case: Case,
    harness: HarnessSnapshot,
    *,
    seed: int,
    deadline_s: float,
) -> Graded:
    """Run the agent once on the case and grade what was seen.

    Raises:
        ProbeError: the agent cannot be started.
        ConfigError: a judge is asked for and its model cannot be opened.
    """
    seen = await probe.run(case.input, harness, seed=seed, deadline_s=deadline_s)
    symptoms = detect_trace(seen.trace) if seen.trace is not None else ()
    return grade(case, seen, symptoms, await answers(ws, case, seen))


def first_of(group: ExceptionGroup[Exception]) -> Exception:
    """The first failure of tasks that ran side by side; the others were cancelled for it."""
    first = group.exceptions[0]
    return first_of(first) if isinstance(first, ExceptionGroup) else first
