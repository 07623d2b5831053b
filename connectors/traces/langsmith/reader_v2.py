"""Runs by the second generation of LangSmith's API: `client.runs.query` of its own SDK.

Source: `POST /api/v2/runs/query`, langsmith 0.15.1 (AsyncLangsmith); page_size 1-1000. It answers
runs of the last day and their ids only unless `min_start_time` and `selects` say otherwise. The SDK
sends the request, without retries of its own; its answer is read as plain JSON, since a model that
is stricter than the server would lose runs, and its pager ends at the first empty page.
"""

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

import httpx

from connectors.traces.calls import Calls, Reply
from connectors.traces.langsmith.asking import Ask, Page, What, in_traces, iso, page_of

if TYPE_CHECKING:
    from langsmith import AsyncLangsmith
    from langsmith.types import RunSelectField

KLASS: Final = "runs-v2"

_STEPS: Final = (
    "ID", "TRACE_ID", "PARENT_RUN_IDS", "DOTTED_ORDER", "NAME", "RUN_TYPE", "STATUS", "IS_ROOT",
    "START_TIME", "END_TIME", "ERROR", "THREAD_ID", "METADATA", "TAGS", "PROMPT_TOKENS",
    "COMPLETION_TOKENS", "TOTAL_COST", "FEEDBACK_STATS",
)  # fmt: skip
_PAYLOADS: Final = ("INPUTS", "OUTPUTS", "EXTRA")
_SELECTS: Final[dict[What, tuple[str, ...]]] = {
    "steps": _STEPS,
    "payloads": ("ID", "START_TIME", *_PAYLOADS),
    "all": (*_STEPS, *_PAYLOADS),
}


class ReaderV2:
    """Runs of one project."""

    name = "langsmith-v2"
    page_size = 1000
    most_ids = 250
    listed: What = "steps"

    def __init__(
        self,
        calls: Calls,
        make: "Callable[[], AsyncLangsmith]",
        project_id: str,
        *,
        max_body_bytes: int,
    ) -> None:
        """Nothing is opened before the first page; `aclose` closes what was."""
        self._calls = calls
        self._make = make
        self._client: AsyncLangsmith | None = None
        self._project_id = project_id
        self._max_body = max_body_bytes

    async def aclose(self) -> None:
        """Close the connections of the SDK."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def page(self, ask: Ask, *, size: int, cursor: str | None = None) -> Page:
        """One page; `size` is at most 1000."""

        async def send(seconds: float) -> Reply:
            return await self._send(ask, size, cursor, seconds)

        answer = await self._calls.through(send, klass=KLASS, what="POST /api/v2/runs/query")
        following = answer.get("next_cursor") if isinstance(answer, dict) else None
        return page_of(answer, "items", following or None, self.name)

    async def _send(self, ask: Ask, size: int, cursor: str | None, seconds: float) -> Reply:
        from langsmith import APIConnectionError, APIStatusError, omit  # noqa: PLC0415  (heavy)

        if self._client is None:
            self._client = self._make()
        one_trace = ask.trace_ids[0] if len(ask.trace_ids) == 1 else None
        call = self._client.runs.with_streaming_response.query(
            project_ids=[self._project_id],
            min_start_time=iso(ask.start_ns),
            max_start_time=iso(ask.end_ns),
            selects=cast("list[RunSelectField]", list(_SELECTS[ask.what])),  # names of its own
            page_size=size,
            cursor=cursor or omit,
            ids=list(ask.ids) or omit,
            trace_id=one_trace or omit,
            filter=in_traces(ask.trace_ids) if len(ask.trace_ids) > 1 else omit,
            is_root=ask.roots_only or omit,
            timeout=seconds,
        )
        broken: tuple[type[Exception], ...] = (APIConnectionError, *_transport_errors())
        try:
            async with call as response:
                body = bytearray()
                async for block in response.iter_bytes():
                    body += block
                    if len(body) > self._max_body:
                        return Reply(status=413, headers={}, body=b"")
                headers = {key.lower(): value for key, value in response.headers.items()}
                return Reply(status=response.status_code, headers=headers, body=bytes(body))
        except APIStatusError as error:
            headers = {key.lower(): value for key, value in error.response.headers.items()}
            return Reply(status=error.status_code, headers=headers, body=error.response.content)
        except broken as error:
            raise _as_httpx(error) from error


@lru_cache(maxsize=1)
def _transport_errors() -> tuple[type[Exception], ...]:
    """Of the HTTP library that the SDK took: httpx, or its fork httpx2 where that is installed."""
    from langsmith import DefaultAsyncHttpxClient  # noqa: PLC0415  (heavy)

    taken = DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")[0]
    library = import_module(taken)
    return library.TransportError, library.DecodingError


def _as_httpx(error: BaseException) -> Exception:
    """The same failure as an error of httpx, which is what the policy for calls knows."""
    here: BaseException | None = error
    while here is not None:
        same = getattr(httpx, type(here).__name__, None)
        if isinstance(same, type) and issubclass(same, httpx.TransportError | httpx.DecodingError):
            made: Exception = same(str(here))
            made.__cause__ = here.__cause__
            return made
        here = here.__cause__
    return httpx.TransportError(type(error).__name__)


def make_client(root: str, key: str, workspace_id: str | None) -> "AsyncLangsmith":
    """The SDK's own client without retries; nothing is sent by making it."""
    from langsmith import AsyncLangsmith, DefaultAsyncHttpxClient  # noqa: PLC0415  (heavy)

    client = AsyncLangsmith(
        api_key=key,
        tenant_id=workspace_id or "",
        base_url=root,
        max_retries=0,
        http_client=DefaultAsyncHttpxClient(follow_redirects=False),
    )
    client.tenant_id = workspace_id  # unset, it would be taken from the environment
    return client
