"""Keep the protocol's stdin and stdout out of the agent's reach while it runs."""

import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


@contextmanager
def protocol_streams(
    stdin: TextIO | None, stdout: TextIO | None
) -> Iterator[tuple[TextIO, TextIO]]:
    """Yield where requests come from and where answers go.

    What the agent prints meanwhile goes to stderr, also when C code or a child process writes to
    file descriptor 1, and what reads file descriptor 0 finds it empty.
    """
    with contextlib.ExitStack() as stack:
        if stdin is None:
            stdin = stack.enter_context(_taken_stdin())
        if stdout is None:
            stdout = stack.enter_context(_taken_stdout())
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        yield stdin, stdout


@contextmanager
def _taken_stdin() -> Iterator[TextIO]:
    own = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    try:
        with os.fdopen(os.dup(own), encoding="utf-8", errors="replace", newline="\n") as stream:
            yield stream
    finally:
        os.dup2(own, 0)
        os.close(own)


@contextmanager
def _taken_stdout() -> Iterator[TextIO]:
    sys.stdout.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    stream = os.fdopen(os.dup(own), "w", encoding="utf-8", newline="\n")
    try:
        yield stream
    finally:
        with contextlib.suppress(OSError):  # nobody reads any more
            stream.close()
        sys.stdout.flush()
        os.dup2(own, 1)
        os.close(own)
