"""Copy one file to another; say the counts at the end, unless killed.

With a step, a number and a delay a thread kills the process so many seconds after the step has
told its progress for the so-manieth time: anywhere in what follows.
"""

import asyncio
import os
import signal
import sys
import threading

from wire import say

from alkstore_core import copy_store
from alkstore_sqlite import SqliteStore


def killer(step, count, delay):
    """Something to be told the progress."""
    left = int(count)

    def told(at) -> None:
        nonlocal left
        left -= at.step == step
        if left == 0:
            threading.Timer(float(delay), os.kill, (os.getpid(), signal.SIGKILL)).start()
            left = -1

    return told


async def main(source, target, batch, *kill) -> None:
    """Copy until killed, or to the end."""
    moved = []
    progress = killer(*kill) if kill else None
    async with SqliteStore(source) as before, SqliteStore(target) as after:
        report = await copy_store(
            before, after, map_to=moved.append, progress=progress, batch=int(batch)
        )
    say("whole", report.jobs, report.dead_jobs, report.events, len(moved))


asyncio.run(main(*sys.argv[1:]))
