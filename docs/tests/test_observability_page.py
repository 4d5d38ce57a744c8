"""The tables of the page on observability name what there is, all of it."""

import inspect
import re
from pathlib import Path

from prometheus_client import CollectorRegistry

import alkstore_core.worker
from alkstore_core.overview import Overview
from alkstore_core.prometheus import WorkerMetrics
from alkstore_core.prometheus.families import families_of
from alkstore_core.worker import Outcome
from wheelhouse import ROOT

PAGE = (ROOT / "docs/guides/observability.md").read_text(encoding="utf-8")
WORKER = Path(inspect.getfile(alkstore_core.worker)).parent


def first_column(heading):
    """The names in the first column of the table after a line that begins so."""
    table = PAGE[PAGE.index(heading) :].partition("\n\n")[0]
    return {
        name
        for row in table.splitlines()[2:]
        for name in re.findall(r"`([\w.]+)`", row.split("|")[1])
    }


def test_log_events():
    """Every event that workers and consumers log has a row, and no row tells of another."""
    source = "\n".join(path.read_text(encoding="utf-8") for path in WORKER.glob("*.py"))
    logged = set(re.findall(r'event\(\s*"([a-z_.]+)"', source))

    assert logged == first_column("| Event, after")


def test_metrics():
    """Every metric of Prometheus' has a row."""
    registry = CollectorRegistry()
    WorkerMetrics(registry=registry)
    nothing = Overview(at=0, queues=(), streams=(), locks=(), schedules=())
    families = [*registry.collect(), *families_of(nothing, 1)]
    named = {f.name + ("_total" if f.type == "counter" else "") for f in families}

    assert named == first_column("| Metric | Labels")


def test_outcomes():
    """Every outcome has a row."""
    assert {str(outcome) for outcome in Outcome} == first_column("| Outcome | The job")
