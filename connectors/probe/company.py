"""Addresses of the services that accompany one run: replayed tools, the candidate's prompts."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

Service = Literal["replay", "prompts"]
"""Key of the run's line, and what stands there: a base URL with a random name in it."""

_COMPANY: ContextVar[Mapping[Service, str]] = ContextVar("_COMPANY", default={})  # noqa: B039


@contextmanager
def accompanied(service: Service, url: str) -> Iterator[None]:
    """Every run that is asked for inside is told this address beside its input."""
    token = _COMPANY.set({**_COMPANY.get(), service: url})
    try:
        yield
    finally:
        _COMPANY.reset(token)


def company() -> Mapping[Service, str]:
    """The services of the run that is being asked for; mostly none."""
    return _COMPANY.get()
