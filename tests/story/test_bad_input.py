"""Bad input: one clear line, the right exit code, nothing lost."""

import gzip
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.story.worlds import Finished, Waiting, World

pytestmark = pytest.mark.story

PYTHON = sys.executable


def _one_line(done: Finished) -> str:
    lines: list[str] = [line for line in done.err.splitlines() if line.startswith("tracemend: ")]
    assert len(lines) == 1, done.err
    assert "Traceback" not in done.err
    return lines[0]


def _analyze(world: World, path: Path) -> Finished:
    return world.run("analyze", "--traces", str(path), "--json")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("empty.jsonl", b"", "empty.jsonl: empty"),
        ("text.jsonl", b"just a text\n", "text.jsonl: no known format"),
        ("other.json", b'{"name": "not a trace"}', "other.json: no known format"),
        ("bytes.jsonl", bytes(range(256)), "bytes.jsonl: no known format"),
    ],
)
def test_what_is_no_trace_is_refused(
    recorded: World, tmp_path: Path, name: str, content: bytes, says: str
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    done = _analyze(recorded, file)
    assert (done.code, done.out) == (2, "")
    assert says in _one_line(done)


def test_a_missing_path_is_refused(recorded: World, tmp_path: Path) -> None:
    done = _analyze(recorded, tmp_path / "nowhere.jsonl")
    assert done.code == 2
    assert "nowhere.jsonl: no such file or folder" in _one_line(done)


def test_a_file_that_breaks_off_is_partial_and_its_spans_are_kept(
    recorded: World, tmp_path: Path
) -> None:
    whole = (recorded.root / "traces" / "this-week.otlp.jsonl").read_bytes()
    (tmp_path / "cut.jsonl").write_bytes(whole[: len(whole) // 2])
    done = _analyze(recorded, tmp_path / "cut.jsonl")
    assert done.code == 6
    read = done.json["read"]
    assert read["status"] == "partial"
    assert read["traces"] > 10
    assert "breaks off" in read["skipped"][0]["why"]


def _first_line(world: World) -> bytes:
    with (world.root / "traces" / "this-week.otlp.jsonl").open("rb") as lines:
        line: bytes = lines.readline()
    return line


def test_a_span_of_five_megabytes_is_cut_and_marked(recorded: World, tmp_path: Path) -> None:
    export = json.loads(_first_line(recorded))
    spans = export["resourceSpans"][0]["scopeSpans"][0]["spans"]
    big = {"key": "output.value", "value": {"stringValue": "x" * 5_000_000}}
    spans[0]["attributes"] = [a for a in spans[0]["attributes"] if a["key"] != "output.value"]
    spans[0]["attributes"].append(big)
    (tmp_path / "big.jsonl").write_text(json.dumps(export) + "\n", "utf-8")
    done = _analyze(recorded, tmp_path / "big.jsonl")
    assert done.code == 0
    assert done.json["read"]["truncated"] >= 1
    assert "x" * 1000 not in done.out


def test_bytes_that_are_not_utf8_are_replaced_and_the_span_is_kept(
    recorded: World, tmp_path: Path
) -> None:
    line = _first_line(recorded)
    (tmp_path / "latin.jsonl").write_bytes(line.replace(b"production", b"produ\xffction"))
    done = _analyze(recorded, tmp_path / "latin.jsonl")
    assert done.code == 0
    whole = _analyze(recorded, _write(tmp_path / "whole.jsonl", line))
    assert done.json["read"]["spans"] == whole.json["read"]["spans"]
    assert "not UTF-8" in done.json["read"]["skipped"][0]["why"]


def _write(file: Path, content: bytes) -> Path:
    file.write_bytes(content)
    return file


def test_a_damaged_gzip_is_one_line(recorded: World, tmp_path: Path) -> None:
    packed = gzip.compress(_first_line(recorded) * 3)
    done = _analyze(recorded, _write(tmp_path / "half.jsonl.gz", packed[: len(packed) // 2]))
    assert done.code in (2, 6), done.err
    assert "Traceback" not in done.err


def test_traces_without_a_failure_are_no_finding(recorded: World, tmp_path: Path) -> None:
    from examples.refund_agent.back_office import WEATHERS
    from examples.refund_agent.record import record
    from examples.refund_agent.requests import Request

    plain = [Request(message="Please show me order A-1042.", customer="C-1", session="s-1")]
    record(plain, recorded.root, tmp_path / "calm.jsonl", weather=WEATHERS["calm"], seed=1)
    done = _analyze(recorded, tmp_path / "calm.jsonl")
    assert (done.code, done.json["findings"]) == (0, [])


def _with_probe(world: World, script: str, **more: object) -> None:
    """Make the project's probe run a script of ours."""
    file = world.root / "tracemend.yaml"
    settings = yaml.safe_load(file.read_text("utf-8"))
    (world.root / "worker.py").write_text(script, "utf-8")
    settings["probe"] = {
        "kind": "worker", "command": [PYTHON, "worker.py"], "concurrency": 8, "timeout_s": 0.2,
        **more,
    }  # fmt: skip
    file.write_text(yaml.safe_dump(settings), "utf-8")


READY = 'import sys, time\nprint(\'{"op":"ready","v":1,"concurrency":8}\', flush=True)\n'


@pytest.mark.servers
@pytest.mark.parametrize(
    ("script", "verdict"),
    [
        (READY + "time.sleep(600)\n", {"inconclusive"}),  # hangs: an agent timeout is a fail
        (READY + "for line in sys.stdin: print('garbage', flush=True)\n", {"invalid"}),
        (READY + "sys.stdin.readline(); sys.exit(3)\n", {"invalid"}),
    ],
    ids=["hangs", "garbage", "dies"],
)
def test_a_probe_that_misbehaves_never_passes(
    waiting: Waiting, script: str, verdict: set[str]
) -> None:
    world, before = waiting.world, waiting.world.harness()
    _with_probe(world, script)
    done = world.run("approve", waiting.proposal, "--as", "ann", "--json")
    assert done.code == 5, done.err
    assert done.json["gate"]["verdict"] in verdict, done.json["gate"]
    assert done.json["release"] is None
    assert world.harness() == before


@pytest.mark.servers
def test_a_probe_that_cannot_start_is_one_line_and_can_be_mended(waiting: Waiting) -> None:
    world = waiting.world
    mended = (world.root / "tracemend.yaml").read_text("utf-8")
    _with_probe(world, "import no_such_module\n")
    done = world.run("approve", waiting.proposal, "--as", "ann", "--json")
    assert done.code == 6
    assert "worker.py" in _one_line(done)
    (world.root / "tracemend.yaml").write_text(mended, "utf-8")
    resumed = world.run("resume", "--json")
    assert (resumed.code, resumed.json["runs"][0]["state"]) == (0, "watching"), resumed.err
    with world.looking() as ledger:
        assert len(ledger.effects.releases()) == 1


def _limited(limit: int) -> Callable[[], None]:
    def apply() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return apply


@pytest.mark.skipif(sys.platform != "linux", reason="file size limits as on Linux")
def test_a_file_size_limit_loses_nothing(waiting: Waiting) -> None:
    """A full disk in the middle of the gate: one line, and the run goes on when there is room."""
    world, before = waiting.world, waiting.world.harness()
    ledger = world.root / ".tracemend" / "ledger.sqlite"
    limit = ledger.stat().st_size + 200_000
    done = subprocess.run(
        world.command("approve", waiting.proposal, "--as", "ann", "--json"), cwd=world.root,
        env=world.environ, capture_output=True, text=True, timeout=120, check=False,
        preexec_fn=_limited(limit),
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("tracemend: ")]
    assert len(lines) == 1
    assert "tracemend resume" in lines[0]
    resumed = world.run("resume", "--json")
    assert resumed.code == 0, resumed.err
    if resumed.json["runs"][0]["state"] == "waiting":
        assert world.harness() == before
    else:
        assert resumed.json["runs"][0]["state"] == "watching"
    with world.looking() as kept:
        assert kept.audit.verify().ok
