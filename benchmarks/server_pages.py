"""GET /proposals with many that wait, beside few."""

import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

import httpx

from benchmarks.server_http import UNLIMITED
from benchmarks.server_worlds import Kit, home_environ, make_token, opened, plant, put_waiting
from tests.services import replica

PAGE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """What listing cost with so many proposals that wait."""

    waiting: int
    projects: int
    pages: int
    """Of one walk over all of them."""
    first_p50_ms: float
    first_p95_ms: float
    page_p50_ms: float
    page_p95_ms: float


def listing(home: Path, kit: Kit, waiting: int, projects: int, repeat: int) -> Listed:
    """List `waiting` proposals of some projects: the first page, and walks over all pages."""
    for number in range(projects):
        slug = f"agent-{number:04}"
        plant(home, kit, slug)
        with opened(home, slug) as ledger:
            put_waiting(ledger, kit, waiting // projects)
    more = {"TRACEMEND_SERVER__LIMITS__PER_TOKEN": UNLIMITED}
    with replica({**home_environ(home), **more}, cwd=home, log=home / "server.log") as server:
        bearer = {"Authorization": f"Bearer {make_token(home)}"}
        with httpx.Client(base_url=server.url, headers=bearer, timeout=60) as client:
            _walk(client)  # the first opens every project
            walks = [_walk(client) for _ in range(repeat)]
    for ids, _ in walks:
        assert len(ids) == len(set(ids)) == waiting, f"listed {len(ids)} of {waiting}"
    first = [times[0] for _, times in walks]
    every = [t for _, times in walks for t in times]
    return Listed(
        waiting=waiting, projects=projects, pages=len(walks[0][1]),
        first_p50_ms=1000 * median(first), first_p95_ms=_p95_ms(first),
        page_p50_ms=1000 * median(every), page_p95_ms=_p95_ms(every),
    )  # fmt: skip


def _p95_ms(seconds: list[float]) -> float:
    return 1000 * quantiles(seconds, n=20, method="inclusive")[18]


def _walk(client: httpx.Client) -> tuple[list[str], list[float]]:
    """Ids of all that wait, page by page, and the seconds of each page."""
    ids: list[str] = []
    times: list[float] = []
    cursor: str | None = None
    while True:
        asked = {"status": "waiting", "limit": str(PAGE)} | ({"cursor": cursor} if cursor else {})
        begun = time.perf_counter()
        answer = client.get("/proposals", params=asked)
        times.append(time.perf_counter() - begun)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        ids += [str(one["id"]) for one in page["proposals"]]
        cursor = page["next"]
        if cursor is None:
            return ids, times
