"""The probe of the settings, and what accompanies its runs: recorded tools, prompts."""

from collections.abc import Mapping
from pathlib import Path

from configs.gate_settings import ProbeSettings
from connectors.probe.opening import open_agent
from connectors.probe.prompts import PromptsProbe
from connectors.probe.replay import REPLAY_ENVIRONMENT, ReplayingProbe
from connectors.probe.replay_sources import FetchTrace, KnownRecordings
from connectors.traces.files import read_spans
from contracts.errors import ConfigError
from contracts.protocols import Probe
from contracts.traces import TraceId


def open_accompanied(
    spec: ProbeSettings, *, root: Path, work: Path, origins: Mapping[str, TraceId],
    fetch: FetchTrace,
) -> Probe:  # fmt: skip
    """The agent, and around it what `probe.prompts` and `probe.replay` ask for.

    Args:
        spec: the section `probe`.
        root: the operator's repository.
        work: our folder for what runs need.
        origins: from which trace a case was made, by `input_id` of its input.
        fetch: reads such a trace.

    Raises:
        ConfigError: a variable or a recording that the settings name is not there.
    """
    extra = {} if spec.replay is None else REPLAY_ENVIRONMENT
    probe: Probe
    if spec.prompts:
        alone = spec.model_copy(update={"concurrency": 1})

        def inner(env: Mapping[str, str]) -> Probe:
            return open_agent(alone, root=root, work=work, extra={**extra, **env})

        probe = PromptsProbe(inner, concurrency=spec.concurrency, read_spans=read_spans)
    else:
        probe = open_agent(spec, root=root, work=work, extra=extra)
    if spec.replay is None:
        return probe
    if not spec.replay.traces and not origins:
        raise ConfigError(
            "probe.replay.traces: none named, and no case was made of a trace; name files of traces"
        )
    recordings = KnownRecordings(
        root=root, traces=spec.replay.traces, writes=spec.replay.writes, origins=origins,
        fetch=fetch,
    )  # fmt: skip
    return ReplayingProbe(
        probe, recordings, fall_through=spec.replay.fall_through, writes=spec.replay.writes,
        network=spec.network,
    )  # fmt: skip
