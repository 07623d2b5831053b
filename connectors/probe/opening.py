"""A probe from its settings: which kind, at which address, with whose token."""

import os
from collections.abc import Mapping
from pathlib import Path

import httpx

from configs.gate_settings import ProbeSettings
from connectors.probe.command import CommandProbe
from connectors.probe.http import MB, HttpProbe, Service
from connectors.probe.worker import WorkerProbe
from connectors.traces.files import read_spans
from connectors.traces.inline import trace_in, trace_of_messages
from contracts.errors import ConfigError
from contracts.protocols import Probe


def open_agent(
    spec: ProbeSettings,
    *,
    root: Path,
    work: Path,
    extra: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Probe:
    """The probe that `spec` describes; nothing is started and nobody is called yet.

    Args:
        spec: the section `probe`.
        root: the operator's repository.
        work: our folder for what runs need.
        extra: variables for the agent's processes, beside those that `spec` lets through.
        environ: where the token is looked up; None: this process's environment.

    Raises:
        ConfigError: the variable with the token is not set, or the address is none.
    """
    known = os.environ if environ is None else environ
    if spec.kind == "http":
        return HttpProbe(
            service=_service(spec, known), read_spans=read_spans, read_inline=trace_in,
            places=(root, work),
        )  # fmt: skip
    if spec.kind == "langgraph":
        return _langgraph(spec, known)
    local = WorkerProbe if spec.kind == "worker" else CommandProbe
    return local(
        command=spec.command, cwd=root, work=work, concurrency=spec.concurrency,
        timeout_s=spec.timeout_s, env=dict(extra or {}), pass_env=spec.env, read_spans=read_spans,
        limits=spec.limits, network=spec.network,
    )  # fmt: skip


def _langgraph(spec: ProbeSettings, environ: Mapping[str, str]) -> Probe:
    from connectors.probe.langgraph import Graph, LangGraphProbe  # noqa: PLC0415  (only if used)

    graph = Graph(
        assistant=spec.assistant or "", context_key=spec.context_key, input_key=spec.input_key,
        output_key=spec.output_key,
    )  # fmt: skip
    return LangGraphProbe(
        service=_service(spec, environ), graph=graph, read_messages=trace_of_messages
    )


def _service(spec: ProbeSettings, environ: Mapping[str, str]) -> Service:
    url = spec.url or ""
    try:
        address = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ConfigError(f"probe.url: {url!r} is no address: {error}") from None
    if not address.host or not 0 < (address.port or 80) < 65_536:
        raise ConfigError(f"probe.url: {url!r} names no host and port")
    return Service(
        url=url, token=_token(spec.token_env, environ), token_env=spec.token_env,
        concurrency=spec.concurrency, per_host=spec.per_host, timeout_s=spec.timeout_s,
        output_cap_bytes=int(spec.limits.output_mb * MB),
    )  # fmt: skip


def _token(variable: str | None, environ: Mapping[str, str]) -> str | None:
    if variable is None:
        return None
    token = environ.get(variable, "").strip()
    if not token:
        raise ConfigError(f"probe.token_env: the variable {variable} is not set")
    if not (token.isascii() and token.isprintable()):
        raise ConfigError(f"probe.token_env: the variable {variable} holds no token")
    return token
