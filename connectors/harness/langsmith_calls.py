"""Calls to LangSmith's hub: what is read may be asked again, what is written is sent once.

Source: LangSmith API as langsmith 0.15.1 asks it, and its published API description for the tags of
commits (`/repos/{owner}/{repo}/tags`). The owner `-` is the workspace of the key. Not by the SDK's
`Client`: it sends a write up to four times, and it reads the environment.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final
from urllib.parse import quote

import httpx
from pydantic import SecretStr

from connectors.traces.answers import Asked, BadRequest, CallError, NotThere, Refused, Reply, parsed
from connectors.traces.calls import Budget, Calls, Limit
from connectors.traces.langsmith.server import Server, access_of, find_server, root_of
from contracts.errors import ConnectorError
from contracts.json_types import Json

BACKEND: Final = "langsmith"
LIMITS: Final[Mapping[str, Limit]] = {"hub": Limit(requests=1500, seconds=60)}
"""LangSmith takes 2000 calls a minute of a key; others need some."""
PAGE: Final = 100
MAX_PAGES: Final = 100
_BUDGET_CALLS: Final = 6
"""How often the time of one call a whole operation may take."""
_MAX_BODY: Final = 16 << 20
_NOW_AND_THEN: Final = frozenset({408, 425, 429})
_CONFLICT: Final = 409

Row = Mapping[str, Json]


class Conflict(ConnectorError):
    """409: the hub does not take a commit on this parent, or there is nothing new in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Whose hub, and how long one call may take."""

    api_url: str
    api_key: SecretStr
    key_name: str = "LANGSMITH_API_KEY"
    """The variable that held it, for messages."""
    workspace: str | None = None
    timeout_s: float = 30


class HubCalls:
    """The calls of one operation. Close it when done."""

    def __init__(self, access: Access, operation: str, server: Server | None) -> None:
        """Nothing is asked yet.

        Args:
            access: whose hub.
            operation: method of the harness, for errors.
            server: what an earlier operation found out about the address.
        """
        key = access.api_key.get_secret_value()
        self._headers, _ = access_of(key, access.workspace)
        also = "" if access.workspace else "; a key of an organization also needs `workspace`"
        self._hint = f"check {access.key_name}{also}"
        self._access = access
        self._operation = operation
        self.server = server
        self._client = httpx.AsyncClient(follow_redirects=False, verify=_tls())
        self._calls = Calls(
            backend=BACKEND, base_url=root_of(access.api_url), headers=self._headers, key=key,
            budget=Budget(access.timeout_s * _BUDGET_CALLS), limits=LIMITS,
            timeout_s=access.timeout_s, max_body_bytes=_MAX_BODY, hint=self._hint,
            client=self._client,
        )  # fmt: skip

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def get(self, path: str, params: Mapping[str, str | int] | None = None) -> Json:
        """The answer; None where there is no such thing. `path` is quoted by the caller.

        Raises:
            ConnectorError: the key is refused, or there is no answer.
        """
        try:
            prefix = await self._prefix()
            return await self._calls.get(f"{prefix}{path}", params, klass="hub")
        except NotThere as error:
            if error.html:
                raise self._failed(error) from error
            return None
        except CallError as error:
            raise self._failed(error) from error

    async def send(self, method: str, path: str, body: Json) -> Json:
        """The answer to a write that is sent once, whatever happens to it.

        Raises:
            Conflict: 409.
            ConnectorError: not `retryable`: the hub refused. `retryable`: what happened is not
                known, so look before it is sent again.
        """
        try:
            prefix = await self._prefix()
        except CallError as error:
            raise self._failed(error) from error
        url = f"{root_of(self._access.api_url)}{prefix}{path}"
        what = f"{method} {path}"
        headers = {"accept": "application/json", "user-agent": "tracemend", **self._headers}
        try:
            async with asyncio.timeout(self._access.timeout_s):
                answer = await self._client.request(
                    method, url, json=body, headers=headers, timeout=self._access.timeout_s
                )
        except (httpx.HTTPError, OSError) as error:  # a TimeoutError is an OSError
            why = "no answer, so it is not known whether it was done; it is looked up next time"
            raise self._error(f"{what}: {why}", retryable=True) from error
        return self._read(answer, what)

    async def pages(
        self, path: str, key: str, params: Mapping[str, str | int] | None = None,
        *, most: int | None = None,
    ) -> AsyncGenerator[Row]:  # fmt: skip
        """The rows under `key` of a listing, in the hub's order; of `most` pages at most.

        Raises:
            ConnectorError: it cannot be read.
        """
        for number in range(most or MAX_PAGES):
            asked = {**(params or {}), "limit": PAGE, "offset": number * PAGE}
            page = await self.get(path, asked)
            rows = page.get(key) if isinstance(page, dict) else None
            if not isinstance(rows, list):
                return
            for row in rows:
                if isinstance(row, dict):
                    yield row
            if len(rows) < PAGE:
                return

    async def hub(self) -> str:
        """The path of directories of files, as the SDK derives it."""
        try:
            prefix = await self._prefix()
        except CallError as error:
            raise self._failed(error) from error
        return f"{'' if prefix.endswith('/v1') else '/v1'}/platform/hub/repos"

    def refused(self, why: str) -> ConnectorError:
        """An error that asking again does not change."""
        return self._error(why, retryable=False)

    def unsettled(self, why: str) -> ConnectorError:
        """An error after which the same is to be tried again."""
        return self._error(why, retryable=True)

    def _read(self, answer: httpx.Response, what: str) -> Json:
        status = answer.status_code
        if status == _CONFLICT:
            raise Conflict(
                f"{BACKEND}: {what} (409): does not take it on this parent",
                backend=BACKEND, operation=self._operation, retryable=False,
            )  # fmt: skip
        if status in _NOW_AND_THEN or status >= 500:
            raise self._error(f"{what} ({status}): is not available now", retryable=True)
        reply = Reply(status=status, headers={}, body=answer.content[:_MAX_BODY])
        try:
            return parsed(reply, Asked(backend=BACKEND, what=what, hint=self._hint))
        except Refused as error:
            why = f"{error}, and whether it may write prompts and move their tags (prompts:tag)"
            raise ConnectorError(why, backend=BACKEND, operation=self._operation) from error
        except CallError as error:
            # A success whose body is torn was done all the same.
            torn = status < 300
            raise ConnectorError(
                str(error), backend=BACKEND, operation=self._operation, retryable=torn
            ) from error

    async def _prefix(self) -> str:
        if self.server is None:
            self.server = await find_server(self._calls, self._access.api_url)
        return self.server.prefix

    def _failed(self, error: CallError) -> ConnectorError:
        later = error.retryable and not isinstance(error, BadRequest)
        return ConnectorError(
            str(error), backend=BACKEND, operation=self._operation, retryable=later
        )

    def _error(self, why: str, *, retryable: bool) -> ConnectorError:
        return ConnectorError(
            f"{BACKEND}: {why}", backend=BACKEND, operation=self._operation, retryable=retryable
        )


@cache
def _tls() -> ssl.SSLContext:
    """Made once: to read all certificates takes longer than most calls."""
    return httpx.create_ssl_context()


def part(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe="")
