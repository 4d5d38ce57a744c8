"""Measure an engine next to its plain driver: `make bench`, or `bench.py ENGINE`.

Rounds are interleaved (raw, ours, raw, ours, …) because a machine's disk changes its mind by
the minute: rates of one run may be compared, rates of two may not. The last line says what every
awaited call pays for on this machine; `--one-core` takes the price of cores that wake each other
out of both sides.

What is measured stands in `packages/ENGINE/benchmarks/suite.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frame import Sample, Scene, Workload

PACKAGES = Path(__file__).parents[1] / "packages"

ROUNDS = 5
QUICK_ROUNDS = 3
QUICK_SCALE = 0.2


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    engines = sorted(suite.parts[-3] for suite in PACKAGES.glob("*/benchmarks/suite.py"))
    parser.add_argument("engine", choices=engines, help="what to measure")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, a fifth of the load")
    parser.add_argument("--scale", type=float, help="scale durations and row counts (default 1)")
    parser.add_argument("--rounds", type=int, help=f"rounds per workload (default {ROUNDS})")
    parser.add_argument("--only", metavar="NAME", action="append", help="rows containing NAME")
    parser.add_argument("--list", action="store_true", help="name the rows and stop")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the result here")
    parser.add_argument("--check", action="store_true", help="exit 1 when a target is missed")
    parser.add_argument("--one-core", action="store_true", help="keep to one core (Linux)")
    parser.add_argument("--dir", type=Path, help="where the databases go (a real disk)")
    args = parser.parse_args(argv)
    if args.scale is None:
        args.scale = QUICK_SCALE if args.quick else 1.0
    if args.rounds is None:
        args.rounds = QUICK_ROUNDS if args.quick else ROUNDS
    if args.rounds < 1 or args.scale <= 0:
        parser.error("--rounds must be at least 1 and --scale above 0")
    if args.one_core and not hasattr(os, "sched_setaffinity"):
        parser.error("--one-core needs a system that lets a process choose its cores")
    return args


def chosen(everything: Sequence[Workload], names: Sequence[str] | None) -> list[Workload]:
    """The workloads that have a row whose name contains one of `names`; all without names."""
    if not names:
        return [*everything]
    return [w for w in everything if any(n in row.name for row in w.rows for n in names)]


async def measure(selected: Sequence[Workload], scene: Scene) -> tuple[list[Sample], list[str]]:
    """Run the workloads one after the other and tell on stderr how far they are.

    Returns the samples, and the names of the workloads that broke: the others go on without.
    """
    samples: list[Sample] = []
    broken: list[str] = []
    for number, workload in enumerate(selected, 1):
        title = f"[{number}/{len(selected)}] {workload.rows[0].name}"
        start = time.perf_counter()
        print(title, end=" ", file=sys.stderr, flush=True)
        try:
            async for sample in workload.rounds(scene):
                samples.append(sample)
                print(".", end="", file=sys.stderr, flush=True)
        except Exception:  # noqa: BLE001 - told, and the exit status says so as well
            broken.append(workload.rows[0].name)
            print(" broke", file=sys.stderr)
            traceback.print_exc()
        else:
            print(f" {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
    return samples, broken


def main(argv: Sequence[str]) -> int:
    """Measure, print the table; the exit status says whether everything was measured."""
    args = arguments(argv)
    sys.path.append(str(PACKAGES / args.engine / "benchmarks"))
    suite: Any = importlib.import_module("suite")
    selected = chosen(suite.ALL, args.only)
    rows = [row for workload in selected for row in workload.rows]
    if args.list:
        print("\n".join(row.name for row in rows))
        return 0
    if not selected:
        print(f"no row contains {args.only}; see --list", file=sys.stderr)
        return 2
    if args.one_core:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    start = time.perf_counter()
    with suite.scene(args.dir, rounds=args.rounds, scale=args.scale) as scene:
        samples, broken = asyncio.run(measure(selected, scene))
        prices = asyncio.run(suite.prices(scene))
        where = {**report.where(), **suite.where(scene)}
    lines = report.summarise_all(rows, samples)
    seconds = time.perf_counter() - start
    print(report.table(lines))
    print(
        f"\nmedians of {args.rounds} interleaved rounds, scale {args.scale:g}, {seconds:.0f} s; "
        + ", ".join(f"{key} {value}" for key, value in where.items())
    )
    cores = "one core" if args.one_core else f"{os.cpu_count()} cores"
    for what, price in prices.items():
        print(f"{what}: {price * 1e6:.0f} us on {cores}")
    if args.json:
        document = {"where": where, "scale": args.scale, "seconds": seconds, "prices": prices}
        report.write_json(args.json, lines, document)
    missed = [line.name for line in lines if line.ok is False]
    if missed:
        print(f"{len(missed)} missed: " + "; ".join(missed))
    if broken:
        print(f"{len(broken)} not measured: " + "; ".join(broken))
    return 1 if broken or (args.check and missed) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
