"""Measure an engine next to the plain driver: the same workloads for every engine.

Rounds are interleaved and each has its ratio, because a machine's disk changes its mind by the
minute: rates of one run may be compared, rates of two may not.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import evolve
from rich import progress as bars
from rich.console import Console

from alkstore_contract import bench_report
from alkstore_contract.bench_rounds import FULL, QUICK, WORKLOADS, sample
from alkstore_contract.bench_work import UnmeasuredError
from alkstore_contract.harness import load_harness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alkstore_contract.bench_report import Row
    from alkstore_contract.bench_rounds import Pace, Workload
    from alkstore_contract.harness import Harness

MEASURED: Final = 0
NOT_MEASURED: Final = 1
USAGE: Final = 2

LEAST_ROUNDS = 3
"""A median of less says nothing of the spread."""


def main(arguments: Sequence[str]) -> int:
    """Measure and print the table; the exit status says whether everything was measured."""
    options = _options(arguments)
    console = Console()
    if options.list:
        for workload in WORKLOADS:
            console.print(f"{workload.name:14}{workload.what}", highlight=False)
        return MEASURED
    try:
        harness = _load(options.harness)
        selected, left_out = select(harness, options.only)
    except (LookupError, TypeError) as error:
        print(f"alkstore-contract: {error}", file=sys.stderr)  # noqa: T201 - a command's error
        return USAGE
    if options.json:
        try:
            # Whatever becomes of this run, an older result must not be taken for its own.
            options.json.unlink(missing_ok=True)
            bench_report.write(options.json, {})
            options.json.unlink()
        except OSError as error:
            print(f"alkstore-contract: no result can be written: {error}", file=sys.stderr)  # noqa: T201 - as above
            return USAGE
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


def _load(named: str) -> Harness:
    if ":" in named:
        sys.path.append(str(Path.cwd()))  # last: what is installed comes first
    return load_harness(named)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="alkstore-contract bench",
        description=__doc__,
        epilog="exit status: 0 all was measured, 1 something was not, 2 wrong usage",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "harness", nargs="?", help="MODULE:HARNESS, or the name of an installed one"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the result here")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument(
        "--rounds",
        type=int,
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
    options = parser.parse_args(arguments)
    if options.harness is None and not options.list:
        parser.error("which engine? Give MODULE:HARNESS or the name of an installed one")
    if options.rounds is not None and options.rounds < LEAST_ROUNDS:
        parser.error(f"at least {LEAST_ROUNDS} rounds: a median of less says nothing")
    return options
