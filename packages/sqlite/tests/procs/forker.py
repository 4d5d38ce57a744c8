"""Fork with an open store: the child is refused, the parent's store is unharmed.

Says "child WHAT" for each refusal in the child, then "parent JOBS".
"""

import asyncio
import gc
import os
import sys
import warnings

from wire import say

from alkstore_core import AlkstoreError
from alkstore_sqlite import SqliteStore

warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads is the very test

stores = []


async def attempt(call) -> None:
    """Make a call that has to end."""
    async with asyncio.timeout(3):
        await call()


def in_the_child(how) -> None:
    """Try to use the parent's store on a new event loop, as a forked worker would."""
    [store] = stores
    for call in (
        lambda: store.queue("x").enqueue("child"),
        lambda: store.queue("x").jobs(),
        store.begin_tx,
        lambda: store.listen("x"),
        store.close,
    ):
        try:
            asyncio.run(attempt(call))
        except AlkstoreError as error:
            say("child", "refused", error)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test is told
            say("child", "failed", repr(error))
        else:
            say("child", "allowed")
    if how == "drops":
        del store, call
        stores.clear()
        gc.collect()
    os._exit(0)


async def begin(path) -> None:
    """Use the store before the fork."""
    stores.append(SqliteStore(path))
    await stores[0].open()
    await stores[0].listen("x")
    await stores[0].queue("x").enqueue("before")
    async with stores[0].transaction() as tx:
        await tx.enqueue_tx("x", "before")


async def go_on(child) -> None:
    """Use the store beside and after the child."""
    [store] = stores
    for number in range(50):
        await store.queue("x").enqueue(number)
    await asyncio.to_thread(os.waitpid, child, 0)
    async with store.transaction() as tx:
        await tx.enqueue_tx("x", "after")
    say("parent", len(await store.queue("x").jobs()))
    await store.close()


def main(path, how) -> None:
    """Fork between two runs of the loop."""
    with asyncio.Runner() as runner:
        runner.run(begin(path))
        child = os.fork()
        if child == 0:
            in_the_child(how)
        runner.run(go_on(child))


main(*sys.argv[1:])
