"""Runs are put on the side of the version that they carry, not of the clock."""

import asyncio
import json
from datetime import UTC, datetime

from connectors.traces.files import FilesSource
from contracts.traces import Trace, TraceQuery
from nodes.insights.exposure import exposure, side_of
from tests.trace_worlds import FIELD_CASES, drain, root, span, trace_of

CASE = FIELD_CASES / "50-label-moved-old-text-served"


def told() -> Trace:
    traces, _ = asyncio.run(drain(FilesSource([CASE / "observations_v2.json"]), TraceQuery()))
    (trace,) = traces
    return trace


def test_a_moved_label_is_exposed_by_what_the_steps_carry() -> None:
    expected = json.loads((CASE / "expected.json").read_text())["watch"]
    found = exposure(told().spans, "desk/system", "8")
    assert {f"v{version}": steps for version, steps in found.steps.items()} == expected["exposure"]
    assert found.mixed_until == datetime.fromisoformat(expected["mixed_until"])
    assert side_of(told(), "desk/system", "8") == "both"


def versions(*carried: str, prompt: str = "desk") -> Trace:
    steps = [
        span(n, "LLM", "reply", also={"prompt.name": prompt, "prompt.version": version})
        for n, version in enumerate(carried, 1)
    ]
    return trace_of(root(), *steps)


def test_a_trace_stands_on_the_side_of_its_own_version() -> None:
    assert side_of(versions("8", "8"), "desk", "8") == "new"
    assert side_of(versions("7"), "desk", "8") == "old"
    assert side_of(versions("7", "8"), "desk", "8") == "both"
    assert side_of(versions("8", prompt="other"), "desk", "8") == "other"


def test_versions_that_were_never_mixed_have_no_such_time() -> None:
    only_new = exposure(versions("8", "8").spans, "desk", "8")
    assert (dict(only_new.steps), only_new.mixed_until) == ({"8": 2}, None)
    still_old = exposure(versions("8", "7").spans, "desk", "8")
    assert still_old.mixed_until is None
    clean = exposure(versions("7", "8", "8").spans, "desk", "8")
    assert clean.mixed_until == datetime(2026, 11, 24, 9, 0, 2, tzinfo=UTC)
