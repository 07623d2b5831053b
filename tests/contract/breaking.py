"""Break the n-th write of a place off, before it is made or after; for worlds in this process."""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from tests.contract.harness_suite import Broken

Writes = Callable[..., bool]


@contextmanager
def breaking(
    functions: Sequence[tuple[Any, str]], step: int, *, writes: Writes = lambda *_, **__: True
) -> Iterator[Callable[[], bool]]:
    """Let one write raise `Broken`; see `World.breaking`.

    Args:
        functions: owner and name of each function that writes.
        step: counted from 1; odd ones break before a write, even ones after it.
        writes: whether a call with these arguments writes.
    """
    passed = 0

    def pass_one() -> None:
        nonlocal passed
        passed += 1
        if passed == step:
            raise Broken

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def made(*args: Any, **kwargs: Any) -> Any:
            counts = writes(*args, **kwargs)
            if counts:
                pass_one()
            result = call(*args, **kwargs)
            if counts:
                pass_one()
            return result

        return made

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in functions:
            patch.setattr(owner, name, counted(getattr(owner, name)))
        yield lambda: passed >= step
