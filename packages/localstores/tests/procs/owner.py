"""Own a state directory and serve it, until killed: owner.py DIRECTORY PORT DRIVER AHEAD.

The queues' time is AHEAD milliseconds before the host's, which is how leases end early.
"""

import asyncio
import sys
import time

from alkstore_localstores.owner.owner import QueueOwner
from alkstore_localstores.owner.server import serving


async def main(directory, port, driver, ahead) -> None:
    """Say where, as a line."""

    def clock() -> int:
        return time.time_ns() // 1_000_000 + int(ahead)

    async with (
        QueueOwner(directory, driver=driver, clock=clock) as owner,
        serving(owner, port=int(port)) as address,
    ):
        sys.stdout.write(f'["ok", "{address}"]\n')
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
