"""A census of the standard library: every alkstore mechanism on real input, then an audit.

One job for each source file of this interpreter's standard library; three worker processes, one
of them killed half way; at the end nothing is missing and nothing is there twice. The exit status
says whether that held. README.md tells the rest.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from alkstore_sqlite import SqliteStore
from conduct import Conductor
from counting import Counts, count_file, find_sources, standard_library
from evidence import Evidence, Story, gather
from fleet import ChildDiedError, Fleet
from screen import BOLD, Row, Screen
from tables import application_engine
from verdict import judge

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine


FEWEST = 100
AUDIT_S = 60  # for reading back what was written; a healthy run takes a blink


class Census:
    """One run, and what came of it."""

    def __init__(self, options: argparse.Namespace, home: Path) -> None:
        self.began = time.monotonic()
        self.screen = Screen()
        self.story = Story()
        self.root = standard_library()
        self.sources = find_sources(self.root, options.limit)
        self.database = home / "census.db"
        self.deadline: float = options.deadline
        self.direct_s = 0.0

    async def run(self) -> bool:
        """Take the census, audit it, show it, and say whether all of it held."""
        asyncio.get_running_loop().add_signal_handler(
            signal.SIGTERM, signal.raise_signal, signal.SIGINT
        )
        python = f"{platform.python_implementation()} {platform.python_version()}"
        total, size = len(self.sources), sum(self.sources.values()) / 1e6
        self.screen.line(
            f"A census of {python}'s standard library: {total:,} files, {size:.1f} MB", BOLD
        )
        async with (
            SqliteStore(self.database) as store,
            application_engine(self.database) as engine,
        ):
            trouble = await self.take(store, engine)
            direct = await self.count_directly()
            async with asyncio.timeout(AUDIT_S):
                evidence = await gather(store, engine, self.story)
        checks = judge(evidence, direct)
        if trouble:
            checks.insert(0, Row(good=False, name="the run", value=trouble))
        held = all(check.good for check in checks)
        verdict = "Every promise held" if held else "NOT every promise held"
        self.screen.table((verdict, checks), ("How it went", self.numbers(evidence)))
        return held

    async def take(self, store: SqliteStore, engine: AsyncEngine) -> str | None:
        """Take the census within the deadline; return what kept us from it, if anything did."""
        try:
            async with asyncio.timeout(self.deadline), Fleet(self.database.parent) as fleet:
                conductor = Conductor(store, engine, fleet, self.screen, self.story)
                await fleet.guard(conductor.take(self.database, self.root, self.sources))
        except TimeoutError:
            return f"was not over after {self.deadline:g} s"
        except ChildDiedError as death:
            return str(death)
        finally:
            self.screen.clear()
        return None

    async def count_directly(self) -> dict[str, Counts]:
        """The same count by one process, one file after the other, with nothing in between."""
        direct: dict[str, Counts] = {}
        began = time.monotonic()
        for path in self.sources:
            direct[path] = await asyncio.to_thread(count_file, self.root, path)
            self.screen.advance(len(direct), len(self.sources), "counted directly, for the audit")
        self.screen.clear()
        self.direct_s = time.monotonic() - began
        return direct

    def numbers(self, evidence: Evidence) -> list[Row]:
        """What one likes to know beside the verdict."""
        total, story = len(self.sources), self.story
        values = {}
        if story.seconds:
            values["throughput"] = f"{total / story.seconds:,.0f} files/s, each one durable"
        values["direct count"] = f"{total / self.direct_s:,.0f} files/s by one process, not stored"
        if story.latency:
            values["wake latency"] = (
                f"{story.latency.median:.2f} ms median, {story.latency.p95:.2f} ms p95 "
                "to another process"
            )
        values["redeliveries"] = f"{len(evidence.redeliveries)}"
        values["duration"] = f"{time.monotonic() - self.began:.1f} s"
        return [Row(None, name, value) for name, value in values.items()]


def main() -> int:
    """Run, clean up, and return the exit status: 0 held, 1 did not, 130 interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--limit", type=int, metavar="N", help=f"count the first N files only, at least {FEWEST}"
    )
    parser.add_argument("--deadline", type=float, default=150, metavar="S", help="give up then")
    parser.add_argument("--keep", action="store_true", help="keep the database, say where it is")
    options = parser.parse_args()
    if options.limit is not None and options.limit < FEWEST:
        parser.error(f"fewer than {FEWEST} files are done before anything can be killed")
    home = Path(tempfile.mkdtemp(prefix="stdlib-census-"))
    try:
        return 0 if asyncio.run(Census(options, home).run()) else 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("\ninterrupted")
        return 130
    finally:
        if options.keep:
            print(f"The database is {home / 'census.db'}")
        else:
            shutil.rmtree(home)


if __name__ == "__main__":
    raise SystemExit(main())
