"""Calls to a backend over HTTP: one budget, one rate limit, one way to retry, one set of errors.

Answers and the errors they become are in `answers`; the token buckets that all jobs of a process
share are in `buckets`. No key, header, query value or body is in a message or in a log.
"""

import asyncio
import json
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import httpx

from connectors.traces.answers import (
    Asked,
    BadRequest,
    Broken,
    BudgetSpent,
    CallError,
    Limited,
    NotThere,
    Refused,
    Reply,
    TooMuch,
    Unreachable,
    accepted,
    parsed,
)
from connectors.traces.buckets import SHARED, Bucket, Buckets, Limit
from connectors.traces.waits import backoff_s, read_date
from contracts.errors import ConfigError
from contracts.json_types import Json

__all__ = [
    "BadRequest", "Broken", "Budget", "BudgetSpent", "CallError", "Calls", "Limit", "NotThere",
    "Params", "Refused", "Reply", "TooMuch", "Unreachable",
]  # fmt: skip

Params = Mapping[str, str | int | Sequence[str]]
Send = Callable[[float], Awaitable[Reply]]
_T = TypeVar("_T")

CONNECT_S = 10.0  # a host that takes no connection in that time is down
MAX_REDIRECTS = 3  # of a presigned address, and only within its host


class Budget:
    """The wall-clock time of one job, shared by all its calls."""

    def __init__(self, seconds: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._ends = clock() + seconds

    def left(self) -> float:
        """Seconds that remain, never below zero."""
        return max(0.0, self._ends - self._clock())


class _NoQuery(logging.Filter):
    """httpx logs every address at level INFO; this leaves keys, signatures and filters out."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(
                arg.copy_with(userinfo=b"", query=None, fragment=None)
                if isinstance(arg, httpx.URL)
                else arg
                for arg in record.args
            )
        return True


_NO_QUERY = _NoQuery()


class Calls:
    """All calls of one job to one backend. Not shared between event loops; close it when done."""

    def __init__(
        self,
        *,
        backend: str,
        base_url: str,
        headers: Mapping[str, str],
        key: str,
        budget: Budget,
        limits: Mapping[str, Limit],
        timeout_s: float = 60,
        max_body_bytes: int = 64 << 20,
        hint: str = "",
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        client: httpx.AsyncClient | None = None,
        buckets: Buckets = SHARED,
    ) -> None:
        """Nothing is opened before the first call.

        Args:
            backend: the name the operator knows it by; begins every message.
            base_url: scheme, host, and the prefix under which a self-hosted server lives.
            headers: sent with `get` and `post` only, never to a presigned address.
            key: what the backend counts calls by; only a hash of it is kept.
            budget: of the whole job.
            limits: by endpoint class; a class that is not named is not limited.
            timeout_s: of one call from first to last byte.
            max_body_bytes: of an answer, decompressed.
            hint: ends the message of a refusal, such as which variables hold the key.
            sleep: how to wait.
            client: used instead of one of our own; the caller closes it.
            buckets: where the token buckets are shared.

        Raises:
            ConfigError: the address is none.
        """
        try:
            self._base = httpx.URL(base_url.rstrip("/"))
        except httpx.InvalidURL:
            self._base = httpx.URL("")
        if self._base.scheme not in ("http", "https") or not self._base.host:
            raise ConfigError(f"{backend}: the base URL is not an http(s) address")
        self._backend = backend
        self._headers = {"accept": "application/json", "user-agent": "tracemend", **headers}
        self._key = key
        self._budget = budget
        self._limits = limits
        self._timeout_s = timeout_s
        self._max_body = max_body_bytes
        self._hint = hint
        self._sleep = sleep
        self._client = client
        self._own_client: httpx.AsyncClient | None = None
        self._buckets = buckets
        self.requests = 0
        """Made so far, retries included."""
        self.clock_offset_s: float | None = None
        """The backend's clock less ours, by the last answer; known to about a second."""

    async def get(self, path: str, params: Params | None = None, *, klass: str = "general") -> Json:
        """The parsed answer. `path` starts with a slash and is quoted by the caller.

        Raises:
            CallError: see the top of this module.
        """
        return await self._json("GET", path, params, None, klass)

    async def post(self, path: str, body: Json, *, klass: str = "general") -> Json:
        """The parsed answer to a JSON body; for questions only, since it may be sent twice.

        Raises:
            CallError: see the top of this module.
        """
        return await self._json("POST", path, None, json.dumps(body).encode(), klass)

    async def through(self, send: Send, *, klass: str, what: str) -> Json:
        """The same policy around any sender, such as a vendor's SDK with its own retries off.

        Args:
            send: one try; gets the seconds it may take. Failures of the transport are to come out
                as httpx or OS errors, refusals by the server as a `Reply`.
            klass: whose limit counts.
            what: stands in messages as the operation, such as `GET /api/public/scores`.

        Raises:
            CallError: see the top of this module.
        """
        asked = Asked(backend=self._backend, what=what, hint=self._hint)
        return await self._answer(send, klass, asked, self._host, parsed)

    async def raw(self, url: str, *, klass: str, max_bytes: int) -> bytes:
        """The bytes at a presigned address, asked for without our headers.

        Redirects are followed within its own host only. Whether the host may be asked at all is
        decided by the caller.

        Raises:
            CallError: see the top of this module.
        """
        asked = Asked(backend=self._backend, what="GET of a presigned address")
        try:
            here = httpx.URL(url)
        except httpx.InvalidURL:
            here = httpx.URL("")
        if here.scheme not in ("http", "https") or not here.host:
            raise Broken("is not an http(s) address", asked)
        for _ in range(MAX_REDIRECTS + 1):
            request = httpx.Request("GET", here, headers={"user-agent": "tracemend"})
            send = self._sender(request, max_bytes, asked)
            host = here.netloc.decode("ascii")
            reply = await self._answer(send, klass, asked, host, accepted)
            if not 300 <= reply.status < 400:
                return reply.body
            there = here.join(reply.headers.get("location", ""))
            if (there.scheme, there.netloc) != (here.scheme, here.netloc):
                break
            here = there
        raise Broken("redirects elsewhere; nothing was read", asked)

    async def aclose(self) -> None:
        """Close our own connections."""
        if self._own_client is not None:
            await self._own_client.aclose()
            self._own_client = None

    async def _json(
        self, method: str, path: str, params: Params | None, content: bytes | None, klass: str
    ) -> Json:
        url = httpx.URL(f"{self._base}{path}")
        if params:
            url = url.copy_merge_params({k: _plain(v) for k, v in params.items()})
        headers = {"accept-encoding": "gzip, deflate", **self._headers}
        if content is not None:
            headers["content-type"] = "application/json"
        request = httpx.Request(method, url, headers=headers, content=content)
        what = f"{method} {path.partition('?')[0]}"
        asked = Asked(backend=self._backend, what=what, hint=self._hint)
        send = self._sender(request, self._max_body, asked)
        return await self._answer(send, klass, asked, self._host, parsed)

    @property
    def _host(self) -> str:
        return self._base.netloc.decode("ascii")

    def _sender(self, request: httpx.Request, max_bytes: int, asked: Asked) -> Send:
        """One try of a request of ours; of an answer at most `max_bytes` are held."""

        async def send(seconds: float) -> Reply:
            timeout = httpx.Timeout(seconds, connect=min(seconds, CONNECT_S))
            request.extensions["timeout"] = timeout.as_dict()
            response = await self._http().send(request, stream=True)
            try:
                body = bytearray()
                async for block in response.aiter_bytes():
                    body += block
                    if len(body) > max_bytes:
                        raise TooMuch(f"answers with more than {max_bytes} bytes", asked)
            finally:
                await response.aclose()
            headers = {key.lower(): value for key, value in response.headers.items()}
            return Reply(status=response.status_code, headers=headers, body=bytes(body))

        return send

    def _http(self) -> httpx.AsyncClient:
        logging.getLogger("httpx").addFilter(_NO_QUERY)  # a second time changes nothing
        if self._client is not None:
            return self._client
        if self._own_client is None:
            self._own_client = httpx.AsyncClient(follow_redirects=False)
        return self._own_client

    async def _answer(
        self, send: Send, klass: str, asked: Asked, host: str, read: Callable[[Reply, Asked], _T]
    ) -> _T:
        """Try, wait and try again, as long as the kind of failure and the budget allow."""
        limit = self._limits.get(klass)
        bucket = self._buckets.of(host, self._key, klass, limit) if limit else None
        failures: Counter[type[CallError]] = Counter()
        while True:
            await self._admitted(bucket, asked)
            try:
                return read(await self._tried(send, asked), asked)
            except CallError as error:
                attempt = failures[type(error)]
                failures[type(error)] += 1
                if attempt >= error.again:
                    raise
                backoff = backoff_s(attempt, random.random())  # noqa: S311  (jitter)
                wait_s = backoff if error.wait_s is None else error.wait_s
                if bucket is not None and isinstance(error, Limited):
                    bucket.shut(wait_s)
                if wait_s >= self._budget.left():
                    if isinstance(error, Limited):
                        raise self._too_long(wait_s, asked) from error
                    raise
            await self._sleep(wait_s)

    async def _admitted(self, bucket: Bucket | None, asked: Asked) -> None:
        while (wait_s := bucket.take() if bucket else 0.0) > 0:
            if wait_s >= self._budget.left():
                raise self._too_long(wait_s, asked) if wait_s >= 1 else self._over(asked)
            await self._sleep(wait_s)
        if self._budget.left() <= 0:
            raise self._over(asked)

    async def _tried(self, send: Send, asked: Asked) -> Reply:
        """One try; what goes wrong on the way comes out as one of our errors."""
        left = self._budget.left()
        seconds = min(self._timeout_s, left)
        self.requests += 1
        try:
            async with asyncio.timeout(seconds):
                reply = await send(seconds)
        except httpx.ConnectTimeout as error:
            raise self._unreachable(error, asked) from error
        except (TimeoutError, httpx.TimeoutException) as error:
            if seconds >= left:
                raise self._over(asked) from error
            why = f"did not answer within {seconds:g} s; ask for less"
            raise TooMuch(why, asked) from error
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.DecodingError) as error:
            raise Broken("breaks its answer off", asked, again=1) from error
        except (httpx.TransportError, OSError) as error:
            raise self._unreachable(error, asked) from error
        there = read_date(reply.headers.get("date", ""))
        if there is not None:  # cut to whole seconds, so on average half a second early
            middle = there + timedelta(milliseconds=500)
            self.clock_offset_s = (middle - datetime.now(UTC)).total_seconds()
        return reply

    def _unreachable(self, error: Exception, asked: Asked) -> Unreachable:
        why = f"cannot be reached at {self._base.scheme}://{self._host} ({_reason(error)})"
        return Unreachable(why, asked, again=2)

    def _over(self, asked: Asked) -> BudgetSpent:
        why = f"the {self._budget.seconds:g} s of this job are over; give it more time"
        return BudgetSpent(why, asked)

    def _too_long(self, wait_s: float, asked: Asked) -> BudgetSpent:
        why = (
            f"the rate limit asks for a wait of {wait_s:.0f} s and this job has"
            f" {self._budget.left():.0f} s left; try again later"
        )
        return BudgetSpent(why, asked, wait_s=wait_s)


def _plain(value: str | int | Sequence[str]) -> str | int | list[str]:
    return value if isinstance(value, str | int) else list(value)


def _reason(error: BaseException) -> str:
    """The words of the system where it has some; those of a library may hold an address."""
    here: BaseException | None = error
    while here is not None:
        if isinstance(here, OSError) and here.strerror:
            return here.strerror[:120]
        here = here.__cause__ or here.__context__
    return type(error).__name__
