"""The real SDKs of Langfuse and LangSmith in a real worker read the candidate's prompts."""

import json
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from connectors.probe.prompts import PromptsProbe
from connectors.probe.worker import WorkerProbe
from connectors.traces.files import read_spans
from contracts.harness import HarnessFile, HarnessSnapshot
from contracts.json_types import Json
from contracts.protocols import Probe
from tests.trace_worlds import REPO

Probes = Callable[..., PromptsProbe]

HEAD = """
import os
from langfuse import Langfuse, get_client, observe
from langfuse.api import NotFoundError
from langsmith import Client, traceable
from tracemend_runtime import RunAnswer, RunRequest, serve

langfuse = Langfuse()  # as agents do: one client for the life of the process
langsmith = Client()

"""


def harness(**files: Json) -> HarnessSnapshot:
    """Prompts by name; `__` stands for a slash."""
    data = {
        f"prompts/{name.replace('__', '/')}.json": json.dumps(value).encode()
        for name, value in files.items()
    }
    return HarnessSnapshot(
        files={path: HarnessFile(data=text) for path, text in data.items()}
        | {"instructions/main.md": HarnessFile(data=b"Be brief.\n")}
    )


def text(prompt: str, **more: Json) -> Json:
    return {"type": "text", "prompt": prompt, **more}


@pytest.fixture
def probe_of(tmp_path: Path) -> Probes:
    def make(script: str, *, concurrency: int = 1, linger_s: float = 20.0) -> PromptsProbe:
        (tmp_path / "worker.py").write_text(HEAD + textwrap.dedent(script))

        def inner(env: Mapping[str, str]) -> Probe:
            return WorkerProbe(
                command=[sys.executable, "worker.py"], cwd=tmp_path, work=tmp_path / "work",
                concurrency=1, timeout_s=60, pass_env=[], read_spans=read_spans,
                env={"PYTHONPATH": str(REPO), "HTTP_PROXY": "http://127.0.0.1:9", **env},
            )  # fmt: skip

        return PromptsProbe(
            inner, concurrency=concurrency, read_spans=read_spans, linger_s=linger_s
        )

    return make


READS = """
def run(request):
    system = langfuse.get_prompt("support/system")
    pulled = langsmith.pull_prompt("refunds")
    return RunAnswer(output=[
        system.compile(name="Ann"), pulled.invoke({"name": "Ann"}).to_string(), os.getpid(),
        langsmith.pull_prompt_commit("refunds").commit_hash,
    ])

serve(run)
"""


async def test_each_arm_reads_its_own_text_though_the_sdks_cache(probe_of: Probes) -> None:
    before = harness(support__system=text("Old {{name}}"), refunds=text("old {name}"))
    after = harness(support__system=text("New {{name}}"), refunds=text("new {name}"))
    said = []
    async with probe_of(READS, linger_s=0.0) as probe:
        for arm in (before, after, after, before, before, after):
            seen = await probe.run("hi", arm, seed=1, deadline_s=60)
            assert (seen.missing, seen.error) == (None, None)
            assert isinstance(seen.output, list)
            said.append(seen.output)
    old, new = ["Old Ann", "old Ann"], ["New Ann", "new Ann"]
    assert [one[:2] for one in said] == [old, new, new, old, old, new]
    assert len({one[2] for one in said}) == 2  # long-lived: a process an arm
    assert len({one[3] for one in said}) == 2


READING = """
def run(request):
    try:
        return RunAnswer(output=read(**request.input))
    except Exception as error:
        return RunAnswer(error=type(error).__name__)

def read(name, hub=False, **how):
    if hub:
        return langsmith.pull_prompt(name).invoke({"name": "Ann"}).to_string()
    return langfuse.get_prompt(name, cache_ttl_seconds=0, max_retries=0, **how).compile(name="Ann")

serve(run)
"""
CHAT: list[Json] = [
    {"role": "system", "content": "Be {{tone}}, {{name}}."},
    {"role": "user", "content": "Hello"},
]
HUB_CHAT: list[Json] = [{"role": "system", "content": "Be kind, {name}."}]
PROMPTS = harness(
    plain=text("Hi {{name}}"),
    chat={"prompt": CHAT, "config": {"model": "m"}},
    labelled=text("L", labels=["staging"]),
    whole=text("Start @@@langfusePrompt:name=part|label=production@@@ end"),
    part=text("[part of {{name}}]"),
    loop=text("@@@langfusePrompt:name=loop@@@"),
    hub={"prompt": HUB_CHAT},
    team__hub={"prompt": "For {name}"},
    broken={"prompt": 3},
)


READ: list[tuple[Json, Json]] = [
    ({"name": "plain"}, "Hi Ann"),
    ({"name": "plain", "label": "latest"}, "Hi Ann"),
    ({"name": "plain", "label": "staging"}, "Hi Ann"),
    ({"name": "labelled", "label": "staging"}, "L"),
    ({"name": "labelled", "label": "latest"}, "L"),
    (
        {"name": "chat"},
        [
            {"role": "system", "content": "Be {{tone}}, Ann."},
            {"role": "user", "content": "Hello"},
        ],
    ),
    ({"name": "whole"}, "Start [part of Ann] end"),
    ({"name": "instructions/main"}, "Be brief.\n"),
    ({"name": "hub", "hub": True}, "System: Be kind, Ann."),
    ({"name": "hub:production", "hub": True}, "System: Be kind, Ann."),
]


async def test_prompts_are_read_as_the_vendor_would_give_them(probe_of: Probes) -> None:
    async with probe_of(READING, linger_s=0.0) as probe:
        for asked, answer in READ:
            seen = await probe.run(asked, PROMPTS, seed=1, deadline_s=60)
            assert (seen.missing, seen.error, seen.output) == (None, None, answer), asked


NOT_READ: list[tuple[Json, str]] = [
    ({"name": "absent"}, "the harness has no prompts/absent.json"),
    ({"name": "absent", "fallback": "F"}, "the harness has no prompts/absent.json"),
    ({"name": "plain", "version": 1}, "plain is read by its version, which no edit changes"),
    ({"name": "labelled"}, "labelled is read under a label that its file does not name"),
    ({"name": "loop"}, "the prompt loop contains itself by way of loop"),
    (
        {"name": "broken"},
        "prompts/broken.json has neither a `prompt` (text or messages) nor a `manifest`",
    ),
    ({"name": "hub:0123456789ab", "hub": True}, "hub is read by its commit, which no edit changes"),
    ({"name": "absent", "hub": True}, "the harness has no prompts/absent.json"),
]


async def test_a_run_that_read_no_text_of_the_candidate_is_missing(probe_of: Probes) -> None:
    async with probe_of(READING, linger_s=0.0) as probe:
        for asked, why in NOT_READ:
            seen = await probe.run(asked, PROMPTS, seed=1, deadline_s=60)
            assert seen.missing == f"prompts: {why}", asked
            assert (seen.output, seen.error) == (None, None)
        fine = await probe.run({"name": "plain"}, PROMPTS, seed=1, deadline_s=60)
        assert fine.missing is None


async def test_nothing_is_written_and_attempts_are_counted(probe_of: Probes) -> None:
    script = """
    def run(request):
        said = []
        for write in (
            lambda: langfuse.create_prompt(name="plain", prompt="mine", labels=["production"]),
            lambda: langfuse.update_prompt(name="plain", version=1, new_labels=["production"]),
            lambda: langsmith.push_prompt("hub", object=langsmith.pull_prompt("hub")),
        ):
            try:
                write()
                said.append("written")
            except Exception as error:
                said.append(type(error).__name__)
        return RunAnswer(output=said)

    serve(run)
    """
    async with probe_of(script, linger_s=0.0) as probe:
        seen = await probe.run("hi", PROMPTS, seed=1, deadline_s=60)
    assert isinstance(seen.output, list)
    assert len(seen.output) == 3
    assert "written" not in seen.output
    assert {what.split(" ")[0] for what in probe.refused} == {"POST", "PATCH"}
    assert probe.refused.total() >= 3


TRACED = """
import time
from opentelemetry import trace as otel
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

@observe(as_type="tool")
def look(order):
    return f"{order}: open"

@observe(name="desk")
def by_langfuse(order):
    return look(order)

@traceable(run_type="tool", name="look")
def seek(order):
    return f"{order}: open"

@traceable(name="desk")
def by_langsmith(order):
    return seek(order)

def by_otlp(order):
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    tracer = provider.get_tracer("t")
    kind = "openinference.span.kind"
    with tracer.start_as_current_span("desk", attributes={kind: "AGENT"}):
        with tracer.start_as_current_span("look", attributes={kind: "TOOL", "output.value": order}):
            pass
    provider.force_flush()
    return order

def run(request):
    how, order, flush = request.input
    answer = {"langfuse": by_langfuse, "langsmith": by_langsmith, "otlp": by_otlp}[how](order)
    if flush:
        langfuse.flush()
        langsmith.flush()
    return RunAnswer(output=answer)

os.environ["LANGSMITH_TRACING"] = "true"
serve(run)
"""


async def test_spans_that_the_agent_sends_are_those_of_its_run(probe_of: Probes) -> None:
    async with probe_of(TRACED) as probe:
        for number, (how, flush) in enumerate(
            [("langfuse", True), ("langsmith", True), ("otlp", True), ("langfuse", False),
             ("langsmith", False)]
        ):  # fmt: skip
            case: Json = [how, f"A-{number}", flush]
            seen = await probe.run(case, PROMPTS, seed=1, deadline_s=60)
            assert seen.missing is None
            assert seen.trace is not None, how
            tools = [(s.tool_name, s.output and s.output.text) for s in seen.trace.spans
                     if s.kind == "tool"]  # fmt: skip
            assert [name for name, _ in tools] == ["look"], how
            assert f"A-{number}" in str(tools[0][1]), how
