"""The launcher sets limits, then becomes the command; nothing of it is left in the command."""

import os
import subprocess
import sys

import pytest

from configs.gate_settings import LimitsSettings
from connectors.probe.limits import MB, backstop_bytes, limits_refused
from connectors.probe.network import launch_failure, launcher, network_off_refused

TOKEN = "t0ken"  # noqa: S105  marks a line, opens nothing


def launched(
    *command: str, data_bytes: int = 0, network: bool = True, **env: str
) -> subprocess.CompletedProcess[bytes]:
    words = launcher(TOKEN, data_bytes=data_bytes, network=network)
    return subprocess.run(
        [*words, *command], capture_output=True, env=os.environ | env, timeout=60, check=False
    )


def test_the_command_gets_its_words_its_environment_and_its_exit_code() -> None:
    done = launched("sh", "-c", 'echo "$1 $MODE"; exit 3', "sh", "a  b\udcff", MODE="x")
    assert (done.returncode, done.stdout) == (3, b"a  b\xff x\n")
    assert launch_failure(done.stderr, TOKEN) is None


def test_signals_that_python_ignores_are_not_ignored_in_the_command() -> None:
    done = launched("grep", "SigIgn", "/proc/self/status")
    assert int(done.stdout.split()[1], 16) == 0


@pytest.mark.parametrize("program", ["/no/such/program", "no-such-program", "/etc", ""])
def test_a_command_that_is_no_program_is_told_from_one_that_fails(program: str) -> None:
    done = launched(program)
    assert done.returncode == 127
    assert launch_failure(done.stderr, TOKEN)
    assert launch_failure(launched("sh", "-c", "exit 127").stderr, TOKEN) is None


def test_private_memory_is_bounded_and_no_core_is_written() -> None:
    grow = "import resource as r; print(r.getrlimit(r.RLIMIT_CORE)); x = bytearray(400_000_000)"
    done = launched(sys.executable, "-c", grow, data_bytes=200_000_000)
    assert done.stdout == b"(0, 0)\n"
    assert b"MemoryError" in done.stderr
    assert launched(sys.executable, "-c", grow).returncode == 0


def test_a_launcher_whose_parent_is_gone_starts_nothing() -> None:
    words = launcher(TOKEN)
    words[words.index(str(os.getpid()))] = str(os.getppid())
    done = subprocess.run([*words, "echo", "started"], capture_output=True, check=False, timeout=60)
    assert done.stdout == b""
    assert done.returncode == -9


def test_no_network_is_refused_with_the_kernels_word_or_has_a_loopback_only() -> None:
    done = launched("cat", "/proc/net/dev", network=False)
    if network_off_refused() is not None:
        assert launch_failure(done.stderr, TOKEN) == network_off_refused()
    else:
        assert [line.split(b":")[0].strip() for line in done.stdout.splitlines()[2:]] == [b"lo"]


def test_the_backstop_is_well_above_the_limit_and_absent_without_one() -> None:
    assert backstop_bytes(LimitsSettings()) == 0
    assert backstop_bytes(LimitsSettings(memory_mb=512)) == 3072 * MB
    assert limits_refused(LimitsSettings()) is None
