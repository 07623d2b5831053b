"""A storm of alerts against `tracemend serve`: accepted a second, memory, what became of them."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

import httpx

from benchmarks.server_http import UNLIMITED
from benchmarks.server_worlds import Kit, home_environ, opened, plant
from tests.services import replica

SLUG, SECRET = "agent-0000", "storm"
AT_ONCE = 32
"""Senders at the same time; each waits for its answer, as a sender of webhooks does."""
SETTLES_WITHIN_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """How it went."""

    alerts: int
    kinds: int
    accepted_per_second: float
    p50_ms: float
    p95_ms: float
    rss_mb: dict[int, float]
    """Resident memory of the server after so many alerts."""
    taken_in_s: float
    """From the last 202 until every alert belonged to an incident."""
    rows: int
    incidents: int
    fired: int

    @property
    def lost(self) -> int:
        """Alerts that were answered 202 and are not in the ledger."""
        return self.alerts - self.rows


def rss_mb(pid: int) -> float:
    """Resident memory of a process, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"process {pid} shows no VmRSS")


async def send(url: str, count: int, kinds: int, pid: int) -> tuple[list[float], dict[int, float]]:
    """Send alerts, each with a key of its own; seconds of each answer, and memory on the way."""
    each: list[float] = []
    memory: dict[int, float] = {}
    marks = {max(1, count // 10), count // 2, count}
    numbers = iter(range(count))

    async def sender(client: httpx.AsyncClient) -> None:
        for number in numbers:
            body = {"title": f"kind {number % kinds} fails", "group": f"kind-{number % kinds}"}
            begun = time.perf_counter()
            answer = await client.post(
                f"/hooks/generic/{SLUG}", json=body, headers={"Idempotency-Key": f"storm-{number}"}
            )
            assert answer.status_code == 202, answer.text
            each.append(time.perf_counter() - begun)
            if len(each) in marks:
                memory[len(each)] = rss_mb(pid)

    bearer = {"Authorization": f"Bearer {SECRET}"}
    async with httpx.AsyncClient(base_url=url, headers=bearer, timeout=60) as client:
        await asyncio.gather(*(sender(client) for _ in range(AT_ONCE)))
    return each, memory


def storm(home: Path, kit: Kit, count: int, kinds: int) -> Storm:
    """Send `count` alerts of some kinds to a fresh installation, with its usual delays.

    The traces' folder is empty, so its runs wait for late traces and stay open, as a real one does
    until somebody answers its card.
    """
    plant(home, kit, SLUG, settings=USUAL)
    more = {
        "TRACEMEND_HOOK_GENERIC_AGENT_0000": SECRET,
        "TRACEMEND_SERVER__LIMITS__PER_HOOK": UNLIMITED,
    }
    with replica({**home_environ(home), **more}, cwd=home, log=home / "server.log") as server:
        begun = time.perf_counter()
        each, memory = asyncio.run(send(server.url, count, kinds, server.process.pid))
        sent = time.perf_counter()
        with opened(home, SLUG) as ledger:
            while any(state == "new" for _, state in ledger.alerts.counts()):
                assert time.perf_counter() - sent < SETTLES_WITHIN_S, "alerts are not taken in"
                time.sleep(0.1)
            taken = time.perf_counter() - sent
            runs = ledger.incidents.listed()
            assert ledger.audit.verify().ok, "audit verify"
            rows = sum(ledger.alerts.counts().values())
        memory[count] = rss_mb(server.process.pid)
    return Storm(
        alerts=count, kinds=kinds, accepted_per_second=count / (sent - begun),
        p50_ms=1000 * median(each), p95_ms=1000 * quantiles(each, n=20)[18],
        rss_mb=dict(sorted(memory.items())), taken_in_s=taken, rows=rows, incidents=len(runs),
        fired=sum(run.fired for run in runs),
    )  # fmt: skip


USUAL = "alerts: {settle: 60s, late: 15m}\n"
