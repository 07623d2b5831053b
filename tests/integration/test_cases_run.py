"""`tracemend cases run` on a real worker: results, exit codes, JUnit, what is kept or stops it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from memory.case_runs import Passes
from memory.cases import fingerprint
from memory.workspace import open_project
from nodes.casebook import read_casebook
from nodes.cases.listing import revision_now
from nodes.gate.flaky import protected
from tests.case_worlds import CaseWorld, case_world
from tests.run_worlds import PROJECT

REPOSITORY = Path(__file__).parents[2]
HIDDEN = "zebra crossing at midnight"
SEALED = f"""\
- {{id: c-zebra, input: {{message: "{HIDDEN}"}}, tags: [sealed], assert: [{{contains: sent}}]}}
"""


def case(name: str, says: str, contains: str = "queued", tag: str = "training") -> str:
    return (
        f'- {{id: {name}, input: {{message: "{says}"}}, tags: [{tag}], '
        f"assert: [{{contains: {contains}}}]}}\n"
    )


@pytest.fixture
def world(tmp_path: Path, home: Path) -> Iterator[CaseWorld]:
    with case_world(tmp_path / "agent", home) as made:
        yield made


def set_up(world: CaseWorld, **sections: object) -> CaseWorld:
    """The same project under other settings."""
    file = world.ws.root / "tracemend.yaml"
    before = file.stat().st_mtime_ns
    settings = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump(settings | sections))
    later = before + 1_000_000_000  # another stamp, so that it is read again
    os.utime(file, ns=(later, later))
    return CaseWorld(ws=open_project(world.ws.home, PROJECT))


def test_all_passed_is_exit_0_and_every_run_is_kept(world: CaseWorld) -> None:
    done = world.json("run", "--repeat", "10")
    assert (done["schema"], done["passed"], done["failed"]) == ("tracemend.cases-run/1", 2, 0)
    assert done["spent_usd"] == pytest.approx(0.2)
    counts = world.ws.ledger.case_runs.counts(done["revision"])
    marks = {fingerprint(case) for case in read_casebook(world.ws).cases}
    assert counts == dict.fromkeys(marks, Passes(passes=10, runs=10))
    assert protected(counts) == marks
    assert [one["runs"]["stability"] for one in world.json("list")["cases"]] == 2 * ["stable_pass"]


def test_runs_of_another_text_of_the_harness_do_not_count(world: CaseWorld) -> None:
    world.run("run", "--repeat", "2")
    (world.ws.root / "instructions/main.md").write_text("sent\n")
    assert [one["runs"]["runs"] for one in world.json("list")["cases"]] == [0, 0]


def test_a_failed_case_is_exit_5_one_not_observed_6_and_failures_come_first(
    world: CaseWorld, tmp_path: Path
) -> None:
    world.write(
        "cases/more.yaml",
        case("c-bad", "one thing", "nowhere") + case("c-lost", "it is lost", "x")
        + case("c-error", "please raise it"),
    )  # fmt: skip
    junit = tmp_path / "out" / "junit.xml"
    done = world.run("run", "--junit", str(junit))
    assert done.code == 5
    assert done.out.splitlines() == [
        "FAIL  c-bad  contains (assertion 1)",
        "LOST  c-lost  not observed: the",
        "FAIL  c-error  agent error: KeyError",
        "2 of 5 cases passed, 2 failed, 1 could not be observed; $0.07",
    ]
    suite = ET.fromstring(junit.read_bytes())  # noqa: S314  # our own
    assert (suite.get("failures"), suite.get("errors"), suite.get("tests")) == ("2", "1", "5")
    assert world.run("run", "c-lost", "c-parcel").code == 6
    assert world.run("run", "c-parcel", "c-bad", "--fail-under", "0.5").code == 0
    assert world.run("run", "c-parcel", "c-bad", "--fail-under", "0.6").code == 5


def test_a_run_that_was_not_observed_is_repeated_twice_and_a_failed_one_never(
    world: CaseWorld,
) -> None:
    world.write(
        "cases/more.yaml", case("c-bad", "one", "nowhere") + case("c-lost", "it is lost", "x")
    )
    world.run("run", "c-bad", "c-lost")
    revision, _ = revision_now(world.ws)
    assert revision is not None
    runs = {
        str(one.id): [
            graded.result
            for graded in world.ws.ledger.case_runs.listed(fingerprint(one), revision, "cases")
        ]
        for one in read_casebook(world.ws).cases
    }  # fmt: skip
    assert (runs["c-bad"], runs["c-lost"]) == (["fail"], 3 * ["missing"])


def test_sealed_cases_run_only_when_asked_for_and_say_nothing(
    world: CaseWorld, tmp_path: Path
) -> None:
    world.write("cases/sealed.yaml", SEALED)
    assert world.json("run")["passed"] == 2
    junit = tmp_path / "junit.xml"
    for words in ((), ("--json",)):
        done = world.run("run", "--sealed", "--junit", str(junit), *words)
        assert done.code == 5
        shown = done.out + done.err + junit.read_text()
        assert "zebra" not in shown
        assert "FAIL  sealed " in shown or '"sealed":true' in shown.replace(" ", "")
    assert "sealed ones need --sealed" in world.run("run", "c-zebra").err
    assert len(read_casebook(world.ws).tagged("sealed")) == 1


def test_cases_are_chosen_by_tag_and_by_id(world: CaseWorld) -> None:
    assert [one["case"] for one in world.json("run", "--tag", "guard")["cases"]] == ["c-cancel"]
    assert [one["case"] for one in world.json("run", "c-parcel")["cases"]] == ["c-parcel"]
    none = world.run("run", "--tag", "critical")
    assert (none.code, none.err) == (2, "tracemend: no case to run\n")
    assert world.run("run", "c-nowhere").code == 2
    for command in ("run", "list"):
        assert "nearest known key is 'guard'" in world.run(command, "--tag", "guards").err


def test_a_quarantined_case_is_skipped_until_its_day_is_over(world: CaseWorld) -> None:
    today = world.ws.ledger.db.clock().date()
    rule = {"case": "c-parcel", "owner": "ann", "until": today}
    ours = set_up(world, gate={"quarantine": [rule]})
    ours.ws.ledger.db.clock = world.ws.ledger.db.clock
    done = ours.json("run")
    assert (done["passed"], done["skipped"]) == (1, 1)
    rule["until"] = date(2026, 3, 9)
    ours = set_up(world, gate={"quarantine": [rule]})
    ours.ws.ledger.db.clock = world.ws.ledger.db.clock
    assert ours.json("run")["skipped"] == 0


def test_the_budget_stops_it_and_what_was_not_run_is_no_pass(
    world: CaseWorld, tmp_path: Path
) -> None:
    ours = set_up(world, gate={"max_usd": 0.03})
    junit = tmp_path / "junit.xml"
    done = ours.run("run", "--repeat", "5", "--junit", str(junit))
    assert done.code == 6
    assert "2 were never run" in done.out
    assert "stopped: the money is spent (gate.max_usd: 0.03)" in done.err
    suite = ET.fromstring(junit.read_bytes())  # noqa: S314  # our own
    assert suite.get("errors") == "2"
    kept = ours.ws.ledger.case_runs.counts(revision_now(ours.ws)[0])  # type: ignore[arg-type]  # readable
    assert sum(one.runs for one in kept.values()) in (3, 4)  # two at once may pass the mark
    late = set_up(world, gate={"max_seconds": 0.000001})
    done = late.run("run")
    assert (done.code, "gate.max_seconds" in done.err) == (6, True)


def test_a_probe_that_cannot_start_is_exit_6_and_its_reason(
    world: CaseWorld, tmp_path: Path
) -> None:
    probe = {"kind": "worker", "command": [sys.executable, "-c", "print('no protocol')"]}
    ours = set_up(world, probe=probe)
    junit = tmp_path / "junit.xml"
    done = ours.run("run", "--junit", str(junit))
    assert done.code == 6
    assert "tracemend: stopped: " in done.err
    assert ET.fromstring(junit.read_bytes()).get("errors") == "2"  # noqa: S314  # our own
    bare = set_up(world, probe=None)
    done = bare.run("run")
    assert (done.code, "probe: missing" in done.err) == (2, True)


def test_ctrl_c_keeps_what_is_done_and_shows_it(world: CaseWorld, tmp_path: Path) -> None:
    """The worker itself sends the signal at its third run, as a person would at any moment."""
    worker = world.text("worker.py").replace(
        'asked = ask["input"]["message"]',
        'asked = ask["input"]["message"]\n'
        '    if asked == "now":\n'
        "        import signal, time\n"
        "        os.kill(int(os.environ['WAITS']), signal.SIGINT)\n"
        "        time.sleep(60)",
    )
    world.write("worker.py", worker)
    world.write("cases/zzz.yaml", case("c-now", "now"))
    probe = {
        "kind": "worker", "command": [sys.executable, "worker.py"], "concurrency": 1,
        "env": ["WAITS"],
    }  # fmt: skip
    ours = set_up(world, probe=probe)
    junit = tmp_path / "junit.xml"
    starter = (
        "import os, sys; os.environ['WAITS'] = str(os.getpid());"
        "from graph.cli.main import run; run()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", starter, "cases", "run", "--junit", str(junit), "--json",
         "--project", PROJECT],
        cwd=REPOSITORY, env={**os.environ, "TRACEMEND_HOME": str(ours.ws.home)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=120)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130, err
    document = json.loads(out)
    assert (document["passed"], document["not_run"]) == (2, 1)
    assert "stopped: by Ctrl-C; what is done is kept" in err
    assert ET.fromstring(junit.read_bytes()).get("errors") == "1"  # noqa: S314  # our own
    kept = ours.ws.ledger.case_runs.counts(document["revision"])
    assert sum(one.runs for one in kept.values()) == 2
