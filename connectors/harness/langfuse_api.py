"""Calls to Langfuse that read prompts and skills leniently, and write exactly once.

Reads go by `connectors.traces.calls`, with its retries. A write is sent once: the server makes a
version of every repeated create, so after an answer that was lost the caller looks first.
Source: Langfuse public API; 5 MB a request and an answer.
"""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import Final

import httpx
from pydantic import SecretStr

from connectors.traces.answers import Asked, BadRequest, Reply, parsed
from connectors.traces.calls import CONNECT_S, Budget, Calls, NotThere, Params
from connectors.traces.langfuse.paging import Api, numbered_pages
from contracts.errors import ConfigError, ConnectorError, PolicyRefused
from contracts.json_types import Json

BACKEND: Final = "langfuse"
MAX_REQUEST_BYTES: Final = 5_000_000
MAX_ANSWER_BYTES: Final = 8 << 20
PAGE_ROWS: Final = 100
BUDGET_S: Final = 300.0
_KLASS: Final = "prompts"
_NO_CACHE: Final = {"cache-control": "no-cache"}


@cache
def _certificates() -> ssl.SSLContext:
    """Read once a process: it takes longer than a call."""
    return httpx.create_ssl_context()


class Taken(ConnectorError):
    """Somebody else made a version of the same prompt at the same moment; ours was not made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LangfuseProject:
    """One project of one server, and the key that opens it."""

    base_url: str
    public_key: SecretStr
    secret_key: SecretStr
    timeout_s: float = 30
    """Of one call."""
    env_prefix: str = ""

    def __post_init__(self) -> None:
        try:
            url = httpx.URL(self.base_url)
        except httpx.InvalidURL:
            url = httpx.URL("")
        if url.scheme not in ("http", "https") or not url.host or url.userinfo:
            raise ConfigError("langfuse: the base URL is not an http(s) address without a password")

    def target(self, kind: str, label: str) -> str:
        """A name of the place that no change of a key or of a pattern changes."""
        prefix = f"/{self.env_prefix}" if self.env_prefix else ""
        return f"{kind}:{self.base_url.rstrip('/')}{prefix}#{label}"

    @property
    def hint(self) -> str:
        """What to look at when the key is refused."""
        names = (f"{self.env_prefix}LANGFUSE_{which}_KEY" for which in ("PUBLIC", "SECRET"))
        return f"check {' and '.join(names)}, and that the key may write prompts"

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Session"]:
        """Connections for one operation; they belong to one event loop."""
        public, secret = self.public_key.get_secret_value(), self.secret_key.get_secret_value()
        basic = base64.b64encode(f"{public}:{secret}".encode()).decode()
        headers = {"authorization": f"Basic {basic}", **_NO_CACHE}
        async with httpx.AsyncClient(follow_redirects=False, verify=_certificates()) as client:
            calls = Calls(
                backend=BACKEND, base_url=self.base_url, headers=headers, key=public,
                budget=Budget(BUDGET_S), limits={}, timeout_s=self.timeout_s,
                max_body_bytes=MAX_ANSWER_BYTES, hint=self.hint, client=client,
            )  # fmt: skip
            yield Session(self, calls, client, headers)


class Session:
    """The calls of one operation."""

    def __init__(
        self,
        project: LangfuseProject,
        calls: Calls,
        client: httpx.AsyncClient,
        headers: Mapping[str, str],
    ) -> None:
        self._project = project
        self._calls = calls
        self._client = client
        self._headers = {"accept": "application/json", "user-agent": "tracemend", **headers}
        self._api = Api(calls)

    async def get(self, path: str, params: Params | None = None) -> Mapping[str, Json]:
        """The object at a path.

        Raises:
            NotThere: there is none.
            ConnectorError: the server cannot be asked, or answers with something else.
        """
        answer = await self._api.get(path, params, klass=_KLASS)
        if not isinstance(answer, dict):
            raise odd(f"GET {path}", "answers with something that is no object")
        return answer

    async def find(self, path: str, params: Params | None = None) -> Mapping[str, Json] | None:
        """The object at a path; None where the server knows the path but nothing is there."""
        try:
            return await self.get(path, params)
        except NotThere as missing:
            if missing.html:
                raise
            return None

    async def rows(self, path: str, params: Params | None = None) -> list[Mapping[str, Json]]:
        """The rows of all pages of a list."""
        pages = numbered_pages(self._api, path, params or {}, limit=PAGE_ROWS, klass=_KLASS)
        return [row async for page in pages for row in page]

    async def write(self, method: str, path: str, body: Json) -> Mapping[str, Json]:
        """Send once and give the answer.

        Raises:
            Taken: somebody made a version at the same moment.
            PolicyRefused: it is larger than the server takes.
            ConnectorError: refused; or, `retryable`, the answer was lost: it may have been done.
        """
        content = json.dumps(body, ensure_ascii=False).encode()
        if len(content) > MAX_REQUEST_BYTES:
            raise PolicyRefused(f"langfuse: {method} {path}: more than 5 MB; make the text shorter")
        asked = Asked(backend=BACKEND, what=f"{method} {path}", hint=self._project.hint)
        reply = await self._once(method, path, content)
        try:
            answer = parsed(reply, asked)
        except BadRequest as error:
            if error.status == 409 or "unique constraint" in error.body:
                why = f"{error}: somebody else made a version at the same moment"
                raise Taken(why, backend=BACKEND, operation=method) from error
            raise ConnectorError(
                f"{error}: {said(error.body)}", backend=BACKEND, operation=method
            ) from error
        if not isinstance(answer, dict):
            raise odd(asked.what, "answers with something that is no object")
        return answer

    async def _once(self, method: str, path: str, content: bytes) -> Reply:
        base = self._project.base_url.rstrip("/")
        timeout = self._project.timeout_s
        headers = {**self._headers, "content-type": "application/json"}
        request = self._client.build_request(
            method, f"{base}{path}", headers=headers, content=content,
            timeout=httpx.Timeout(timeout, connect=min(timeout, CONNECT_S)),
        )  # fmt: skip
        try:
            async with asyncio.timeout(timeout):
                response = await self._client.send(request, stream=True)
                try:
                    body = bytearray()
                    async for block in response.aiter_bytes():
                        body += block
                        if len(body) > MAX_ANSWER_BYTES:
                            raise odd(f"{method} {path}", "answers with more than 8 MiB")
                finally:
                    await response.aclose()
        except (TimeoutError, httpx.HTTPError, OSError) as error:
            raise ConnectorError(
                f"langfuse: {method} {path}: no answer ({type(error).__name__}); whether it was "
                "done is looked up by the next try: run `resume`",
                backend=BACKEND, operation=method, retryable=True,
            ) from error  # fmt: skip
        lower = {key.lower(): value for key, value in response.headers.items()}
        return Reply(status=response.status_code, headers=lower, body=bytes(body))


def odd(what: str, why: str) -> ConnectorError:
    """An answer that cannot be right; a later one may be."""
    return ConnectorError(
        f"langfuse: {what}: {why}", backend=BACKEND, operation=what, retryable=True
    )


def said(body: str) -> str:
    """The server's own words in a refusal, on one line and short."""
    try:
        value = json.loads(body)
    except ValueError:
        return "no reason given"
    message = value.get("message") if isinstance(value, dict) else None
    words = " ".join(str(message or "no reason given").split())
    return "".join(c for c in words if c.isprintable())[:300]
