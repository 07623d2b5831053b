"""A probe whose agent's tools are answered from recordings instead of being called."""

import asyncio
from collections import Counter
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

from connectors.probe.company import accompanied
from connectors.probe.replay_proxy import ReplayProxy
from connectors.probe.replay_recording import Session
from connectors.probe.replay_sources import Recordings
from connectors.probe.wire import clean
from contracts.harness import HarnessSnapshot, Observation
from contracts.json_types import Json
from contracts.protocols import Probe
from contracts.traces import Trace

PER_RUN: Final = "per-run"
REPLAY_ENVIRONMENT: Final = {"TRACEMEND_REPLAY": PER_RUN}
"""For the environment of a worker: the address comes with each run, and a tool that cannot tell
its run is refused instead of being called."""


class ReplayingProbe:
    """Implements `contracts.protocols.Probe` around another one.

    Each run is told an address of its own (`replay` in its line) at which its tools are answered.
    A run whose agent made a call that was never recorded is missing, whatever it answered.
    """

    def __init__(
        self, inner: Probe, recordings: Recordings, *,
        fall_through: Collection[str] = (), writes: Collection[str] = (), network: bool = True,
    ) -> None:  # fmt: skip
        """Read nothing yet.

        Args:
            inner: runs the agent; it passes `company()` on to it.
            recordings: what the runs are answered from.
            fall_through: tools that may really be called where nothing was recorded.
            writes: tools that change something.
            network: False: the agent has none, so the address is that of a Unix socket.
        """
        self._inner = inner
        self._recordings = recordings
        self._through = frozenset(fall_through)
        self._writes = frozenset(writes)
        self._proxy = ReplayProxy(as_file=not network)
        self._open = ExitStack()

    async def __aenter__(self) -> Self:
        """Serve; recordings are read with the first run."""
        await self._inner.__aenter__()
        self._open.enter_context(self._proxy)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """The agent ends first."""
        try:
            await self._inner.__aexit__(kind, error, trace)
        finally:
            await asyncio.to_thread(self._open.close)

    async def run(
        self, case_input: Json, harness: HarnessSnapshot, *, seed: int, deadline_s: float
    ) -> Observation:
        """Run once on the recording of this input.

        Raises:
            ConfigError: the recordings cannot be read.
        """
        recording = await self._recordings.choose(case_input)
        session = Session(recording, case_input, fall_through=self._through, writes=self._writes)
        with self._proxy.open(session) as url, accompanied("replay", url):
            seen = await self._inner.run(case_input, harness, seed=seed, deadline_s=deadline_s)
        missing = session.missing or past_the_replay(seen.trace, session.asked, self._through)
        if missing is None or seen.missing is not None:
            return seen
        return replace(seen, output=None, error=None, missing=missing)


def past_the_replay(
    trace: Trace | None, asked: Counter[str], fall_through: Collection[str]
) -> str | None:
    """Which tool the spans show being called more often than it was asked of us; None: none."""
    if trace is None:
        return None
    called = Counter(s.tool_name or s.name for s in trace.spans if s.kind == "tool")
    for tool, times in sorted(called.items()):
        if times > asked[tool] and tool not in fall_through:
            return (
                f"replay: {clean(tool, 80)} was called past it; wrap the tool, or name it in "
                "probe.replay.fall_through"
            )
    return None
