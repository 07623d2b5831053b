"""On real recorded runs: which policy file steered them is told from what was kept."""

from contracts.harness import HarnessFile, HarnessSnapshot
from contracts.traces import Trace
from nodes.evolution.governing import ranked
from nodes.insights.detect.all import detect
from nodes.insights.detect.faults import Scans
from nodes.insights.sketch import Sketch, sketch_of
from nodes.insights.steered import kept_steering, steered_of
from tests.card_worlds import finding
from tests.trace_worlds import read_all, shared


def sketches(traces: list[Trace]) -> list[Sketch]:
    scans = Scans()
    return [sketch_of(detect(trace, scans)) for trace in traces]


def test_the_policy_that_the_runs_were_given_governs_and_the_other_one_does_not() -> None:
    runs = sketches(read_all(shared("data", "agentrx", "tau_dataset_failed.json.gz"))[0])
    files = {
        f"instructions/{name}.md": HarnessFile(data=shared("data", "agentrx", name).read_bytes())
        for name in ("retail_policy.txt", "magentic_policy.txt")
    }
    kept = kept_steering("people:said", runs, [])
    best, other = ranked(
        HarnessSnapshot(files=files), steered_of({"steering": kept}), finding(), ["instructions/*"]
    )
    assert best.path == "instructions/retail_policy.txt.md"
    assert "its text is in the system message of" in best.why
    assert best.recorded
    assert not other.recorded
    assert other.text_known


def test_every_recorded_run_of_trail_tells_a_system_text() -> None:
    runs = sketches(read_all(*sorted(shared("data", "trail", "traces").rglob("*.json.gz"))[:8])[0])
    told = steered_of({"steering": kept_steering("people:said", runs, [])}).failing
    assert (told.runs, told.with_text) == (len(runs), len(runs))
