"""OpenTelemetry's own SDK, that keeps in memory what is recorded."""

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Telemetry:
    """Providers, and what they were told."""

    def __init__(self):
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.providers = {
            "tracer_provider": tracers,
            "meter_provider": MeterProvider([self._reader]),
        }
        self.tracer = tracers.get_tracer("tests")

    @property
    def spans(self):
        """All spans that have ended, in that order."""
        return self._exporter.get_finished_spans()

    def named(self, name):
        """The spans of a name."""
        return [span for span in self.spans if span.name == name]

    def one(self, name):
        """The one span of a name."""
        (span,) = self.named(name)
        return span

    def points(self, metric):
        """The attributes and the value, or the count, of each series of a metric."""
        data = self._reader.get_metrics_data()
        if data is None:
            return []
        return [
            (dict(point.attributes), getattr(point, "value", None) or point.count)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for found in scope.metrics
            if found.name == metric
            for point in found.data.data_points
        ]


def traceparent(span):
    """The header that says: this span is the parent."""
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
