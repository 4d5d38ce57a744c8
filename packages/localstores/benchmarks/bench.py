"""Rates of the local stores beside those of their bare driver doing the same statements.

    python packages/localstores/benchmarks/bench.py [--rounds 5] [--seconds 0.5] [--json FILE]

Both sides keep every commit on the disk (`synchronous=FULL`) and take turns, so that a noisy
machine is noisy for both; a ratio is the median over the rounds. With `--check` the exit status
tells whether each target was met.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import sqlite3
import statistics
import sys
import tempfile
import time
import tracemalloc
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import turso

from alkstore_localstores import LocalKv, kv_ops
from alkstore_localstores.formats import COMPILER
from alkstore_localstores.queue import LocalQueue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

VALUE = b"x" * 200
MESSAGE = {"task": "thumbnail", "image": 4711, "sizes": [64, 128, 256]}
ENCODED = json.dumps(MESSAGE, sort_keys=True, separators=(",", ":"))
SEND = (
    "INSERT INTO messages (payload_type, payload_data, enqueued_at, visible_at, attempt) "
    "VALUES ('json', ?, ?, ?, 0)"
)
CALLERS = 50
KEYS = 1000

# The least ratio to the bare driver, one at a time and with 50 callers.
TARGETS = {"sqlite3": (0.4, 5.0), "turso": (0.3, 3.0)}
GETS = 5000.0
"""A second, on the default driver."""


@contextlib.contextmanager
def bare(path: Path, driver: Any, *, multiprocess: bool) -> Iterator[Any]:
    """One connection of the driver itself, with the settings of the store's own."""
    if driver == "sqlite3":
        connection = sqlite3.connect(path, isolation_level=None)
    else:
        features = "multiprocess_wal" if multiprocess else None
        connection = turso.connect(str(path), experimental_features=features, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous=FULL")
        yield connection
    finally:
        connection.close()


def names() -> Iterator[str]:
    """Keys, over and over."""
    return itertools.cycle(f"key:{number:04}" for number in range(KEYS))


def bare_put(connection: Any) -> Callable[[], None]:
    """A put of the bare driver."""
    key = names()

    def put() -> None:
        given = {"name": next(key), "content": VALUE, "expiry": None, "fresh": uuid.uuid4().hex}
        request = COMPILER.request(kv_ops.PUT, given)
        connection.execute(request.sql, request.arguments)

    return put


def bare_get(connection: Any) -> Callable[[], None]:
    """A read of the bare driver."""
    key = names()

    def get() -> None:
        request = COMPILER.request(kv_ops.FIND, {"name": next(key)})
        connection.execute(request.sql, request.arguments).fetchall()

    return get


def bare_send(connection: Any) -> Callable[[], None]:
    """A send of the bare driver."""

    def send() -> None:
        now = time.time_ns() // 1_000_000
        connection.execute(SEND, (ENCODED, now, now))

    return send


def rate_of(call: Callable[[], None], seconds: float) -> float:
    """Calls a second, one after the other."""
    count, start = 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds:
        call()
        count += 1
    return count / spent


async def rate(call: Callable[[], Awaitable[Any]], seconds: float, callers: int = 1) -> float:
    """Calls a second of so many callers at the same time."""
    start = time.perf_counter()

    async def one() -> int:
        count = 0
        while time.perf_counter() - start < seconds:
            await call()
            count += 1
        return count

    done = sum(await asyncio.gather(*(one() for _ in range(callers))))
    return done / (time.perf_counter() - start)


class Report:
    """Lines as they come, and whether all targets were met."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.met = True

    def add(self, name: str, measure: float, unit: str, target: float | None, **more: Any) -> None:
        """Print and keep a line."""
        met = target is None or measure >= target
        self.met &= met
        wanted = "" if target is None else f"  (at least {target:,g}{'' if met else ': MISSED'})"
        rates = "  ".join(f"{key} {value:,.0f}/s" for key, value in more.items())
        print(f"{name:<34} {measure:>10,.2f} {unit:<6} {rates}{wanted}", flush=True)
        line = {"name": name, "measure": measure, "unit": unit, "target": target, "met": met}
        self.lines.append(line | more)


async def compare(
    report: Report,
    name: str,
    ours: Callable[[], Awaitable[Any]],
    theirs: Callable[[], None],
    options: argparse.Namespace,
    targets: tuple[float | None, float | None],
) -> None:
    """One caller and many, each beside the bare driver in the same round."""
    for callers, target in zip((1, CALLERS), targets, strict=True):
        rounds = []
        for _ in range(options.rounds):
            bare_rate = rate_of(theirs, options.seconds)
            rounds.append((await rate(ours, options.seconds, callers), bare_rate))
        ratio = statistics.median(a / b for a, b in rounds)
        rates = {
            "ours": statistics.median(a for a, _ in rounds),
            "bare": statistics.median(b for _, b in rounds),
        }
        report.add(f"{name}, {callers} at a time", ratio, "×", target, **rates)


async def measure(report: Report, driver: Any, home: Path, options: argparse.Namespace) -> None:
    """All workloads on one driver."""
    targets = TARGETS[driver]
    for side in ("ours", "bare"):
        async with (
            LocalKv(home / side, driver=driver) as kv,
            LocalQueue(home / side, driver=driver),
        ):
            await asyncio.gather(*(kv.put(key, VALUE) for key in itertools.islice(names(), KEYS)))
    key = names()
    async with LocalKv(home / "ours", driver=driver) as kv:
        with bare(home / "bare" / "localkv.sqlite", driver, multiprocess=True) as connection:
            await compare(
                report,
                f"{driver}: put",
                lambda: kv.put(next(key), VALUE),
                bare_put(connection),
                options,
                targets,
            )
            await compare(
                report,
                f"{driver}: get",
                lambda: kv.get(next(key)),
                bare_get(connection),
                options,
                (None, None),
            )
        gets = statistics.median(
            [await rate(lambda: kv.get(next(key)), options.seconds) for _ in range(options.rounds)]
        )
        report.add(
            f"{driver}: gets, 1 at a time", gets, "1/s", GETS if driver == "sqlite3" else None
        )
        await scan(report, driver, kv, options)
    async with LocalQueue(home / "ours", driver=driver) as queue:
        with bare(home / "bare" / "localqueue.sqlite", driver, multiprocess=False) as connection:
            await compare(
                report,
                f"{driver}: send",
                lambda: queue.send(MESSAGE),
                bare_send(connection),
                options,
                targets,
            )


async def scan(report: Report, driver: Any, kv: LocalKv, options: argparse.Namespace) -> None:
    """Read all keys of a large table, in memory that does not grow with it."""
    for first in range(0, options.keys, 5000):
        part = range(first, min(first + 5000, options.keys))
        await asyncio.gather(*(kv.put(f"scan:{number:07}", VALUE) for number in part))
    count, start = 0, time.perf_counter()
    async for _ in kv.scan("scan:"):
        count += 1
    report.add(
        f"{driver}: scan of {count:,} keys", count / (time.perf_counter() - start), "1/s", None
    )
    tracemalloc.start()
    peaks = []
    for wanted in (count // 10, count):
        tracemalloc.reset_peak()
        seen = 0
        async for _ in kv.scan("scan:"):
            seen += 1
            if seen == wanted:
                break
        peaks.append(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
    # 1 when ten times the keys take no more memory.
    report.add(f"{driver}: memory, a tenth to all", peaks[0] / peaks[1], "", 0.8)


async def main(options: argparse.Namespace) -> int:
    """Measure and print."""
    report = Report()
    for driver in options.driver or TARGETS:
        with tempfile.TemporaryDirectory(prefix="alkstore-bench-", dir=options.dir) as home:
            await measure(report, driver, Path(home), options)
    if options.json:
        Path(options.json).write_text(json.dumps({"lines": report.lines}, indent=2))  # noqa: ASYNC240
    return 0 if report.met or not options.check else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--driver", action="append", choices=[*TARGETS])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each side in each round")
    parser.add_argument("--keys", type=int, default=100_000, help="of the table that is scanned")
    parser.add_argument("--dir", help="where to put the files; a disk, not memory")
    parser.add_argument("--json", help="write the lines to a file as well")
    parser.add_argument("--check", action="store_true", help="fail when a target was missed")
    sys.exit(asyncio.run(main(parser.parse_args())))
