"""`GET /metrics`: what this process measured, and what the ledger counts, in Prometheus form.

A caller gets the series of its projects. Labels come from closed sets and from the registry; ids,
paths and texts are never one. What is not known has no series, rather than a zero.
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping

from fastapi import APIRouter
from fastapi.responses import Response
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample
from starlette.datastructures import State
from starlette.requests import Request

from contracts.errors import TracemendError
from graph.installation import Installation
from graph.server.deps import InstallationDep, PrincipalDep, visible
from graph.server.ledger_metrics import Families, LedgerCache, build_info

router = APIRouter()

HTTP_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
RUN_SECONDS = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600)
"""From a run that only reads its next step to a gate of some hours."""


class Meters:
    """What this process measures itself; it begins at zero with the process."""

    def __init__(self) -> None:
        own = CollectorRegistry()
        self.http = Histogram(
            "tracemend_http_request_seconds", "Time to answer, by route template.",
            ("method", "route", "status"), buckets=HTTP_SECONDS, registry=own,
        )  # fmt: skip
        self.runs = Histogram(
            "tracemend_run_seconds",
            "One drive of a run in this process, from where it stood to where it pauses or ends.",
            ("project", "kind", "outcome"), buckets=RUN_SECONDS, registry=own,
        )  # fmt: skip
        self.nodes = Histogram(
            "tracemend_node_seconds", "One pass of a node of the graph.",
            ("project", "node", "outcome"), buckets=RUN_SECONDS, registry=own,
        )  # fmt: skip
        self.model_tokens = Counter(
            "tracemend_model_tokens",
            "Tokens of our own model calls, where the provider said how many.",
            ("project", "direction"), registry=own,
        )  # fmt: skip
        self.model_calls = Counter(
            "tracemend_model_calls", "Our own model calls; usage unknown: the provider said none.",
            ("project", "usage"), registry=own,
        )  # fmt: skip
        self.ledger = LedgerCache()

    def of(self, projects: Collection[str]) -> Iterator[Metric]:
        """Everything measured here that belongs to no project, or to one of these."""
        parts: Iterable[Collector] = (
            self.http, self.runs, self.nodes, self.model_tokens, self.model_calls,
        )  # fmt: skip
        for part in parts:
            for family in part.collect():
                family.samples = [s for s in family.samples if _shown(s, projects)]
                if family.samples:
                    yield family


def meters_of(state: State) -> Meters:
    """The application's meters."""
    held: Meters = state.meters
    return held


def _shown(sample: Sample, projects: Collection[str]) -> bool:
    mine = sample.labels.get("project")
    return (mine is None or mine in projects) and not sample.name.endswith("_created")


class _Families(Collector):
    """Families that were collected already, for the library's writer."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


@router.get("/metrics", response_class=Response, tags=["operations"])
async def metrics(
    request: Request, installation: InstallationDep, caller: PrincipalDep
) -> Response:
    """Metrics of the caller's projects, in the text form of Prometheus. Any token will do."""
    projects = visible(installation, caller)
    meters = meters_of(request.app.state)
    counted = await asyncio.gather(*(_counted(meters, installation, slug) for slug in projects))
    families = Families()
    for slug, samples in zip(projects, counted, strict=True):
        families.add(slug, samples)
    registry = CollectorRegistry()
    registry.register(_Families([build_info(), *meters.of(projects), *families.all()]))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


async def _counted(
    meters: Meters, installation: Installation, project: str
) -> Mapping[str, Iterable[tuple[tuple[str, ...], float]]] | None:
    """What the ledger counts; None where the project cannot be opened."""
    try:
        door = await installation.door_of(project)
        return await asyncio.to_thread(meters.ledger.counted, door.ws.ledger)
    except TracemendError:
        return None
