"""The example agent fails as announced, obeys an edit, and works as a probe's worker."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from opentelemetry.trace import NoOpTracer

from examples.refund_agent.agent import RefundAgent, build_model
from examples.refund_agent.back_office import CALM, STORMY, Weather
from examples.refund_agent.record import record
from examples.refund_agent.requests import generate
from examples.refund_agent.tools import open_office

pytestmark = pytest.mark.story

ROOT = Path(__file__).parents[2]
REPO = ROOT / "examples" / "refund_agent" / "repo"

RETRY_SKILL = """---
name: busy-payments
description: Use when a payment does not come through.
---
# Busy payments

A `payment_api` call that ends in a gateway timeout (504) has not paid anything yet.

- Send the identical call again. Most of the time the second one works.
- Three such repeats are the limit.
- Only then tell the customer that it did not work today.
"""


def with_retry(folder: Path) -> Path:
    shutil.copytree(REPO, folder)
    skill = folder / "skills" / "busy-payments"
    skill.mkdir()
    (skill / "SKILL.md").write_text(RETRY_SKILL)
    return folder


def failing(out: Path, harness: Path, *, weather: Weather, seed: int) -> Counter[str]:
    """Of 150 recorded runs: how many ended with this tool's last call failed."""
    record(generate(150, seed), harness, out, weather=weather, seed=seed * 1000)
    found: Counter[str] = Counter()
    for line in out.read_text().splitlines():
        scopes = json.loads(line)["resourceSpans"][0]["scopeSpans"]
        spans = [span for scope in scopes for span in scope["spans"]]
        last: dict[str, bool] = {}
        for span in sorted(spans, key=lambda s: int(s["startTimeUnixNano"])):
            given = {a["key"]: a["value"].get("stringValue", "") for a in span["attributes"]}
            if given.get("openinference.span.kind") == "TOOL":
                swallowed = '"content": "Error' in given.get("output.value", "")
                last[span["name"]] = span["status"].get("code") == 2 or swallowed
        found.update(tool for tool, failed in last.items() if failed)
    return found


@pytest.mark.servers
def test_each_pattern_fails_at_its_rate_and_only_some_are_new_this_week(tmp_path: Path) -> None:
    calm = failing(tmp_path / "before", REPO, weather=CALM, seed=6)
    stormy = failing(tmp_path / "now", REPO, weather=STORMY, seed=7)
    assert 15 <= stormy["payment_api"] <= 30
    assert 3 <= stormy["shipping_status"] <= 8
    assert calm["payment_api"] == calm["shipping_status"] == 0
    for week in (calm, stormy):
        assert 10 <= week["get_order"] <= 16
        assert 4 <= week["create_return_label"] <= 8
        assert 1 <= week["loyalty_points"] <= 2


@pytest.mark.servers
def test_a_retry_skill_mends_the_payments_and_nothing_else(tmp_path: Path) -> None:
    stock = failing(tmp_path / "stock", REPO, weather=STORMY, seed=8)
    edited = failing(tmp_path / "edited", with_retry(tmp_path / "h"), weather=STORMY, seed=8)
    assert edited["payment_api"] <= 4 < stock["payment_api"]
    assert edited - Counter(payment_api=99) == stock - Counter(payment_api=99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """One sealed case as far as this test grades it."""

    given: dict[str, str]
    tool: str
    contains: str


def sealed() -> list[Sealed]:
    cases = yaml.safe_load((REPO / "cases" / "sealed.yaml").read_text())
    return [
        Sealed(given=c["input"], tool=c["assert"][1]["tool_called"]["name"],
               contains=c["assert"][2]["contains"])
        for c in cases
    ]  # fmt: skip


def graded(harness: Path, *, seed: int) -> list[tuple[bool, float]]:
    """(passed, cost) of each sealed case."""
    rows = []
    with open_office(STORMY) as office:
        agent = RefundAgent(model=build_model(), harness=harness, office=office)
        for index, case in enumerate(sealed()):
            reply = agent.answer(
                case.given, seed=seed + index, run_id="r", session="s", tracer=NoOpTracer()
            )
            assert reply.usage.cost_usd is not None
            passed = case.tool in reply.tools and case.contains in reply.text
            rows.append((passed, reply.usage.cost_usd))
    return rows


def test_the_sealed_cases_mostly_pass_and_the_edit_loses_none_at_little_cost(
    tmp_path: Path,
) -> None:
    stock = graded(REPO, seed=100)
    edited = graded(with_retry(tmp_path / "h"), seed=100)
    passes, edited_passes = sum(p for p, _ in stock), sum(p for p, _ in edited)
    assert passes >= 0.6 * 64
    assert edited_passes > passes
    assert not [i for i in range(64) if stock[i][0] and not edited[i][0]]
    price, edited_price = sum(c for _, c in stock), sum(c for _, c in edited)
    assert (edited_price / edited_passes) / (price / passes) <= 1.15


@contextmanager
def worker(
    tmp: Path, *arguments: str, env: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "examples.refund_agent.worker", *arguments],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp), **(env or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_the_worker_speaks_the_protocol_and_marks_its_spans_as_a_probes(tmp_path: Path) -> None:
    message = {"message": "Please refund order A-2002.", "customer": "C-1234"}
    with worker(tmp_path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        assert (ready["op"], ready["concurrency"]) == ("ready", 1)
        for run_id, given in (("b1.x", message), ("b1.y", message), ("b2.x", {"text": 1})):
            run = {"op": "run", "id": run_id, "input": given, "harness": str(REPO)}
            process.stdin.write(json.dumps({**run, "seed": 7, "deadline_s": 30}) + "\n")
        process.stdin.flush()
        answers = {a["id"]: a for a in (json.loads(process.stdout.readline()) for _ in range(3))}
        assert answers["b1.x"]["output"] == answers["b1.y"]["output"]
        assert answers["b1.x"]["output"].startswith("Your refund of ")
        assert answers["b1.x"]["usage"]["cost_usd"] > 0
        assert answers["b2.x"]["error"] == "the input needs a text under `message`"
        spans = Path(answers["b1.x"]["spans"]).read_text().splitlines()
        resource = json.loads(spans[0])["resourceSpans"][0]["resource"]["attributes"]
        given = {a["key"]: a["value"]["stringValue"] for a in resource}
        assert given["deployment.environment.name"] == "tracemend-gate"
        assert given["tracemend.run_id"] == "b1.x"
        process.stdin.write('{"op":"stop"}\n')
        process.stdin.flush()
        assert process.stdout.read() == ""
        assert process.wait(10) == 0
    assert list(tmp_path.iterdir()) == []


# Stands for a provider's package: LangChain finds the class by the name before the colon.
PROVIDER = """
from examples.refund_agent.offline_model import OfflineModel


class ChatOllama(OfflineModel):
    model: str

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        result = super()._generate(messages, stop, run_manager, **kwargs)
        result.generations[0].message.response_metadata["model_name"] = self.model
        return result
"""


@pytest.mark.parametrize("by", ["argument", "variable"])
def test_another_model_is_taken_by_name_and_its_cost_is_unknown(tmp_path: Path, by: str) -> None:
    (tmp_path / "langchain_ollama").mkdir()
    (tmp_path / "langchain_ollama" / "__init__.py").write_text(PROVIDER)
    arguments = ["--model", "ollama:desk"] if by == "argument" else []
    # The argument wins over the variable.
    named = "nobody:nothing" if by == "argument" else "ollama:desk"
    env = {"PYTHONPATH": str(tmp_path), "REFUND_AGENT_MODEL": named}
    message = {"message": "Please refund order A-2002.", "customer": "C-1234"}
    with worker(tmp_path, *arguments, env=env) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["op"] == "ready"
        run = {"op": "run", "id": "a", "input": message, "harness": str(REPO), "seed": 7}
        process.stdin.write(json.dumps({**run, "deadline_s": 30}) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
    assert answer["output"].startswith("Your refund of ")
    assert answer["usage"]["input_tokens"] > 1000
    assert answer["usage"]["cost_usd"] is None


@pytest.mark.parametrize(
    ("env", "says"),
    [
        (
            {"REFUND_AGENT_WEATHER": "foggy"},
            r"REFUND_AGENT_WEATHER: got 'foggy', needs one of \['calm', 'stormy'\]",
        ),
        ({"REFUND_AGENT_MODEL": "nobody:nothing"}, r"model 'nobody:nothing': Unable to infer .*"),
        ({"REFUND_AGENT_MODEL": "openai:gpt"}, r"model 'openai:gpt': .*(package|api_key).*"),
    ],
)
def test_a_setting_that_cannot_be_taken_is_one_clear_line(env: dict[str, str], says: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "examples.refund_agent.worker"],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if not k.startswith("OPENAI_")} | env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout) == (1, "")
    assert re.fullmatch(says, result.stderr.strip())
