"""Measure an engine next to the plain driver: the same workloads for every engine.

Rounds are interleaved and each has its ratio, because a machine's disk changes its mind by the
minute: rates of one run may be compared, rates of two may not.
"""

from __future__ import annotations

import argparse
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import evolve
from rich import progress as bars

from alkstore_contract import bench_report
from alkstore_contract.bench_rounds import FULL, QUICK, WORKLOADS, sample
from alkstore_contract.bench_work import UnmeasuredError
from alkstore_contract.console import Console, UsageError, clear
from alkstore_contract.harness import load_harness_here

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alkstore_contract.bench_report import Row
    from alkstore_contract.bench_rounds import Pace, Workload
    from alkstore_contract.harness import Harness

MEASURED: Final = 0
NOT_MEASURED: Final = 1

LEAST_ROUNDS = 3
"""A median of less says nothing of the spread."""


def run(options: argparse.Namespace) -> int:
    """Measure and print the table; the exit status says whether everything was measured.

    Raises:
        LookupError: there is no such engine, or nothing to measure of it.
        UnfitHarnessError: what was named is no harness.
        UsageError: no engine was named, or no result can be written.

    """
    console = Console()
    if options.list:
        for workload in WORKLOADS:
            console.print(f"{workload.name:14}{workload.what}", highlight=False)
        return MEASURED
    if options.harness is None:
        raise UsageError("which engine? Give MODULE:HARNESS or the name of an installed one")
    harness = load_harness_here(options.harness)
    selected, left_out = select(harness, options.only)
    if options.json:
        clear(options.json)
    pace = QUICK if options.quick else FULL
    pace = evolve(pace, rounds=options.rounds or pace.rounds)
    rows, failed = measure(harness, selected, pace, console)
    if options.json:
        contents = bench_report.document(harness, pace, rows, failed, left_out)
        bench_report.write(options.json, contents)
    _print(console, harness, pace, rows)
    for name, why in (*left_out.items(), *failed.items()):
        console.print(f"{name}: not measured: {why}", markup=False, highlight=False)
    return NOT_MEASURED if failed else MEASURED


def select(harness: Harness, only: Sequence[str]) -> tuple[list[Workload], dict[str, str]]:
    """The workloads to measure, and why others that were asked for cannot be.

    Raises:
        LookupError: nothing is left to measure.

    """
    asked = [workload for workload in WORKLOADS if not only or workload.name in only]
    left_out = {
        workload.name: "no other process reaches the database of this engine"
        for workload in asked
        if workload.beyond_process and harness.facts.reach == "process"
    }
    selected = [workload for workload in asked if workload.name not in left_out]
    if not selected:
        raise LookupError("; ".join(f"{name}: {why}" for name, why in left_out.items()))
    return selected, left_out


def measure(
    harness: Harness, selected: Sequence[Workload], pace: Pace, console: Console
) -> tuple[list[Row], dict[str, str]]:
    """Measure one workload after the other and tell how far it is.

    Returns the rows, and why workloads have none: the others go on without them.
    """
    rows: list[Row] = []
    failed: dict[str, str] = {}
    with _bar(console) as bar:
        task = bar.add_task("begins", total=len(selected) * pace.rounds)
        for number, workload in enumerate(selected, 1):
            start = time.perf_counter()
            title = f"[{number}/{len(selected)}] {workload.name}"
            try:
                samples = []
                for _ in range(pace.rounds):
                    bar.update(task, description=title)
                    samples.append(sample(harness, workload, pace))
                    bar.advance(task)
            except Exception as error:  # noqa: BLE001 - told, and the exit status says so as well
                failed[workload.name] = _why(error)
                said = "not measured"
            else:
                rows.append(bench_report.summarise(workload.name, workload.unit, samples))
                said = bench_report.gist(rows[-1])
            bar.update(task, completed=number * pace.rounds)
            took = time.perf_counter() - start
            console.print(f"{title}: {said} ({took:.1f} s)", markup=False, highlight=False)
    return rows, failed


def _why(error: Exception) -> str:
    if isinstance(error, UnmeasuredError):
        return str(error)
    traceback.print_exception(error)
    return "".join(traceback.format_exception_only(error)).strip()


def _bar(console: Console) -> bars.Progress:
    return bars.Progress(
        bars.TextColumn("{task.description}", markup=False),
        bars.BarColumn(),
        bars.TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _print(console: Console, harness: Harness, pace: Pace, rows: Sequence[Row]) -> None:
    if rows:
        title = f"{harness.distribution} {bench_report.engine_version(harness) or ''}".strip()
        console.print(bench_report.table(rows, title))
    if any(row.raw is None for row in rows):
        said = f"{bench_report.ABSENT}: there is no plain driver to compare with"
        console.print(said, highlight=False)
    described = ", ".join(f"{key} {value}" for key, value in bench_report.where().items())
    console.print(f"medians of {pace.rounds} interleaved rounds; {described}", highlight=False)


def add_options(parser: argparse.ArgumentParser) -> None:
    """What can be said on the command line; `run` does it."""
    parser.add_argument(
        "harness", nargs="?", help="MODULE:HARNESS, or the name of an installed one"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the result here")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument(
        "--rounds",
        type=_rounds,
        metavar="N",
        help=f"rounds per workload (default {FULL.rounds}, at least {LEAST_ROUNDS})",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        choices=[workload.name for workload in WORKLOADS],
        metavar="WORKLOAD",
        help="only this workload; may be given several times",
    )
    parser.add_argument("--list", action="store_true", help="list the workloads and stop")
    parser.set_defaults(command=run)


def _rounds(text: str) -> int:
    if not text.isdecimal() or int(text) < LEAST_ROUNDS:
        raise argparse.ArgumentTypeError(
            f"at least {LEAST_ROUNDS} rounds, not {text!r}: a median of less says nothing"
        )
    return int(text)
