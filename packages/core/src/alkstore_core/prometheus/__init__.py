"""Metrics in Prometheus' text format, for who installs `alkstore-core[prometheus]`.

`WorkerMetrics` counts what handlers do, within the process that runs them. `metrics_text` and
`metrics_app` show what stands in a store, whoever works on it.
"""

try:
    import prometheus_client  # noqa: F401 - asked for here, to say what is missing.
except ModuleNotFoundError as _missing:
    raise ModuleNotFoundError(
        "alkstore_core.prometheus needs Prometheus' client: "
        "pip install 'alkstore-core[prometheus]'",
        name=_missing.name,
    ) from _missing

from alkstore_core.prometheus.handling import WorkerMetrics
from alkstore_core.prometheus.serving import metrics_app, metrics_text

__all__ = ["WorkerMetrics", "metrics_app", "metrics_text"]
