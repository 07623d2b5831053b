"""Run a `tracemend` command in a process that kills itself, really, at one point.

    python kill_at.py before|after module:Class.function N -- words of the command

`before` kills before the N-th call of the function does anything, `after` once it has returned.
The product holds no hook for this: the function is wrapped here, in the process to be killed.
"""

import asyncio
import functools
import importlib
import os
import signal
import sys
from collections.abc import Callable
from typing import Any


def _die() -> None:
    sys.stderr.write("killed here\n")
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def wrap(when: str, place: str, number: int) -> None:
    """Replace the function named by `place` with one that dies at its N-th call."""
    module_name, _, path = place.partition(":")
    owner: Any = importlib.import_module(module_name)
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    original: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def count() -> bool:
        nonlocal calls
        calls += 1
        return calls == number

    @functools.wraps(original)
    def plain(*args: Any, **kwargs: Any) -> Any:
        dies = count()
        if dies and when == "before":
            _die()
        result = original(*args, **kwargs)
        if dies:
            _die()
        return result

    @functools.wraps(original)
    async def later(*args: Any, **kwargs: Any) -> Any:
        dies = count()
        if dies and when == "before":
            _die()
        result = await original(*args, **kwargs)
        if dies:
            _die()
        return result

    setattr(owner, name, later if asyncio.iscoroutinefunction(original) else plain)


def main() -> None:
    """Wrap, then run the command."""
    when, place, number = sys.argv[1:4]
    sys.argv = ["tracemend", *sys.argv[sys.argv.index("--") + 1 :]]
    wrap(when, place, int(number))
    from graph.cli.main import run

    run()


if __name__ == "__main__":
    main()
