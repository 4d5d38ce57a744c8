"""A process with schedules: says "ready", then does what it is told, a line at a time.

"run" runs schedules until "stop" and says "running" and "stopped"; a lost leadership is taken
up again. "schedule NAME N QUEUE" puts one of N seconds and says "scheduled". The clock is a
second at which time stands still, or the file of a shared one.
"""

import asyncio
import sys

from wire import Lines, SharedClock, say

from alkstore_core import LeadershipLost, ManualClock, StopToken
from alkstore_sqlite import SqliteStore


async def run(store, stop) -> None:
    """Run schedules, whatever becomes of the leadership."""
    while not stop.stopped:
        try:
            await store.run_schedules(stop)
        except LeadershipLost:
            continue


async def main(path, time) -> None:
    """Follow the test's lines to their end."""
    lines = Lines(0)
    clock = ManualClock(start=int(time)) if time.isdigit() else SharedClock(time)
    stop = StopToken()
    running = None
    async with SqliteStore(path, clock=clock) as store:
        say("ready")
        while (line := await lines.next()) is not None:
            match line.split():
                case ["run"]:
                    running = asyncio.create_task(run(store, stop))
                    say("running")
                case ["schedule", name, seconds, queue]:
                    await store.schedule(name, f"@every {seconds}s", queue, name)
                    say("scheduled")
                case ["stop"]:
                    stop.stop()
                    await running
                    say("stopped")


asyncio.run(main(*sys.argv[1:]))
