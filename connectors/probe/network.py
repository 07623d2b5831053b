"""Whether an agent can be kept off the network here: tried once, with an idle process."""

import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

LAUNCHER = Path(__file__).with_name("launch.py")
_NOBODY = "-"
_WAIT_S = 20.0


def network_off_refused() -> str | None:
    """Why no process can be started without network here; None: it can. Blocks up to 20 s."""
    try:
        return _tried()
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)  # may be better the next time


@lru_cache(maxsize=1)
def _tried() -> str | None:
    command = [*launcher(_NOBODY, network=False), sys.executable, "-I", "-S", "-c", ""]
    done = subprocess.run(  # noqa: S603  our own launcher and interpreter
        command, capture_output=True, timeout=_WAIT_S, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode == 0:
        return None
    return launch_failure(done.stderr, _NOBODY) or f"exit {done.returncode}"


def launcher(token: str, *, data_bytes: int = 0, network: bool = True) -> list[str]:
    """The words in front of a command; `token` marks the launcher's own line on stderr."""
    return [
        sys.executable, "-I", "-S", str(LAUNCHER),
        token, str(os.getpid()), str(data_bytes), str(int(network)),
    ]  # fmt: skip


def launch_failure(stderr: bytes, token: str) -> str | None:
    """What the launcher said on stderr; None: it said nothing."""
    for line in stderr.decode("utf-8", "replace").splitlines():
        if line.startswith(f"{token} "):
            return line.removeprefix(f"{token} ")
    return None
