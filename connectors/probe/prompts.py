"""A probe for agents that fetch their prompts: they read the candidate's, from a loopback proxy."""

import asyncio
import logging
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from connectors.probe.company import accompanied
from connectors.probe.prompts_proxy import PromptLane, PromptProxy, PromptRun
from connectors.probe.prompts_store import PromptFiles
from connectors.probe.spans import ReadSpans
from contracts.harness import HarnessSnapshot, Observation, Revision
from contracts.json_types import Json
from contracts.protocols import Probe

LINGER_S: Final = 5.0
"""After an answer, how long spans that were not flushed are waited for."""
QUIET_RUNS: Final = 3
"""After so many runs without any span, nobody is waited for any more."""
_LOOK_S: Final = 0.05
_log = logging.getLogger(__name__)

MakeInner = Callable[[Mapping[str, str]], Probe]
"""A probe that runs one at a time, with these variables in its agent's environment."""


def prompt_environment(url: str) -> dict[str, str]:
    """What makes the SDKs read prompts from `url` and send spans there, with keys of no use."""
    return {
        "LANGFUSE_BASE_URL": url,
        "LANGFUSE_HOST": url,
        "LANGFUSE_PUBLIC_KEY": "pk-lf-tracemend",
        "LANGFUSE_SECRET_KEY": "sk-lf-tracemend",
        "LANGFUSE_FLUSH_INTERVAL": "1",
        "LANGSMITH_ENDPOINT": url,
        "LANGCHAIN_ENDPOINT": url,
        "LANGSMITH_RUNS_ENDPOINTS": "",
        "LANGSMITH_API_KEY": "tracemend",
        "LANGCHAIN_API_KEY": "tracemend",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{url}/v1/traces",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lane:
    url: str
    proxy: PromptLane
    inner: Probe


class PromptsProbe:
    """Implements `contracts.protocols.Probe` with a process for each arm.

    The SDKs keep prompts for a minute or longer, LangSmith's even across clients, and Langfuse's
    clients of one key share one address: within one process no arm could be sure of its text. So
    a process sees the prompts of one harness only, and runs of a process follow each other.

    Attributes:
        refused: writes that agents attempted, by method and path.
    """

    def __init__(
        self, make_inner: MakeInner, *, concurrency: int, read_spans: ReadSpans,
        linger_s: float = LINGER_S,
    ) -> None:  # fmt: skip
        """Start nothing yet.

        Args:
            make_inner: a probe of one run at a time.
            concurrency: runs at once; so many processes an arm, at most.
            read_spans: turns a file of spans into a trace.
            linger_s: how long unflushed spans are waited for.
        """
        self.refused: Counter[str] = Counter()
        self._make_inner = make_inner
        self._read_spans = read_spans
        self._linger_s = linger_s
        self._slots = asyncio.Semaphore(concurrency)
        self._free: dict[Revision, list[_Lane]] = {}
        self._proxy = PromptProxy()
        self._open = AsyncExitStack()
        self._folder = Path()
        self._silent = 0

    async def __aenter__(self) -> Self:
        """Serve; processes start with the first run of each harness."""
        self._folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="tracemend-spans-"))
        self._open.enter_context(self._proxy)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End every process, then the proxy."""
        try:
            await self._open.aclose()
        finally:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def run(
        self, case_input: Json, harness: HarnessSnapshot, *, seed: int, deadline_s: float
    ) -> Observation:
        """Run once on the prompts of this harness."""
        revision = harness.revision
        async with self._slots:
            lane = await self._lane(revision, harness)
            run = PromptRun()
            since = datetime.now(UTC)
            try:
                with lane.proxy.during(run), accompanied("prompts", lane.url):
                    seen = await lane.inner.run(
                        case_input, harness, seed=seed, deadline_s=deadline_s
                    )
                    if seen.trace is None and seen.missing is None:
                        await self._wait(run)
            finally:
                self._free.setdefault(revision, []).append(lane)
            return await asyncio.to_thread(self._observed, seen, run, since)

    async def _lane(self, revision: Revision, harness: HarnessSnapshot) -> _Lane:
        free = self._free.setdefault(revision, [])
        if free:
            return free.pop()
        proxy = PromptLane(PromptFiles(harness))
        url = self._proxy.add(proxy)
        inner = self._make_inner(prompt_environment(url))
        await self._open.enter_async_context(inner)
        return _Lane(url=url, proxy=proxy, inner=inner)

    async def _wait(self, run: PromptRun) -> None:
        """Until the root's span came, as long as this agent sends any."""
        if self._silent >= QUIET_RUNS:
            return
        until = time.monotonic() + self._linger_s
        while not run.spans.whole and time.monotonic() < until:  # noqa: ASYNC110  other threads send no event
            await asyncio.sleep(_LOOK_S)
        self._silent = 0 if run.spans.any else self._silent + 1

    def _observed(self, seen: Observation, run: PromptRun, since: datetime) -> Observation:
        if run.refused:
            self.refused.update(run.refused)
            _log.warning("probe.prompts.refused", extra={"writes": run.refused.total()})
        if run.problem is not None and seen.missing is None:
            return replace(seen, output=None, error=None, missing=f"prompts: {run.problem}")
        if seen.trace is not None or not run.spans.any:
            return seen
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        return replace(seen, trace=run.spans.trace(folder, self._read_spans, since=since))
