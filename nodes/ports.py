"""Connectors from settings: the only place where a node learns which one it talks to."""

from connectors.embed.opening import open_embedder
from connectors.harness.heads import keepers, read_heads
from connectors.harness.opening import open_places
from connectors.harness.several import Places
from connectors.probe.managed import ManagedPromptsProbe
from connectors.probe.replay_shelf import input_id
from connectors.probe.services import open_accompanied
from connectors.publishing.opening import Vendor, open_publisher
from connectors.traces.opening import open_trace_source
from connectors.traces.several import SeveralSources
from contracts.errors import ConfigError
from contracts.protocols import Embedder, Probe, TraceSource
from contracts.publishing import Publisher
from contracts.traces import TraceId
from memory.semantic import SemanticMemory
from memory.workspace import Workspace
from nodes.casebook import read_casebook


def open_source(ws: Workspace) -> TraceSource:
    """Where the project's traces are read from: all configured sources as one.

    Raises:
        ConfigError: none is configured, or one of them lacks a key.
    """
    places = range(len(ws.settings.traces))
    if not places:
        raise ConfigError("traces: none configured; add `{kind: files, path: traces/}`")
    sources = [open_source_at(ws, at) for at in places]
    return sources[0] if len(sources) == 1 else SeveralSources(sources)


def open_source_at(ws: Workspace, at: int) -> TraceSource:
    """The source of the entry `traces.<at>` of the settings.

    Raises:
        ConfigError: it lacks a key.
    """
    budget_s = ws.settings.analysis.read_within.total_seconds()
    return open_trace_source(ws.settings.traces[at], f"traces.{at}", ws.root, budget_s=budget_s)


def open_harness(ws: Workspace) -> Places:
    """Where the agent's text is: one place or several.

    Raises:
        ConfigError: a place lacks a key or an address, or is there twice.
    """
    return open_places(ws.settings.harness, root=ws.root, work=ws.work)


def open_probe(ws: Workspace) -> Probe:
    """How the agent is run on a case.

    Raises:
        ConfigError: none is configured, or what its settings name is not there.
    """
    spec = ws.settings.probe
    if spec is None:
        raise ConfigError(
            "probe: missing; the gate needs to run the agent, such as "
            "`{kind: worker, command: [python, -m, agent.worker]}`"
        )
    replays = spec.replay is not None
    probe = open_accompanied(
        spec, root=ws.root, work=ws.work, origins=_origins(ws) if replays else {},
        fetch=lambda trace_id: open_source(ws).trace(trace_id),
    )  # fmt: skip
    managed = keepers(open_harness(ws))
    return ManagedPromptsProbe(probe, lambda: read_heads(managed)) if managed else probe


def _origins(ws: Workspace) -> dict[str, TraceId]:
    """The trace that each case was made of, by the case's input; of two the first by id."""
    cases = sorted(read_casebook(ws).cases, key=lambda case: case.origin, reverse=True)
    return {
        input_id(case.input): TraceId(case.origin.removeprefix("trace:"))
        for case in cases
        if case.origin.startswith("trace:")
    }


def open_publishing(ws: Workspace, vendor: Vendor, *, dataset: str | None = None) -> Publisher:
    """Where a person publishes findings and gates to.

    Raises:
        ConfigError: a variable of the environment is missing.
    """
    return open_publisher(vendor, ws.settings.traces, dataset=dataset)


def open_memory(ws: Workspace) -> SemanticMemory | None:
    """What is recalled by meaning; None: the settings turned it off.

    Raises:
        ConfigError: the embedder needs an extra that is not installed.
    """
    embedder = open_embedder_of(ws)
    if embedder is None:
        return None
    url = ws.settings.memory.chroma_url
    return SemanticMemory(ws.ledger, embedder, ws.home, chroma_url=url)


def open_embedder_of(ws: Workspace) -> Embedder | None:
    """What makes vectors of texts; None: the settings turned it off.

    Raises:
        ConfigError: it needs an extra that is not installed.
    """
    return open_embedder(ws.settings.memory.embedder)
