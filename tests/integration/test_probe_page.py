"""Every example of docs/probe.md runs as it stands there, around a small agent of the tests."""

import re
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from configs.gate_settings import ProbeSettings
from connectors.probe.opening import open_agent
from contracts.harness import HarnessFile, HarnessSnapshot, Observation
from contracts.json_types import Json
from contracts.protocols import Probe
from tests.fakes.langgraph_server import LangGraphServer
from tests.fakes.serving import serve

PAGE = Path(__file__).resolve().parents[2] / "docs" / "probe.md"
HARNESS = HarnessSnapshot(files={"instructions/main.md": HarnessFile(data=b"Be brief")})

# The reader's own agent, as the page's examples import it.
MY_AGENT = """
from dataclasses import dataclass
from pathlib import Path

from langchain_core.messages import AIMessage

SPAN = {
    "traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174", "name": "pay",
    "startTimeUnixNano": "1544712660000000000", "endTimeUnixNano": "1544712661000000000",
    "attributes": [{"key": "tool.name", "value": {"stringValue": "pay"}},
                   {"key": "openinference.span.kind", "value": {"stringValue": "TOOL"}}],
}


@dataclass
class Reply:
    text: str
    cost: float = 0.25
    spans_file: str | None = None
    otlp: dict | None = None


class Agent:
    def __init__(self, instructions):
        self.text = instructions.read_text() if isinstance(instructions, Path) else instructions

    def answer(self, message, timeout):
        if message == "fail":
            raise ValueError("no order")
        return Reply(f"{self.text}: {message}")

    async def reply(self, message, timeout):
        found = self.answer(message, timeout)
        found.otlp = {"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]}
        return found


def instructions():
    return "what production reads"


class Model:
    async def ainvoke(self, messages):
        (_, text), *_, last = messages
        if last.content == "fail":
            raise ValueError("no order")
        counts = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}
        return AIMessage(f"{text}: {last.content}", usage_metadata=counts)


model = Model()
"""
MY_AGENT_JS = """
import { readFileSync } from "node:fs";
export async function agent(input, harness) {
  if (input.message === "fail") throw new Error("no order");
  const text = readFileSync(harness + "/instructions/main.md", "utf8");
  return { text: `${text}: ${input.message}`, cost_usd: 0.25, spans: null };
}
"""


def examples(heading: str, language: str) -> list[str]:
    """The code blocks of a section, in one language, as they stand on the page."""
    page = PAGE.read_text("utf-8")
    sections = re.split(r"^## ", page, flags=re.MULTILINE)
    (section,) = (one for one in sections if one.partition("\n")[0] == heading)
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my_agent.py").write_text(MY_AGENT)
    (tmp_path / "agent.mjs").write_text(MY_AGENT_JS)
    return tmp_path


@asynccontextmanager
async def opened(folder: Path, **spec: Any) -> AsyncIterator[Probe]:
    settings = ProbeSettings(timeout_s=120, **spec)
    async with open_agent(settings, root=folder, work=folder / "work") as probe:
        yield probe


async def ran(probe: Probe, case_input: Json) -> Observation:
    return await probe.run(case_input, HARNESS, seed=7, deadline_s=120)


async def holds(probe: Probe) -> Observation:
    """The example answers by the candidate's text, and what it raises is the agent's failure."""
    fine, failed = await ran(probe, {"message": "hi"}), await ran(probe, {"message": "fail"})
    assert (fine.output, fine.error, fine.missing) == ("Be brief: hi", None, None)
    assert fine.usage.cost_usd == 0.25
    assert failed.missing is None
    assert "no order" in str(failed.error)
    return fine


async def test_the_python_worker_runs(folder: Path) -> None:
    (block,) = examples("Python", "python")
    (folder / "worker.py").write_text(block)
    async with opened(folder, kind="worker", command=[sys.executable, "worker.py"]) as probe:
        await holds(probe)


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
async def test_the_javascript_worker_runs(folder: Path) -> None:
    (block,) = examples("JavaScript", "js")
    (folder / "worker.mjs").write_text(block)
    async with opened(folder, kind="worker", command=["node", "worker.mjs"]) as probe:
        await holds(probe)


async def test_the_command_runs(folder: Path) -> None:
    (block,) = examples("Command", "python")
    (folder / "run_once.py").write_text(block)
    async with opened(folder, kind="command", command=[sys.executable, "run_once.py"]) as probe:
        await holds(probe)


@contextmanager
def imported(folder: Path, block: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The names of an example that is run in this process, with the reader's agent beside it."""
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "my_agent", raising=False)
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(block, "docs/probe.md", "exec", dont_inherit=True), names)  # noqa: S102  our page
    yield names
    sys.modules.pop("my_agent", None)


async def test_the_http_service_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = examples("HTTP service", "python")
    with imported(folder, block, monkeypatch) as names, serve(names["app"]) as url:
        async with opened(folder, kind="http", url=f"{url}/run") as probe:
            seen = await holds(probe)
    assert seen.trace is not None
    assert [span.tool_name for span in seen.trace.spans] == ["pay"]


async def test_the_graph_runs_with_the_settings_beside_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,), (settings,) = (
        examples("LangGraph server", "python"),
        examples("LangGraph server", "yaml"),
    )
    spec = yaml.safe_load(settings)["probe"]
    with imported(folder, block, monkeypatch) as names:
        server = LangGraphServer(graph=names["graph"], assistant=spec["assistant"])
        with serve(server.app) as url:
            async with opened(folder, **(spec | {"url": url})) as probe:
                fine, failed = await ran(probe, "hi"), await ran(probe, "fail")
    assert (fine.output, fine.error, fine.missing) == ("Be brief: hi", None, None)
    assert fine.usage.input_tokens == 9
    assert fine.trace is not None
    assert (failed.error, failed.missing) == ("ValueError: no order", None)
