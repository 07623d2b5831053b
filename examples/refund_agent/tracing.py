"""Record runs as OTLP JSON lines through the standard instrumentation, one trace a line."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from langsmith import tracing_context
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.json.file.trace_exporter import FileSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Tracer

SERVICE = "refund-agent"
MAX_ATTRIBUTES = 4096
"""A span: a model call carries every message it was sent, so the usual 128 would lose some."""


class _WholeTraces(SpanProcessor):
    """Exports a trace when its root span ends: a killed process leaves no half a trace."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._ended: dict[int, list[ReadableSpan]] = {}

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Nothing to do yet."""

    def on_end(self, span: ReadableSpan) -> None:
        context = span.get_span_context()
        if context is None:
            return
        spans = self._ended.setdefault(context.trace_id, [])
        spans.append(span)
        if span.parent is None:
            self._exporter.export(self._ended.pop(context.trace_id))

    def shutdown(self) -> None:
        """Export what never ended, then close the file."""
        for spans in self._ended.values():
            self._exporter.export(spans)
        self._ended.clear()
        self._exporter.shutdown()


def note_cost(run_id: UUID, cost_usd: float) -> None:
    """Put the price of a model call on its span, which the instrumentation leaves out."""
    instrumentor = LangChainInstrumentor()
    if instrumentor.is_instrumented_by_opentelemetry:
        span = instrumentor.get_span(run_id)
        if span is not None:
            span.set_attribute("llm.cost.total", cost_usd)


@contextmanager
def recording(path: Path, resource: Mapping[str, str | float]) -> Iterator[Tracer]:
    """Record every LangChain run made inside to `path`, which is appended to.

    Uses a tracer provider of its own. LangChain's instrumentation is one a process, so two
    recordings cannot overlap.

    Raises:
        RuntimeError: LangChain is instrumented already.
    """
    instrumentor = LangChainInstrumentor()
    if instrumentor.is_instrumented_by_opentelemetry:
        raise RuntimeError("LangChain is instrumented already: two recordings cannot overlap")
    provider = TracerProvider(
        sampler=ALWAYS_ON,
        resource=Resource.create({"service.name": SERVICE, **resource}),
        span_limits=SpanLimits(max_attributes=MAX_ATTRIBUTES, max_span_attributes=MAX_ATTRIBUTES),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(_WholeTraces(FileSpanExporter(path)))
    instrumentor.instrument(tracer_provider=provider, skip_dep_check=True)
    try:
        # The runs are recorded here and nowhere else, whatever the environment switches on.
        with tracing_context(enabled=False):
            yield provider.get_tracer("examples.refund_agent")
    finally:
        instrumentor.uninstrument()
        provider.shutdown()
