"""Run the `git` program: no shell, no prompt, no hook, bounded in time and output.

Source: git 2.39, plumbing commands. The operator's own configuration is kept, since it says which
folders are trusted and where credentials are; what would change results is overridden.
"""

import contextlib
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from connectors.review.clean import one_line
from contracts.errors import ConfigError, ConnectorError

TIMEOUT_S = 60.0
MAX_OUTPUT_BYTES = 256 * 1024 * 1024
_SAFE = (
    "core.hooksPath=/dev/null", "core.fsmonitor=false", "core.quotepath=false",
    "core.fsync=loose-object,reference", "commit.gpgsign=false", "log.showSignature=false",
    "i18n.commitEncoding=UTF-8", "i18n.logOutputEncoding=UTF-8", "gc.auto=0",
    "advice.detachedHead=false",
)  # fmt: skip
_FOR_CREDENTIALS = ("GIT_SSH", "GIT_ASKPASS", "GIT_SSL", "GIT_PROXY", "GIT_CONFIG", "GIT_TEST_")
"""Beginnings of the variables of git that are passed on; `GIT_DIR` and its like are not."""
_TELLING = ("fatal:", "error:", "remote:")
_USERINFO = re.compile(r"([a-z][a-z0-9+.-]*://)[^/@\s'\"]*@", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a command ended."""

    code: int
    out: bytes
    said: str
    """The last lines that it said of errors, as one line without secrets."""

    @property
    def text(self) -> str:
        """Its output without the last line end."""
        return self.out.decode("utf-8", "surrogateescape").removesuffix("\n")


class Git:
    """The program, in one folder."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        """Nothing is run yet.

        Args:
            folder: where it runs; a work tree, a folder of one, or a bare repository.
            environ: what the program gets, less the variables that name another repository.
        """
        self.folder = folder
        self._environ = environ

    def at(self, folder: Path) -> "Git":
        """The same in another folder."""
        return Git(folder, self._environ)

    def must(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Ran:
        """Run and expect that it works.

        Raises:
            ConnectorError: it did not.
        """
        ran = self.run(*args, stdin=stdin, env=env)
        if ran.code != 0:
            # Locks, rights and full disks are put right by somebody; nothing here is a refusal.
            raise failed(args[0], f"git {args[0]} in {self.folder}: {ran.said}", retryable=True)
        return ran

    def run(
        self,
        *args: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Ran:
        """Run and say how it ended.

        Raises:
            ConfigError: there is no such program.
            ConnectorError: it took too long (what it did by then is not known), or said too much.
        """
        options = (word for setting in _SAFE for word in ("-c", setting))
        limit_s = TIMEOUT_S if timeout_s is None else timeout_s
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            try:
                process = subprocess.Popen(  # noqa: S603  an argument list, and no shell
                    ["git", "--no-pager", *options, *args],  # noqa: S607  the operator's own
                    cwd=self.folder, env=self._variables(env), stdin=subprocess.PIPE, stdout=out,
                    stderr=err, start_new_session=True,
                )  # fmt: skip
            except FileNotFoundError:
                raise self._missing() from None
            with process:
                try:
                    process.communicate(stdin, timeout=limit_s)
                except subprocess.TimeoutExpired:
                    raise failed(
                        args[0],
                        f"git {args[0]} in {self.folder}: no answer within {limit_s:g} s",
                        retryable=True,
                    ) from None
                finally:
                    _end(process)
            if os.fstat(out.fileno()).st_size > MAX_OUTPUT_BYTES:
                raise failed(args[0], f"git {args[0]} in {self.folder}: says too much")
            out.seek(0)
            err.seek(max(0, err.seek(0, os.SEEK_END) - 4000))
            return Ran(code=process.returncode, out=out.read(), said=_shown(err.read()))

    def _missing(self) -> ConfigError:
        if not self.folder.is_dir():
            return ConfigError(f"harness: kind git: there is no folder {self.folder}")
        return ConfigError(
            "harness: kind git needs the program `git`, which is not on the PATH; install it"
        )

    def _variables(self, more: Mapping[str, str] | None) -> dict[str, str]:
        kept = {
            name: value
            for name, value in self._environ.items()
            if not name.startswith("GIT_") or name.startswith(_FOR_CREDENTIALS)
        }
        kept.pop("GIT_CONFIG", None)
        kept |= {
            "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "SSH_ASKPASS_REQUIRE": "never",
            "GIT_NO_REPLACE_OBJECTS": "1", "GIT_OPTIONAL_LOCKS": "0", "GIT_LITERAL_PATHSPECS": "1",
        }  # fmt: skip
        return kept | dict(more or {})


def failed(operation: str, message: str, *, retryable: bool = False) -> ConnectorError:
    """What is raised when git did not do it."""
    return ConnectorError(
        f"harness: {message}", backend="git", operation=operation, retryable=retryable
    )


def without_userinfo(text: str) -> str:
    """The text with the user names and passwords of its addresses taken out."""
    return _USERINFO.sub(r"\1", text)


def _shown(err: bytes) -> str:
    """What it said of the error itself, else the end of all that it said."""
    lines = [line.strip() for line in err.decode("utf-8", "replace").splitlines()]
    told = [line for line in lines if line.startswith(_TELLING)]
    last = [line for line in lines if line and not line.startswith("hint:")][-4:]
    return one_line(without_userinfo("; ".join(told or last)), 400) or "it said nothing"


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Nothing that it started stays, such as a transport that waits for a server."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
