"""Connectors from settings: the only place where a node learns which one it talks to."""

import os
from pathlib import Path

from connectors.harness.directory import DirectoryHarness
from connectors.probe.worker import WorkerProbe
from connectors.traces.files import FilesSource, read_spans
from contracts.errors import ConfigError
from contracts.protocols import Harness, Probe, TraceSource
from memory.workspace import Workspace


def open_source(ws: Workspace) -> TraceSource:
    """Where the project's traces are read from.

    Raises:
        ConfigError: none is configured, or one that this release has no reader for.
    """
    sources = ws.settings.traces
    if not sources:
        raise ConfigError("traces: none configured; add `{kind: files, path: traces/}`")
    patterns: list[str | Path] = []
    for at, source in enumerate(sources):
        if source.kind not in ("files", "otlp"):
            raise ConfigError(f"traces.{at}.kind: this release reads files, not {source.kind!r}")
        if source.path is None:
            raise ConfigError(f"traces.{at}.path: missing; a file, folder or glob")
        patterns.append(ws.root / source.path)
    return FilesSource(patterns)


def open_harness(ws: Workspace) -> Harness:
    """Where the agent's text is."""
    spec = ws.settings.harness
    root = (ws.root / spec.root).resolve()
    return DirectoryHarness(root, include=spec.include, work=ws.work)


def open_probe(ws: Workspace) -> Probe:
    """How the agent is run on a case.

    Raises:
        ConfigError: none is configured.
    """
    spec = ws.settings.probe
    if spec is None:
        raise ConfigError(
            "probe: missing; the gate needs to run the agent, such as "
            "`{kind: worker, command: [python, -m, agent.worker]}`"
        )
    return WorkerProbe(
        command=spec.command,
        cwd=ws.root,
        work=ws.work,
        concurrency=spec.concurrency,
        timeout_s=spec.timeout_s,
        env={},
        pass_env=[name for name in spec.env if name in os.environ],
        read_spans=read_spans,
    )
