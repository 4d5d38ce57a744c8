"""The table people read and the JSON programs read."""

from __future__ import annotations

import json
import os
import platform
import statistics
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from attrs import asdict, frozen
from rich.table import Table

from alkstore_contract.distributions import KIT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from alkstore_contract.bench_rounds import Pace, Sample
    from alkstore_contract.harness import Harness

ABSENT = "–"


@frozen(kw_only=True)
class Row:
    """The medians of one workload's rounds.

    `ratio` is the median of the rounds' ratios, not the ratio of the medians: both sides of one
    round saw the same weather. `spread` is its lowest and highest round; without a plain
    driver's rate, the engine's.
    """

    name: str
    unit: str
    engine: float
    raw: float | None
    ratio: float | None
    spread: tuple[float, float]
    rounds: Sequence[Sample]


def summarise(name: str, unit: str, rounds: Sequence[Sample]) -> Row:
    """One row of at least one round."""
    raws = [s.raw for s in rounds if s.raw is not None]
    ratios = [s.engine / s.raw for s in rounds if s.raw is not None]
    measures = ratios or [s.engine for s in rounds]
    return Row(
        name=name,
        unit=unit,
        engine=statistics.median(s.engine for s in rounds),
        raw=statistics.median(raws) if raws else None,
        ratio=statistics.median(ratios) if ratios else None,
        spread=(min(measures), max(measures)),
        rounds=tuple(rounds),
    )


def table(rows: Sequence[Row], title: str) -> Table:
    """The rows for a terminal."""
    shown = Table(title=title, title_justify="left")
    for column in ("workload", "unit"):
        shown.add_column(column, no_wrap=True)
    for column in ("engine", "raw driver", "ratio", "spread"):
        shown.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        low, high = (_number(end) for end in row.spread)
        shown.add_row(
            row.name,
            row.unit,
            _number(row.engine),
            ABSENT if row.raw is None else _number(row.raw),
            ABSENT if row.ratio is None else f"{_number(row.ratio)} ×",
            f"{low} … {high}" + ("" if row.ratio is None else " ×"),
        )
    return shown


def gist(row: Row) -> str:
    """A row in a few words."""
    ratio = "" if row.ratio is None else f", {_number(row.ratio)} × the raw driver"
    return f"{_number(row.engine)} {row.unit}{ratio}"


def document(
    harness: Harness,
    pace: Pace,
    rows: Sequence[Row],
    failed: Mapping[str, str],
    left_out: Mapping[str, str],
) -> dict[str, Any]:
    """Everything the table says, unrounded, round by round, with where it was measured."""
    return {
        "engine": {"name": harness.distribution, "version": engine_version(harness)},
        "kit": version(KIT),
        "where": where(),
        "pace": asdict(pace),
        "workloads": [asdict(row) for row in rows],
        "failed": dict(failed),
        "left_out": dict(left_out),
    }


def write(path: Path, contents: Mapping[str, Any]) -> None:
    """Write the document."""
    path.write_text(json.dumps(contents, indent=1) + "\n", encoding="utf-8")


def engine_version(harness: Harness) -> str | None:
    """The engine's installed version; `None` when it is not installed."""
    try:
        return version(harness.distribution)
    except PackageNotFoundError:
        return None


def where() -> dict[str, str | int]:
    """The machine that the numbers depend on."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count() or 1,
    }


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004 - three digits
