"""Choices, the life of findings and hand-offs over real analyses of a project's files."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from graph.findings import close, merge, resolve, split
from graph.installation import open_installation
from memory.knowledge import StoredFinding
from memory.workspace import Workspace
from nodes.decide import Person
from tests.run_worlds import Clock, make_project
from tests.trace_worlds import START, OtlpSpan, line, root, tool, trace_id

ANN = Person(name="ann", via="cli", authenticated=True)
MIDDAY = datetime.fromtimestamp(START / 1e9, UTC) + timedelta(hours=6)
SERVER = ("ServiceError", "503 the payment service answered service unavailable")
HOUR = 3_600_000_000_000


@dataclass(slots=True)
class World:
    """A project that reads a folder; days of runs are written into it."""

    ws: Workspace
    folder: Path
    written: int = field(default=0)

    def day(self, number: int, **failing: int) -> None:
        """A day of 60 runs, of which so many fail at each tool."""
        lines: list[bytes] = []
        wanted = [name for name, count in failing.items() for _ in range(count)]
        for n in range(60):
            self.written += 1
            name = wanted[n] if n < len(wanted) else None
            spans = [
                root(f"order {self.written}", trace=self.written),
                tool(1, "look", {"n": n}, {"found": n}, trace=self.written),
                tool(2, name or "pay", {"n": n}, None if name else {"paid": n},
                     trace=self.written, error=SERVER if name else None),
            ]  # fmt: skip
            lines.append(line([_shifted(one, number * 24 * HOUR) for one in spans]))
        (self.folder / f"day{number}.otlp.jsonl").write_bytes(b"".join(lines))

    async def analysed(self, number: int) -> None:
        """Ask a question on the midday of that day: an analysis that drafts nothing."""
        clock = self.ws.ledger.db.clock
        assert isinstance(clock, Clock)
        clock.now = MIDDAY + timedelta(days=number)
        async with open_installation(self.ws.home) as installation:
            service = installation.door("refunds").service
            await service.start({"kind": "question", "text": f"what failed on day {number}?"})

    def known(self) -> dict[str, StoredFinding]:
        return {s.finding.signature: s for s in self.ws.ledger.knowledge.findings()}


def _shifted(one: OtlpSpan, by: int) -> OtlpSpan:
    times = ("startTimeUnixNano", "endTimeUnixNano")
    return {**one, **{name: str(int(str(one[name])) + by) for name in times}}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    folder = tmp_path / "agent" / "traces"
    folder.mkdir(parents=True)
    ws = make_project(
        tmp_path / "home", tmp_path / "agent", traces=[{"kind": "files", "path": "traces/"}]
    )
    yield World(ws, folder)
    ws.ledger.close()


async def test_a_merge_lasts_is_learned_from_and_is_undone_by_a_split(world: World) -> None:
    world.day(0, pay_v1=6, pay=8)
    await world.analysed(0)
    first, second = "tool_error:pay:503", "tool_error:pay_v1:503"
    assert set(world.known()) == {first, second}
    merge(world.ws, second, first, ANN)
    world.day(1, pay_v1=3, pay_v2=4, pay=5)
    await world.analysed(1)
    held = world.known()[first].finding
    assert held.units == 12
    assert {one.signature for one in held.merged} >= {second}
    assert any("which ann merged" in one.why for one in held.merged)  # pay_v2 followed
    assert not [name for name in world.known() if "pay_v2" in name]
    split(world.ws, second, ANN)
    world.day(2, pay_v1=5, pay=5)
    await world.analysed(2)
    assert world.known()[second].finding.units == 5
    assert world.known()[first].finding.units == 5


async def test_a_closed_finding_stays_closed_at_its_rate_and_comes_back_above_it(
    world: World,
) -> None:
    world.day(0, pay=10)
    await world.analysed(0)
    (signature,) = world.known()
    close(world.ws, signature, "the provider knows", ANN)
    world.day(1, pay=11)
    await world.analysed(1)
    assert world.known()[signature].state == "closed"
    world.day(2, pay=40)
    await world.analysed(2)
    assert world.known()[signature].state == "reopened"
    assert world.ws.ledger.audit.verify().ok


async def test_a_day_without_it_closes_nothing_and_first_seen_stays(world: World) -> None:
    world.day(0, pay=10)
    await world.analysed(0)
    (signature,) = world.known()
    first = world.known()[signature].finding.first_seen
    world.day(1)
    await world.analysed(1)
    kept = world.known()[signature]
    assert (kept.state, kept.finding.first_seen) == ("open", first)
    assert kept.unseen_at is not None
    world.day(2, pay=10)
    await world.analysed(2)
    assert world.known()[signature].unseen_at is None
    assert world.known()[signature].finding.first_seen == first


async def test_what_a_finding_spoiled_and_its_wording_are_kept_beside_it(world: World) -> None:
    world.day(0, pay=10)
    await world.analysed(0)
    (signature,) = world.known()
    stored = resolve(world.ws, signature)
    kept = world.ws.ledger.knowledge.evidence(stored.finding.id)
    assert isinstance(kept["wordings"], list)
    assert "payment service answered service unavailable" in str(kept["wordings"][0])
    assert isinstance(kept["reach"], list)
    assert "nothing came after it" in str(kept["reach"][0])
    assert trace_id(0) not in str(kept["reach"])
