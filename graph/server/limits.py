"""How much one caller may ask: moving windows, in this process's memory.

Each replica counts for itself; a limit protects a process, it is no quota.
"""

from ipaddress import IPv6Address, ip_address
from math import ceil
from time import time
from typing import Literal

from fastapi import FastAPI, Request
from limits import RateLimitItem, parse
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from configs.server_settings import LimitSettings, ServerSettings
from graph.server.guards import install as install_guards
from graph.server.problems import Problem

Bucket = Literal["per_token", "per_hook", "failed_auth"]

MAX_KEYS = 20_000
"""Callers that are remembered at once; above it, those with nothing in their window are dropped."""


class Limiter:
    """Counts what was asked, by bucket and key."""

    def __init__(self, settings: LimitSettings) -> None:
        self._storage = MemoryStorage()
        self._windows = MovingWindowRateLimiter(self._storage)
        self._rates: dict[str, RateLimitItem] = {
            bucket: parse(getattr(settings, bucket))
            for bucket in ("per_token", "per_hook", "failed_auth")
        }

    def take(self, bucket: Bucket, key: str) -> None:
        """Count one.

        Raises:
            Problem: 429, when the window is full already.
        """
        self._forget_the_idle()
        if not self._windows.hit(self._rates[bucket], bucket, key):
            raise self._full(bucket, key)

    def look(self, bucket: Bucket, key: str) -> None:
        """Count nothing.

        Raises:
            Problem: 429, when the window is full.
        """
        if not self._windows.test(self._rates[bucket], bucket, key):
            raise self._full(bucket, key)

    def note(self, bucket: Bucket, key: str) -> None:
        """Count one, also over the limit."""
        self._forget_the_idle()
        self._windows.hit(self._rates[bucket], bucket, key)

    def _full(self, bucket: Bucket, key: str) -> Problem:
        resets_at = self._windows.get_window_stats(self._rates[bucket], bucket, key).reset_time
        wait_s = max(1, ceil(resets_at - time()))
        return Problem(
            429, f"too many requests; try again in {wait_s} s", headers={"Retry-After": str(wait_s)}
        )

    def _forget_the_idle(self) -> None:
        if len(self._storage.events) > MAX_KEYS:
            for key in [key for key, seen in self._storage.events.items() if not seen]:
                self._storage.clear(key)


def limiter_of(request: Request) -> Limiter:
    """The application's limiter, made at its first request."""
    state = request.app.state
    if getattr(state, "limiter", None) is None:
        state.limiter = Limiter(state.installation.settings.limits)
    held: Limiter = state.limiter
    return held


def check(request: Request, bucket: Bucket, key: str) -> None:
    """Count one request against a limit.

    Raises:
        Problem: 429 with `Retry-After` in seconds.
    """
    limiter_of(request).take(bucket, key)


def address_of(request: Request) -> str:
    """Who connects, as far as a limit tells callers apart: of IPv6 the network of 64 bits."""
    host = request.client.host if request.client is not None else "unknown"
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(address, IPv6Address):
        return str(IPv6Address(int(address) >> 64 << 64))
    return str(address)


def install(app: FastAPI, settings: ServerSettings | None = None, *, embedded: bool = True) -> None:
    """Every answer's headers, and what a request may be at all: host, size, content type.

    Args:
        app: the application.
        settings: of the server; None: those of the installation once it is open.
        embedded: False: mounted into a foreign server, whose address is not ours to check.
    """
    install_guards(app, settings, embedded=embedded)
