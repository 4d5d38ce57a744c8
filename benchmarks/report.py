"""The table people read and the JSON machines read."""

from __future__ import annotations

import json
import platform
import statistics
import sys
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from frame import Row, Sample

HEADINGS = ("workload", "ours", "reference", "measure", "spread", "target", "ok?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One row's medians over all rounds, and the verdict on them."""

    name: str
    unit: str
    ours: float
    reference: float | None
    measure: float
    lowest: float
    highest: float
    rounds: int
    target: float | None
    at_most: bool
    ok: bool | None


def summarise(row: Row, samples: Iterable[Sample]) -> Line:
    """Judge a row by the median of its rounds, or by the worst of them.

    The measure is the median of the rounds' ratios, not the ratio of the medians: both sides of
    one ratio saw the same weather.
    """
    rounds = list(samples)
    references = [s.reference for s in rounds if s.reference is not None]
    measures = [s.ours / s.reference if s.reference else s.ours for s in rounds]
    measure = max(measures) if row.worst else statistics.median(measures)
    return Line(
        name=row.name,
        unit=row.unit,
        ours=statistics.median(s.ours for s in rounds),
        reference=statistics.median(references) if references else None,
        measure=measure,
        lowest=min(measures),
        highest=max(measures),
        rounds=len(rounds),
        target=row.target.bound if row.target else None,
        at_most=row.target.at_most if row.target else False,
        ok=row.target.met_by(measure) if row.target else None,
    )


def summarise_all(rows: Iterable[Row], samples: Iterable[Sample]) -> list[Line]:
    """One line per row that has samples, in the rows' order."""
    by_row: defaultdict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_row[sample.row].append(sample)
    return [summarise(row, by_row[row.name]) for row in rows if by_row[row.name]]


def table(lines: Sequence[Line]) -> str:
    """The lines as an aligned table."""
    cells = [HEADINGS, *(_cells(line) for line in lines)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADINGS))]
    rule = "  ".join("-" * width for width in widths)
    # Words to the left, numbers to the right.
    text = [
        "  ".join(
            cell.ljust(width) if column in {0, len(HEADINGS) - 1} else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    return "\n".join([text[0], rule, *text[1:]])


def write_json(path: Path, lines: Sequence[Line], document: Mapping[str, object]) -> None:
    """Write everything the table says, unrounded, beside what is known of the run."""
    contents = {**document, "lines": [asdict(line) for line in lines]}
    path.write_text(json.dumps(contents, indent=2) + "\n", encoding="utf-8")


def where() -> dict[str, str]:
    """The versions and the machine that the numbers depend on."""
    return {"python": sys.version.split()[0], "platform": platform.platform()}


def _cells(line: Line) -> tuple[str, ...]:
    mark = "×" if line.reference is not None else f" {line.unit}"
    reference = "–" if line.reference is None else f"{_number(line.reference)} {line.unit}"
    target = "–"
    if line.target is not None:
        target = f"{'≤' if line.at_most else '≥'} {line.target:g}{mark}"
    return (
        line.name,
        f"{_number(line.ours)} {line.unit}",
        reference,
        f"{_number(line.measure)}{mark}",
        f"{_number(line.lowest)} … {_number(line.highest)}",
        target,
        {True: "ok", False: "MISSED", None: ""}[line.ok],
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"  # noqa: PLR2004 - three digits
