"""Programs that end badly, or well: `endings.py PATH HOW`."""

import asyncio
import gc
import signal
import sys
import threading

from wire import say

from alkstore_sqlite import SqliteStore

kept = []

# A shell's background jobs, and so a CI's, are begun with SIGINT ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)


def be_patient() -> None:
    """In development mode a loaded machine alone makes asyncio complain of slow callbacks."""
    asyncio.get_running_loop().slow_callback_duration = 10


async def in_full_use(path):
    """An open store with everything that could keep a program from ending."""
    store = SqliteStore(path)
    await store.open()
    kept.append(store)
    await store.queue("x").enqueue_many([1, 2, 3])
    kept.append(await store.queue("x").claim_one("me"))
    kept.append(await store.listen("x"))
    kept.append(await store.stream("x").subscribe("me"))
    kept.append(asyncio.create_task(kept[-1].recv()))
    kept.append(await store.try_lock("x", "me", 60))
    kept.append(await store.begin_tx())
    await kept[-1].enqueue_tx("x", 4)
    return store


async def forgets(path) -> None:
    """Return without a thought for the store."""
    await in_full_use(path)
    say("ending")


async def raises(path) -> None:
    """End with the program's own exception."""
    await in_full_use(path)
    say("ending")
    raise ZeroDivisionError("the program's own")


async def raises_inside(path) -> None:
    """End with an exception that leaves the store's own block."""
    async with SqliteStore(path) as store, store.listen("x"), store.begin_tx():
        say("ending")
        raise ZeroDivisionError("the program's own")


async def waits(path) -> None:
    """Be interrupted while nothing goes on."""
    await in_full_use(path)
    say("ending")
    await asyncio.Event().wait()


async def waits_inside(path) -> None:
    """Be interrupted inside the store's own block."""
    async with SqliteStore(path) as store, store.listen("x") as receiver:
        say("ending")
        await receiver.recv()


async def writes(path) -> None:
    """Be interrupted in the middle of many writes."""
    store = await in_full_use(path)
    await kept[-1].rollback()
    say("ending")
    while True:
        await asyncio.gather(*(store.queue("x").enqueue(1) for _ in range(20)))


async def exits(path) -> None:
    """Leave by `sys.exit` with a status."""
    await in_full_use(path)
    say("ending")
    sys.exit(7)


async def closes(path) -> None:
    """Use everything, close properly, and tell which threads are left."""
    be_patient()
    store = await in_full_use(path)
    transaction = kept.pop()
    await transaction.rollback()
    await store.with_tx(lambda tx: tx.publish_tx("x", 1))
    say("ending")
    await store.close()
    await asyncio.gather(*(task for task in kept if isinstance(task, asyncio.Task)))
    kept.clear()
    gc.collect()
    say("threads", *(thread.name for thread in threading.enumerate()))


async def closes_at_once(path) -> None:
    """Open and close, and tell which threads are left."""
    be_patient()
    async with SqliteStore(path):
        say("ending")
    say("threads", *(thread.name for thread in threading.enumerate()))


asyncio.run(globals()[sys.argv[2]](sys.argv[1]))
