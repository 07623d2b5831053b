"""How near to a backend's rate limit a read comes: a server on loopback, 50 ms an answer.

The server refuses what is over its limit in a fixed window, as the vendor's does; nothing of it may
be refused either. Needs the fakes of the tests, so it runs from a checkout.
"""

import tempfile
import time
from datetime import timedelta
from pathlib import Path

from pydantic import SecretStr

from benchmarks.read import read_all, record_own
from connectors.traces.langfuse.source import LangfuseSource
from contracts.traces import TraceQuery
from tests.fakes.langfuse import PUBLIC, SECRET, FakeLangfuse
from tests.fakes.serving import serve

LATENCY_S = 0.05
A_MINUTE = 1_000
BATCH_TRACES = 1
"""One trace a batch: as many calls as a small recording can ask for."""


async def use_of_limit() -> None:
    """Print how many calls a minute a read made of those it may."""
    with tempfile.TemporaryDirectory() as scratch:
        traces = await read_all([record_own(Path(scratch), 700)])
    fake = FakeLangfuse(traces)
    fake.latency_s, fake.per_window, fake.window_s = LATENCY_S, A_MINUTE, 60.0
    start = min(trace.started_at for trace in traces) - timedelta(seconds=1)
    with serve(fake.app) as base_url:
        source = LangfuseSource(
            base_url=base_url,
            public_key=SecretStr(PUBLIC),
            secret_key=SecretStr(SECRET),
            general_a_minute=A_MINUTE,
            batch_traces=BATCH_TRACES,
        )
        begun = time.perf_counter()
        read = None
        async for batch in source.window(TraceQuery(start=start)):
            read = batch.read
        seconds = time.perf_counter() - begun
    assert read is not None
    rate = read.requests / seconds * 60
    print(
        f"api: {read.traces} traces by {read.requests} calls in {seconds:.0f} s: {rate:.0f} a "
        f"minute of {A_MINUTE} ({rate / A_MINUTE:.0%}), refused {fake.too_many}, {read.status}"
    )
