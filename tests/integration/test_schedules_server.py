"""Schedules on a running server: a slot starts one run, whatever was down and whoever fires it."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import yaml
from apscheduler.triggers.cron import CronTrigger  # type: ignore[import-untyped]  # has no types

from configs.server_settings import ServerSettings
from configs.settings import ScheduleSettings
from contracts.harness import Revision
from contracts.proposals import DecisionId, Release, ReleaseId
from graph.cli.checks import run_checks
from graph.dispatch import Dispatcher
from graph.installation import open_installation
from graph.server.cron import Cron, read_cron
from graph.server.schedules import Scheduler
from memory.incidents import Incident
from memory.ledger import Ledger
from tests.approval_worlds import Inbox, installation, wait
from tests.serve_process import KILLER, environ_of
from tests.serving_app import serve_app

YEARLY = "30 6 1 1 *"
"""No slot falls into the time that a test takes."""
LONG_AGO = "2020-01-01T06:30:00.000000Z"


def newest_slot(cron: str = YEARLY) -> str:
    schedule = ScheduleSettings(name="s", cron=cron, run="analyze")
    found = read_cron(schedule, "schedules.0").newest(datetime.now(UTC))
    assert found is not None
    return found.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def scheduled(folder: Path, run: str = "analyze", cron: str = YEARLY) -> Inbox:
    """A project with one schedule."""
    return installation(folder, schedules=[{"name": "yearly", "cron": cron, "run": run}])


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return scheduled(tmp_path)


def miss(inbox: Inbox) -> None:
    """The server was down for some slots."""
    with inbox.looking() as ledger:
        ledger.schedules.take("yearly", LONG_AGO)


def until(inbox: Inbox, holds: Callable[[Ledger], bool]) -> None:
    """Wait for what a server does."""
    deadline = time.monotonic() + 60
    with inbox.looking() as ledger:
        while not holds(ledger):
            assert time.monotonic() < deadline, ledger.incidents.listed()
            time.sleep(0.05)


async def fire_at(inbox: Inbox, *moments: datetime) -> None:
    """Look at the schedule at each moment, with a scheduler that was just started."""
    async with open_installation(inbox.home, settings=ServerSettings()) as here:
        for moment in moments:
            scheduler = Scheduler(here, Dispatcher(here), clock=partial(_same, moment))
            await scheduler.fire("refunds", "yearly")


def _same(moment: datetime) -> datetime:
    return moment


def taken(ledger: Ledger) -> bool:
    return ledger.schedules.last_slots().get("yearly") == newest_slot()


def runs(inbox: Inbox) -> list[Incident]:
    with inbox.looking() as ledger:
        return ledger.incidents.listed()


def test_slots_that_were_missed_are_caught_up_once_the_newest_alone(
    inbox: Inbox, caplog: pytest.LogCaptureFixture
) -> None:
    miss(inbox)
    caplog.set_level("INFO", "tracemend.schedules")
    for _ in range(2):  # the second start finds nothing to catch up
        with serve_app(inbox.home):
            until(inbox, taken)
    (run,) = runs(inbox)
    said = [r for r in caplog.records if r.name == "tracemend.schedules"]
    assert [(r.message, r.__dict__["run"]) for r in said] == [("schedule fired", run.thread)]
    assert (run.kind, run.key) == ("alert", f"schedule:yearly:{newest_slot()}")
    window = run.request["alert"]
    assert isinstance(window, dict)
    end = datetime.fromisoformat(newest_slot())
    assert window["window"] == {
        "start": end.replace(year=end.year - 1, month=12, day=31, minute=29).isoformat(),
        "end": end.replace(minute=29).isoformat(),  # a minute for traces to arrive
    }


def test_a_new_schedule_begins_with_its_next_slot(inbox: Inbox) -> None:
    with serve_app(inbox.home):
        until(inbox, taken)
    assert runs(inbox) == []


@pytest.mark.parametrize(
    "place", ["memory.incidents:Incidents.open", "memory.schedules:Schedules.take"]
)
def test_a_kill_between_the_run_and_the_slot_leaves_one_run(inbox: Inbox, place: str) -> None:
    miss(inbox)
    killed = subprocess.run(
        [sys.executable, str(KILLER), "after", place, "1", "--", "serve", "--port", "0"],
        env=environ_of(inbox.home), timeout=240, check=False, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with serve_app(inbox.home):
        until(inbox, taken)
    (run,) = runs(inbox)
    assert run.key == f"schedule:yearly:{newest_slot()}"
    with inbox.looking() as ledger:
        assert sum(ledger.alerts.counts().values()) == 1
        assert ledger.audit.verify().ok


async def test_two_replicas_start_one_run(inbox: Inbox) -> None:
    miss(inbox)
    async with (
        open_installation(inbox.home, settings=ServerSettings()) as one,
        open_installation(inbox.home, settings=ServerSettings()) as two,
    ):
        schedulers = [Scheduler(each, Dispatcher(each)) for each in (one, two, one, two)]
        await asyncio.gather(*(each.fire("refunds", "yearly") for each in schedulers))
    assert len(runs(inbox)) == 1


def test_a_watch_counts_each_watched_release_anew_at_each_slot(tmp_path: Path) -> None:
    inbox = scheduled(tmp_path, run="watch", cron="0 * * * *")
    shown = wait(inbox)
    with inbox.looking() as ledger:
        for number, undoes in ((1, None), (2, ReleaseId("r-1"))):
            release = Release(
                id=ReleaseId(f"r-{number}"), proposal=shown.id, proposal_hash=shown.hash,
                decision_id=DecisionId("d"), target="folder", before=Revision("b"),
                after=Revision("a"), undoes=undoes, at=ledger.db.clock(),
            )  # fmt: skip
            with ledger.db.write() as tx:
                ledger.effects.put_release(tx, release)
        with ledger.db.write() as tx:
            ledger.proposals.set_state(tx, shown, "watching")
    at = datetime.now(UTC)
    asyncio.run(fire_at(inbox, *(at.replace(hour=hour, minute=30) for hour in (0, 1, 1, 2))))
    day = at.strftime("%Y-%m-%dT")
    assert [(run.kind, run.key) for run in runs(inbox)] == [
        ("watch", f"r-1@{day}{hour:02}:00:00.000000Z") for hour in (1, 2)
    ]


def test_a_clock_that_lags_behind_fires_nothing_twice(inbox: Inbox) -> None:
    miss(inbox)
    asyncio.run(fire_at(inbox, *(datetime(year, 6, 1, tzinfo=UTC) for year in (2024, 2023, 2024))))
    assert [run.key for run in runs(inbox)] == ["schedule:yearly:2024-01-01T06:30:00.000000Z"]


def test_a_changed_file_counts_while_the_server_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graph.server.schedules.SYNC_SECONDS", 0.05)
    inbox = installation(tmp_path)
    with serve_app(inbox.home):
        miss(inbox)
        file = inbox.root() / "tracemend.yaml"
        settings = yaml.safe_load(file.read_text())
        settings["schedules"] = [{"name": "yearly", "cron": YEARLY, "run": "analyze"}]
        file.write_text(yaml.safe_dump(settings))
        until(inbox, taken)
    assert len(runs(inbox)) == 1


def test_doctor_names_the_key_of_a_wrong_schedule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = scheduled(tmp_path, cron="0 7 * *")
    monkeypatch.setenv("TRACEMEND_HOME", str(inbox.home))
    (line,) = [check.line for check in run_checks("refunds") if check.name == "schedules"]
    assert line.startswith("BAD   schedules: schedules.0.cron: got '0 7 * *', needs five fields")


def test_a_wrong_schedule_stops_neither_the_server_nor_another_project(tmp_path: Path) -> None:
    scheduled(tmp_path, cron="0 7 * *")
    inbox = installation(
        tmp_path, "billing", schedules=[{"name": "yearly", "cron": YEARLY, "run": "analyze"}]
    )
    with inbox.looking("billing") as ledger:
        ledger.schedules.take("yearly", LONG_AGO)
    with serve_app(inbox.home), inbox.looking("billing") as ledger:
        deadline = time.monotonic() + 60
        while not taken(ledger):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_the_timer_fires_each_slot_when_it_comes(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    every_other_second = Cron(
        wall=CronTrigger(second="*/2", timezone="UTC"), zone=ZoneInfo("UTC"), names_hours=False
    )  # what an operator can write is by the minute; only the time of waiting differs
    monkeypatch.setattr("graph.server.schedules.check_schedules", lambda _: [every_other_second])
    with serve_app(inbox.home):  # it looks by itself at its start alone, and then in 30 seconds
        until(inbox, lambda ledger: len(ledger.incidents.listed()) >= 2)
    keys = [run.key for run in runs(inbox)]
    assert len(set(keys)) == len(keys)
