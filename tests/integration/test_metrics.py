"""`/metrics` over loopback: true numbers, of the caller's projects only, with bounded labels."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from opentelemetry.trace import NoOpTracer
from prometheus_client.parser import text_string_to_metric_families
from typing_extensions import TypedDict

from configs.server_settings import ServerSettings
from contracts.alerts import Alert
from contracts.gate import Block, CaseId, Graded
from contracts.json_types import JsonObject
from graph.installation import open_installation
from graph.server import ledger_metrics
from graph.server.metrics import Meters
from graph.server.run_watch import RunWatch
from memory.database import rfc3339, utc_now
from memory.incidents import IncidentState
from memory.workspace import open_project
from nodes.decide import Person, enter
from tests.approval_worlds import Inbox, installation, wait
from tests.serving_app import Served, serve_app


class Said(TypedDict):
    """State of a small graph: what its node shall do."""

    what: str


Labels = frozenset[tuple[str, str]]


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return installation(tmp_path, "refunds", "billing")


@pytest.fixture
def served(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(ledger_metrics, "CACHE_SECONDS", 0.0)
    with serve_app(inbox.home) as running:
        yield running


def scraped(served: Served, *projects: str) -> dict[str, dict[Labels, float]]:
    """All samples by name and labels, as a token of these projects sees them; none given: all."""
    headers = served.headers(roles=("viewer",), projects=projects or None)
    answer = httpx.get(f"{served.url}/metrics", headers=headers, timeout=30)
    assert answer.status_code == 200, answer.text
    found: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return found


def labels(**of: str) -> Labels:
    return frozenset(of.items())


def test_it_needs_a_token_and_any_token_will_do(served: Served) -> None:
    assert httpx.get(f"{served.url}/metrics").status_code == 401
    up = scraped(served)["tracemend_project_up"]
    assert up == {labels(project="refunds"): 1.0, labels(project="billing"): 1.0}


def test_a_caller_sees_the_series_of_its_projects_only(served: Served) -> None:
    app: Any = served.server.config.app
    for project in ("refunds", "billing"):
        app.state.meters.runs.labels(project, "alert", "ended").observe(0.2)
    assert len(scraped(served)["tracemend_run_seconds_count"]) == 2
    seen = scraped(served, "billing")
    named = {dict(one).get("project") for samples in seen.values() for one in samples}
    assert named == {"billing", None}


def test_alerts_proposals_and_decisions_are_counted(served: Served, inbox: Inbox) -> None:
    shown = wait(inbox)
    ws = open_project(inbox.home, "refunds")
    stored = ws.ledger.proposals.latest(shown.id)
    person = Person(name="ann", via="api", authenticated=True)
    said: JsonObject = {"decisions": [{"type": "reject", "message": "risky: no"}], "by": "ann"}
    asyncio.run(enter(ws, stored, "approve", said, person))
    with inbox.looking("billing") as ledger:
        for number in range(3):
            note = Alert(
                source="langfuse", key=f"k{number}", group="", kind="note", ignored="a person did"
            )
            ledger.alerts.receive(note)
        for sender in ("schedule", "made-up-1", "made-up-2"):
            ledger.incidents.claim_alert(source=sender, key="k", thread=f"t-{sender}", body={})
    seen = scraped(served)
    assert seen["tracemend_decisions"] == {
        labels(project="refunds", door="api", type="reject"): 1.0
    }
    assert seen["tracemend_alerts"] == {
        labels(project="billing", source="langfuse", state="noted"): 3.0,
        labels(project="billing", source="schedule", state="started"): 1.0,
        # Whoever may start a run names its source: such names are no labels.
        labels(project="billing", source="other", state="started"): 2.0,
    }
    assert sum(seen["tracemend_proposals"].values()) == 1.0


def test_what_is_unknown_has_no_series_and_is_counted_as_unknown(
    served: Served, inbox: Inbox
) -> None:
    seen = scraped(served)
    assert "tracemend_gate_cost_usd" not in seen
    with inbox.looking("refunds") as ledger:
        for index, cost in enumerate((None, 0.25, 0.5)):
            ran = Graded(result="pass", cost_usd=cost, input_tokens=7 if cost else None)
            ledger.gate.put_block(
                "h", Block(
                    phase="sealed", case=CaseId("c"), index=index, attempt=0, first="B",
                    baseline=ran, candidate=Graded(result="fail", cost_usd=cost),
                ),
            )  # fmt: skip
        alone = Graded(result="missing")
        ledger.gate.put_block(
            "h", Block(
                phase="guard", case=CaseId("g"), index=0, attempt=0, first="C", baseline=None,
                candidate=alone,
            ),
        )  # fmt: skip
    seen = scraped(served)
    mine = labels(project="refunds")
    assert seen["tracemend_gate_cost_usd"] == {mine: 1.5}
    assert seen["tracemend_gate_runs_without_cost"][mine] == 3.0
    assert seen["tracemend_gate_tokens"] == {labels(project="refunds", direction="input"): 14.0}
    assert seen["tracemend_gate_runs"] == {
        labels(project="refunds", result="pass"): 3.0,
        labels(project="refunds", result="fail"): 3.0,
        labels(project="refunds", result="missing"): 1.0,
    }


def test_the_queue_says_how_many_runs_are_due_and_for_how_long(inbox: Inbox) -> None:
    with inbox.looking("billing") as ledger:
        now = utc_now()
        stood: tuple[tuple[str, IncidentState, datetime], ...] = (
            ("a card that expired", "waiting", now - timedelta(hours=1)),
            ("a card that waits", "waiting", now + timedelta(hours=1)),
            ("tried again soon", "running", now + timedelta(hours=1)),
            ("tried again now", "running", now - timedelta(minutes=1)),
            ("given up", "quarantined", now - timedelta(hours=9)),
        )
        for name, state, due in stood:
            ledger.incidents.open(name, kind="alert", key=name, request={}, driver="local")
            ledger.incidents.set_state(name, state, due_at=rfc3339(due))
        counted = ledger_metrics.LedgerCache().counted(ledger)
    assert list(counted["tracemend_queue_depth"]) == [((), 2.0)]
    ((_, oldest_s),) = counted["tracemend_queue_oldest_seconds"]
    assert 3600 <= oldest_s < 3600 + 300
    assert dict(counted["tracemend_incidents"]) == {
        ("alert", "waiting"): 2.0, ("alert", "running"): 2.0, ("alert", "quarantined"): 1.0,
    }  # fmt: skip


def test_backends_that_runs_wait_for_are_1(served: Served, inbox: Inbox) -> None:
    with inbox.looking("refunds") as ledger:
        for thread in ("a", "b", "c"):
            ledger.circuits.failed("langfuse", thread, "down", utc_now())
        ledger.circuits.failed("worker", "a", "once", utc_now())
    assert scraped(served)["tracemend_backend_paused"] == {
        labels(project="refunds", backend="langfuse"): 1.0,
        labels(project="refunds", backend="worker"): 0.0,
    }


def test_requests_are_timed_by_route_template_and_never_by_path(served: Served) -> None:
    for path in ("/proposals/p-secretsecret", "/proposals/p-othersecret", "/no/such/thing"):
        httpx.get(f"{served.url}{path}", headers=served.headers())
    httpx.request("PROPFIND", f"{served.url}/healthz")
    counts = scraped(served)["tracemend_http_request_seconds_count"]
    routes = {dict(one)["route"] for one in counts}
    assert "unmatched" in routes
    assert not [route for route in routes if "secret" in route or "such" in route]
    assert {dict(one)["method"] for one in counts} == {"GET", "other"}


def test_a_project_that_cannot_be_opened_is_0_and_nothing_is_made_up_for_it(
    served: Served, inbox: Inbox
) -> None:
    (inbox.root("billing") / "tracemend.yaml").write_text("version: [")
    seen = scraped(served)
    assert seen["tracemend_project_up"][labels(project="billing")] == 0.0
    assert labels(project="billing") not in seen["tracemend_queue_depth"]


def test_the_ledger_is_counted_once_in_a_while_however_many_ask(inbox: Inbox) -> None:
    cache = ledger_metrics.LedgerCache()
    with inbox.looking("refunds") as ledger:
        first = cache.counted(ledger)
        ledger.incidents.open("t", kind="alert", key="k", request={}, driver="local")
        assert cache.counted(ledger) is first


async def test_model_calls_are_counted_with_their_tokens_where_the_provider_says_them(
    inbox: Inbox,
) -> None:
    usage = UsageMetadata(input_tokens=30, output_tokens=4, total_tokens=34)
    answers: list[BaseMessage] = [AIMessage("a", usage_metadata=usage), AIMessage("b")]
    model = FakeMessagesListChatModel(responses=answers)

    async def asks(state: Said) -> Said:
        for _ in answers:
            await model.ainvoke("hello")
        return state

    small = StateGraph(Said)
    small.add_node("asks", asks)
    small.add_edge(START, "asks")
    meters = Meters()
    async with open_installation(inbox.home, settings=ServerSettings()) as here:
        with inbox.looking() as ledger:
            ledger.incidents.open("t", kind="improve", key="k", request={}, driver="local")
        watch = RunWatch(here, meters, NoOpTracer())
        loop = small.compile().with_config(callbacks=[watch])
        await loop.ainvoke({"what": "ask"}, {"configurable": {"thread_id": "t"}})
    counted = {
        (sample.name, *sample.labels.values()): sample.value
        for family in meters.of(["refunds"])
        for sample in family.samples
        if sample.name.endswith(("_total", "_count"))
    }
    assert counted == {
        ("tracemend_model_tokens_total", "refunds", "input"): 30.0,
        ("tracemend_model_tokens_total", "refunds", "output"): 4.0,
        ("tracemend_model_calls_total", "refunds", "known"): 1.0,
        ("tracemend_model_calls_total", "refunds", "unknown"): 1.0,
        ("tracemend_run_seconds_count", "refunds", "improve", "ended"): 1.0,
        ("tracemend_node_seconds_count", "refunds", "asks", "ended"): 1.0,
    }
    assert (watch._open, watch._roots) == ({}, {}), "what has ended is kept"


async def test_runs_that_wait_fail_or_are_stopped_are_told_apart(inbox: Inbox) -> None:
    begun = asyncio.Event()

    async def does(state: Said) -> Said:
        if state["what"] == "wait":
            interrupt({"for": "a person"})
        if state["what"] == "fail":
            raise RuntimeError("no")
        begun.set()
        await asyncio.sleep(60)
        return state

    small = StateGraph(Said)
    small.add_node("does", does)
    small.add_edge(START, "does")
    meters = Meters()
    async with open_installation(inbox.home, settings=ServerSettings()) as here:
        with inbox.looking() as ledger:
            ledger.incidents.open("t", kind="alert", key="k", request={}, driver="local")
        watch = RunWatch(here, meters, NoOpTracer())
        loop = small.compile(checkpointer=InMemorySaver()).with_config(callbacks=[watch])
        config = RunnableConfig(configurable={"thread_id": "t"})
        await loop.ainvoke({"what": "wait"}, config)
        with pytest.raises(RuntimeError, match="no"):
            await loop.ainvoke({"what": "fail"}, config)
        stopped = asyncio.create_task(loop.ainvoke({"what": "stop"}, config))
        await begun.wait()
        stopped.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopped
    outcomes = {
        sample.labels["outcome"]: sample.value
        for family in meters.of(["refunds"])
        for sample in family.samples
        if sample.name == "tracemend_run_seconds_count"
    }
    assert outcomes == {"waiting": 1.0, "failed": 1.0, "stopped": 1.0}
    assert (watch._open, watch._roots) == ({}, {}), "what has ended is kept"
