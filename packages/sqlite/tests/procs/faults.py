"""Meet a file that cannot be written, then one that can; each prints what the store did.

faults.py readonly PATH    rights are those of an ordinary user, whoever runs this
faults.py full PATH        no file may grow beyond 400 KiB until enqueues have failed
"""

import asyncio
import ctypes
import resource
import signal
import sys

from wire import Lines, say

from alkstore_core import DatabaseError
from alkstore_sqlite import SqliteStore


def drop_capabilities() -> None:
    """Even root has to obey file modes from here on."""
    version_3 = 0x20080522
    header = (ctypes.c_uint32 * 2)(version_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.capset(header, nothing) != 0:
        raise OSError(ctypes.get_errno(), "capset")


async def readonly(path) -> None:
    """Open and write, before and after the test repairs the rights."""
    drop_capabilities()
    lines = Lines(0)
    store = SqliteStore(path)
    try:
        await store.open()
        await store.queue("work").enqueue("tea")
    except DatabaseError as error:
        say("refused", str(error))
    else:
        say("accepted")
    await lines.next()
    # `open` on an open store does nothing; on one that failed to open it tries again.
    await store.open()
    say("enqueued", await store.queue("work").enqueue("tea"))
    await store.close()


async def full(path) -> None:
    """Enqueue until the disk is full, then again when it is not."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    async with SqliteStore(path) as store:
        queue = store.queue("work")
        resource.setrlimit(resource.RLIMIT_FSIZE, (400 << 10, hard))
        refused = 0
        for number in range(400):
            payload = {"number": number, "ballast": "x" * 2000}
            try:
                if number % 2:
                    job_id = await queue.enqueue(payload)
                else:
                    async with store.transaction() as tx:
                        job_id = await tx.enqueue_tx("work", payload)
            except DatabaseError:
                refused += 1
            else:
                say("kept", job_id, number)
        say("refused", refused)
        say("readable", len(await queue.jobs(limit=1000)))
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        for number in range(400, 410):
            say("kept", await queue.enqueue({"number": number}), number)
            await store.with_tx(lambda tx: tx.publish_tx("work", 1))


asyncio.run({"readonly": readonly, "full": full}[sys.argv[1]](*sys.argv[2:]))
