"""Our own traces by OTLP: spans of requests, runs and nodes; ids, times and states, never a text.

Source: OpenTelemetry SDK 1.45, OTLP over HTTP (protobuf). Headers such as a key are taken from the
standard variable `OTEL_EXPORTER_OTLP_HEADERS`, never from a file.
"""

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from urllib.parse import urlsplit

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import NoOpTracer, Tracer
from starlette.datastructures import State

from configs.server_settings import ObserveSettings
from configs.settings import TraceSettings
from connectors.traces.opening import LANGFUSE_CLOUD, LANGSMITH_CLOUD, PHOENIX_LOCAL
from connectors.traces.tree import RUN_ID
from contracts.errors import ConfigError, TracemendError
from graph.installation import Installation

SELF_ENVIRONMENT = "tracemend-self"
EXPORT_TIMEOUT_S = 5
FLUSH_MS = 3_000
"""How long the end of the server waits for spans that were not sent yet."""
_TRACES = "/v1/traces"
_PORTS = {"http": 80, "https": 443}

_log = logging.getLogger("tracemend.tracing")


class _MarkOwn(SpanProcessor):
    """Marks every span as ours, so that no reader of ours takes it for the agent's."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        span.set_attribute(RUN_ID, SELF_ENVIRONMENT)


def tracer_of(state: State) -> Tracer:
    """The application's tracer; one that does nothing where no endpoint is set."""
    held: Tracer = state.tracer
    return held


@contextmanager
def open_tracer(observe: ObserveSettings) -> Iterator[Tracer]:
    """A tracer of our own, not the process's: what libraries record does not go through it.

    A receiver that is down costs a warning in the log, and spans; nothing waits for it.
    """
    if observe.otlp_endpoint is None:
        yield NoOpTracer()
        return
    resource = Resource.create({
        "service.name": observe.service_name,
        "deployment.environment.name": SELF_ENVIRONMENT,
        "openinference.project.name": SELF_ENVIRONMENT,
    })  # fmt: skip
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(_MarkOwn())
    exporter = OTLPSpanExporter(
        endpoint=traces_url(observe.otlp_endpoint), timeout=EXPORT_TIMEOUT_S
    )
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=1_000))
    try:
        yield provider.get_tracer("tracemend")
    finally:
        provider.force_flush(FLUSH_MS)
        provider.shutdown()


def traces_url(endpoint: str) -> str:
    """Where spans are posted: the base address that collectors document, or the whole path.

    Raises:
        ConfigError: it is no HTTP address.
    """
    try:
        parts = urlsplit(endpoint)
        usable = parts.scheme in _PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.username or parts.query:
        raise ConfigError(
            "observe.otlp_endpoint: needs an address such as `http://127.0.0.1:4318`; keys go "
            "into OTEL_EXPORTER_OTLP_HEADERS (server.yaml)"
        )
    base = endpoint.rstrip("/")
    return base if base.endswith(_TRACES) else base + _TRACES


def refuse_own_sources(installation: Installation) -> None:
    """Our spans never go to a backend that a project is read from. Blocking.

    Raises:
        ConfigError: some configured source is at the endpoint's host and port.
    """
    endpoint = installation.settings.observe.otlp_endpoint
    if endpoint is None:
        return
    target = _address(traces_url(endpoint))
    for project in installation.projects():
        try:
            settings = installation.door(project).ws.settings
        except TracemendError:
            continue  # nothing is read for a project that cannot be opened
        for at, url in addresses(settings.traces):
            if _address(url) == target:
                raise ConfigError(
                    f"observe.otlp_endpoint: {target[0]}:{target[1]} is what traces.{at} of "
                    f"project {project!r} reads; our own traces must go elsewhere (server.yaml)"
                )


def addresses(
    traces: Iterable[TraceSettings], environ: Mapping[str, str] | None = None
) -> Iterator[tuple[int, str]]:
    """The address that each configured backend is read at, by its place in the settings."""
    env = os.environ if environ is None else environ
    usual = {
        "langfuse": (("LANGFUSE_BASE_URL", "LANGFUSE_HOST"), LANGFUSE_CLOUD),
        "langsmith": (("LANGSMITH_ENDPOINT", "LANGCHAIN_ENDPOINT"), LANGSMITH_CLOUD),
        "phoenix": (("PHOENIX_COLLECTOR_ENDPOINT",), PHOENIX_LOCAL),
    }
    for at, spec in enumerate(traces):
        if spec.kind in usual:
            names, cloud = usual[spec.kind]
            found = (env.get(spec.env_prefix + name) for name in names)
            yield at, spec.base_url or next(filter(None, found), cloud)


def _address(url: str) -> tuple[str, int]:
    """Host and port, all names of this machine being one."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    try:
        here = ip_address(host).is_loopback
    except ValueError:
        here = host == "localhost"
    return ("localhost" if here else host, parts.port or _PORTS.get(parts.scheme, 0))
