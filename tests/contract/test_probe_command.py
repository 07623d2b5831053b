"""What the probe of kind "command" promises beyond every probe: a process a run."""

import asyncio
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from connectors.probe.command import answer_of_exit, at_home, last_words
from connectors.probe.company import accompanied
from connectors.probe.local import LocalProbe
from connectors.probe.wire import WireId
from nodes.gate.outage import outage
from tests.probe_worlds import alive, left_in, once, script_probe

Probes = Callable[..., LocalProbe]


@pytest.fixture
def probe_of(tmp_path: Path) -> Probes:
    """A probe whose command is a script; it is not entered yet."""
    return lambda script, **changed: script_probe("command", tmp_path, script, **changed)


RUN = "run = json.loads(sys.stdin.read())\n"


async def test_each_run_is_a_process_in_a_folder_of_its_own(
    probe_of: Probes, tmp_path: Path
) -> None:
    script = RUN + "say(output=[os.getpid(), os.getcwd(), run['workdir'], os.listdir()])"
    async with probe_of(script) as probe:
        seen = [(await once(probe)).output for _ in range(2)]
    (first, cwd, workdir, found), second = seen[0], seen[1]  # type: ignore[misc]  # lists, see above
    assert (cwd, found) == (workdir, [])
    assert isinstance(second, list)
    assert first != second[0]
    assert cwd != second[1]
    assert left_in(tmp_path / "work") == []


async def test_the_environment_tells_where_the_harness_and_the_repository_are(
    probe_of: Probes, tmp_path: Path
) -> None:
    script = RUN + (
        "env = os.environ\n"
        "say(output=[env['TRACEMEND_HARNESS'] == run['harness'], env['TRACEMEND_ROOT'],\n"
        "            env['TMPDIR'] == env['TEMP'] == env['TMP'] == run['workdir'],\n"
        "            env.get('TRACEMEND_REPLAY')])"
    )
    async with probe_of(script) as probe:
        with accompanied("replay", "http://127.0.0.1:1/x"):
            seen = await once(probe)
    assert seen.output == [True, str(tmp_path), True, "http://127.0.0.1:1/x"]


async def test_a_module_of_the_repository_runs_though_the_folder_is_another(
    probe_of: Probes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "other"))
    (tmp_path / "agent").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "helper.py").write_text("NAME = 'helper'")
    (tmp_path / "agent" / "__init__.py").touch()
    (tmp_path / "agent" / "words.py").write_text("WORD = 'words'")
    (tmp_path / "agent" / "run.py").write_text(
        "import json, sys, helper\nfrom agent.words import WORD\n"
        "print(json.dumps({'output': [WORD, helper.NAME, sys.argv[1:]]}))"
    )
    command = [sys.executable, "-m", "agent.run", "agent", "agent/words.py"]
    async with probe_of("", command=command) as probe:
        seen = await once(probe)
    assert seen.output == ["words", "helper", ["agent", str(tmp_path / "agent/words.py")]]


async def test_a_shell_script_of_a_few_lines_is_a_probe(probe_of: Probes, tmp_path: Path) -> None:
    (tmp_path / "agent.sh").write_text(
        'cat > run.json\nread -r rule < "$TRACEMEND_HARNESS/instructions/main.md"\n'
        "yes | head -n 1 >&2\n"
        'printf \'{"output": "%s"}\\n\' "$(printf %s "$rule" | tr -d \'\\r\')"\n'
    )
    async with probe_of("", command=["sh", "agent.sh"]) as probe:
        assert (await once(probe)).output == "Be brief."


@pytest.mark.skipif(shutil.which("node") is None, reason="no node here")
async def test_node_is_a_probe(probe_of: Probes, tmp_path: Path) -> None:
    (tmp_path / "agent.mjs").write_text(
        'import { readFileSync } from "node:fs";\n'
        'const run = JSON.parse(readFileSync(0, "utf8"));\n'
        'const rule = readFileSync(run.harness + "/instructions/main.md", "utf8");\n'
        "console.log(JSON.stringify({ id: run.id, output: rule.trim() }));\n"
    )
    async with probe_of("", command=["node", "agent.mjs"]) as probe:
        assert (await once(probe)).output == "Be brief."


NOISE = {
    "a word before": "print('Loading model ...')\nsay(output=1)",
    "a word after": "say(output=1)\nprint('bye')",
    "two answers": "say(output=1)\nsay(output=1)",
    "another run's": "say(id='someone', output=1)",
    "a list": "print('[]')",
    "half of it": "print('{\"output\": ')",
    "not utf-8": "os.write(1, b'\\xff\\n')",
    "deep nesting": "print('[' * 90_000)",
}


@pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE)
async def test_whatever_else_is_printed_breaks_the_protocol_and_is_missing(
    probe_of: Probes, noise: str
) -> None:
    async with probe_of(noise) as probe:
        seen = await once(probe)
    assert (seen.output, seen.error) == (None, None)
    assert str(seen.missing).startswith("protocol: ")


async def test_an_end_without_an_answer_is_no_answer(probe_of: Probes) -> None:
    async with probe_of("") as probe:
        assert (await once(probe)).missing == "protocol: no answer"


async def test_an_answer_may_be_printed_over_several_lines(probe_of: Probes) -> None:
    async with probe_of(RUN + "print(json.dumps({'id': run['id'], 'output': 1}, indent=2))") as p:
        assert (await once(p)).output == 1


async def test_an_exception_is_the_agents_failure_in_its_own_words(probe_of: Probes) -> None:
    script = """
    def deep(n):
        if n:
            deep(n - 1)
        error = ValueError("no order \\x1b[31m 7")
        error.add_note("During the task")
        raise error
    print("Loading model ...")
    deep(50)
    """
    async with probe_of(script) as probe:
        seen = await once(probe)
    assert (seen.error, seen.missing) == ("ValueError: no order [31m 7 (exit 1)", None)


async def test_a_providers_outage_that_ends_the_process_is_seen_as_one(probe_of: Probes) -> None:
    script = """
    class APIConnectionError(Exception): pass
    APIConnectionError.__module__ = "openai"
    raise APIConnectionError("Connection error.")
    """
    async with probe_of(script) as probe:
        seen = await once(probe)
    assert seen.error == "openai.APIConnectionError: Connection error. (exit 1)"
    assert outage(seen) is not None


async def test_an_answer_counts_whatever_the_exit_code(probe_of: Probes) -> None:
    async with probe_of("say(error='refused', usage={'input_tokens': 3})\nsys.exit(4)") as probe:
        seen = await once(probe)
    assert (seen.error, seen.usage.input_tokens) == ("refused", 3)


async def test_an_agent_that_answered_in_time_and_does_not_exit_is_judged_by_its_answer(
    probe_of: Probes,
) -> None:
    async with probe_of("say(output='fine')\ntime.sleep(600)") as probe:
        seen = await once(probe, deadline_s=4)
    assert (seen.output, seen.error) == ("fine", None)
    assert seen.seconds < 4


async def test_a_child_that_holds_stdout_does_not_hold_the_run(probe_of: Probes) -> None:
    script = """
    child = subprocess.Popen(["sleep", "300"], start_new_session=True)
    say(output=child.pid)
    """
    async with probe_of(script) as probe:
        seen = await once(probe)
        assert seen.seconds < 50
        assert isinstance(seen.output, int)
        assert not alive(seen.output)


async def test_a_long_answer_written_right_before_the_exit_arrives_whole(probe_of: Probes) -> None:
    script = "os.write(1, b'{\"output\": \"' + b'x' * 60_000 + b'\"}')\nos._exit(0)"
    async with probe_of(script) as probe:
        for _ in range(5):
            assert (await once(probe)).output == "x" * 60_000


async def test_an_agent_that_reads_nothing_is_served(probe_of: Probes) -> None:
    async with probe_of("os.close(0)\nsay(output='fine')") as probe:
        assert (await once(probe, "y" * 3_000_000)).output == "fine"


async def test_the_end_of_stdin_says_that_the_run_is_whole(probe_of: Probes) -> None:
    async with probe_of("say(output=len(sys.stdin.read()) > 3_000_000)") as probe:
        assert (await once(probe, "y" * 3_000_000)).output is True


async def test_what_a_dying_agent_started_is_gone_before_the_next_run(
    probe_of: Probes, tmp_path: Path
) -> None:
    script = """
    quiet = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    child = subprocess.Popen(["sleep", "300"], start_new_session=True, **quiet)
    (Path(os.environ["TRACEMEND_ROOT"]) / "child").write_text(str(child.pid))
    sys.exit("no")
    """
    async with probe_of(script) as probe:
        assert (await once(probe)).error == "no (exit 1)"
        assert not alive(int((tmp_path / "child").read_text()))


@pytest.mark.parametrize(
    ("code", "error", "missing"),
    [
        (None, "timeout", None),
        (0, None, "protocol: no answer"),
        (1, "said (exit 1)", None),
        (-6, "said (crashed, SIGABRT)", None),
        (-11, "said (crashed, SIGSEGV)", None),
        (-9, None, "killed by SIGKILL"),
        (-15, None, "killed by SIGTERM"),
        (137, None, "killed by SIGKILL"),
        (143, None, "killed by SIGTERM"),
        (130, "said (exit 130)", None),
        (255, "said (exit 255)", None),
    ],
)
def test_a_crash_is_a_fail_and_a_kill_from_outside_is_missing(
    code: int | None, error: str | None, missing: str | None
) -> None:
    answer = answer_of_exit(WireId("w"), b"", code, "said")
    assert (answer.error, answer.missing) == (error, missing)


def test_the_words_of_an_end_are_one_printable_line() -> None:
    assert last_words("") == ""
    assert last_words("a\n\n b\t\x00c \n\n") == "b c"
    assert last_words("Traceback (most recent call last):\n  File\n    x\nE: a\nnote\n") == "E: a"
    assert last_words("Traceback (most recent call last):\n  File") == "File"


def test_paths_of_a_command_stay_those_of_the_repository(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "conf").mkdir()
    (tmp_path / "run.mjs").touch()
    (tmp_path / "python").touch()
    words = ("python", "run.mjs", "agent", "agent/conf", "-m", "x" * 5000, "", "no.file")
    here = at_home(words, tmp_path)
    assert here == (
        "python", str(tmp_path / "run.mjs"), "agent", str(tmp_path / "agent/conf"), "-m",
        "x" * 5000, "", "no.file",
    )  # fmt: skip
    assert at_home((".venv/bin/python",), tmp_path) == (str(tmp_path / ".venv/bin/python"),)
    assert at_home(("/bin/sh", "/etc/hostname"), tmp_path) == ("/bin/sh", "/etc/hostname")


async def test_runs_side_by_side_do_not_see_each_other(probe_of: Probes, tmp_path: Path) -> None:
    script = RUN + (
        "Path('mine').write_text(run['input'])\n"
        "root = Path(os.environ['TRACEMEND_ROOT'])\n"
        "(root / f'at-{run[\"input\"]}').touch()\n"
        "while len(list(root.glob('at-*'))) < 2: time.sleep(0.01)\n"
        "say(output=[os.listdir(), Path('mine').read_text()])"
    )
    async with probe_of(script, concurrency=2) as probe:
        a, b = await asyncio.gather(once(probe, "a"), once(probe, "b"))
    assert (a.output, b.output) == ([["mine"], "a"], [["mine"], "b"])
