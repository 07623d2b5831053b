"""A run that is killed while it reads a backend goes on from the last standing it kept."""

import json
import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from contracts.codec import to_json
from contracts.json_types import Json, JsonObject
from contracts.traces import Trace
from tests.fakes.langfuse import FakeLangfuse
from tests.fakes.serving import Seen, serve
from tests.story.backends import again, command, corpus_of, reading, run_at
from tests.story.worlds import World, copy_world

pytestmark = [pytest.mark.story, pytest.mark.kill, pytest.mark.servers]

KILLER = Path(__file__).with_name("kill_reading.py")
SAVE = "nodes.insights.node:_LedgerLog.save"
TIMES = 2
OBSERVATIONS = "/api/public/v2/observations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """A slow server with several batches of traces, and a project that reads it."""

    world: World
    fake: FakeLangfuse
    traces: tuple[Trace, ...]


@pytest.fixture(scope="module")
def busy(recorded: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Busy]:
    traces = tuple(again(corpus_of(recorded).traces, TIMES, apart=timedelta(hours=2)))
    fake = FakeLangfuse(traces)
    fake.latency_s = 0.02
    with serve(fake.app) as url:
        entry: dict[str, Json] = {"kind": "langfuse", "base_url": url}
        world = reading(recorded, tmp_path_factory.mktemp("busy") / "agent", entry)
        yield Busy(world=world, fake=fake, traces=traces)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What a run left: its findings and cards, and what its analysis says it read."""

    findings: Sequence[JsonObject]
    finding: str
    read: Mapping[str, Json]
    reads: int
    """Standings that are still kept."""


def ended(world: World) -> Ended:
    with world.looking() as ledger:
        (kept,) = ledger.proposals.all_latest()
        assert kept.state == "waiting"
        analysis = (ledger.steps.get(kept.proposal.thread, "insights") or {})["analysis"]
        findings = [to_json(stored.finding) for stored in ledger.knowledge.findings()]
    assert isinstance(analysis, dict)
    read = analysis["read"]
    assert isinstance(read, dict)
    return Ended(
        findings=findings, finding=kept.proposal.finding_id, read=read,
        reads=len(standings(world)),
    )  # fmt: skip


def standings(world: World) -> dict[str, tuple[int, str]]:
    """By part of the read: traces that were counted, and the cursor."""
    with sqlite3.connect(world.root / ".tracemend" / "ledger.sqlite") as db:
        rows = db.execute("select part, body, cursor from reads").fetchall()
    db.close()
    return {part: (json.loads(body)["read"]["traces"], cursor) for part, body, cursor in rows}


@pytest.fixture(scope="module")
def undisturbed(busy: Busy, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    world = copy_world(busy.world, tmp_path_factory.mktemp("undisturbed") / "agent")
    assert command(world, "improve", "--json").code == 0
    return ended(world)


def named_traces(seen: list[Seen]) -> set[str]:
    """Ids of the traces that were asked for by name."""
    ids: set[str] = set()
    for one in seen:
        query = parse_qs(one.query)
        ids.update(query.get("traceId", ()))
        for condition in json.loads(query.get("filter", ["[]"])[0]):
            if condition["column"] == "traceId":
                ids.update(condition["value"])
    return ids


def listed_up_to(seen: list[Seen]) -> list[datetime]:
    """Ends of the stretches of time whose traces were listed."""
    queries = [parse_qs(one.query) for one in seen]
    lists = [q for q in queries if "filter" not in q and "traceId" not in q]
    return [datetime.fromisoformat(q["toStartTime"][0]) for q in lists]


@pytest.mark.parametrize(("saves", "part", "counted"), [(1, "window", 100), (4, "baseline", 100)])
def test_what_was_read_before_the_last_standing_is_not_asked_for_again(  # noqa: PLR0917
    saves: int, part: str, counted: int, busy: Busy, undisturbed: Ended, tmp_path: Path
) -> None:
    world = copy_world(busy.world, tmp_path / "agent")
    busy.fake.app.forget()
    killed = run_at(world, [sys.executable, str(KILLER), "after", SAVE, str(saves)], "improve")
    assert killed.code == -9, killed.err
    kept = standings(world)
    assert kept[part][0] == counted
    before = named_traces(busy.fake.app.asked(OBSERVATIONS))

    busy.fake.app.forget()
    resumed = command(world, "resume", "--json")
    assert resumed.code == 0, resumed.err
    assert [run["state"] for run in resumed.json["runs"]] == ["waiting"]

    newest_first = sorted(busy.traces, key=lambda trace: trace.started_at, reverse=True)
    done = {trace.id for trace in newest_first[: sum(n for n, _ in kept.values())]}
    asked = busy.fake.app.asked(OBSERVATIONS)
    assert done <= before
    assert not named_traces(asked) & done
    assert named_traces(asked) == {trace.id for trace in busy.traces} - done
    first_left = newest_first[len(done)].started_at
    latest_end = max(trace.spans[0].started_at for trace in busy.traces if trace.id in done)
    assert max(listed_up_to(asked)) < latest_end
    assert first_left < max(listed_up_to(asked))

    after = ended(world)
    assert (after.findings, after.finding) == (undisturbed.findings, undisturbed.finding)
    same = ("traces", "spans", "status", "duplicates", "orphans", "source", "format")
    assert {k: after.read[k] for k in same} == {k: undisturbed.read[k] for k in same}
    assert after.read["traces"] == 100 * TIMES
    assert (after.reads, undisturbed.reads) == (0, 0)
