"""Fork while somebody has, or had, a file open; the child then opens a file in its own way.

Arguments: the file, who has it open at the fork, and for each child how it opens which file.
Says "opened" or "refused ERROR" for each, then "parent JOBS".
"""

import asyncio
import os
import sys
import warnings
from pathlib import Path

from sqlalchemy import URL, create_engine
from sqlalchemy.ext.asyncio import create_async_engine
from wire import say

from alkstore_core import AlkstoreError
from alkstore_sqlite import SqliteStore, prepare_engine

warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads is the very test

kept = []


async def engine_use(path) -> None:
    """Connect with a prepared engine and leave the connection in its pool."""
    engine = create_async_engine(URL.create("sqlite+aiosqlite", database=str(path)))
    kept.append(prepare_engine(engine))
    async with engine.begin() as connection:
        await connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS mine (x)")


def sync_engine_use(path) -> None:
    """As `engine_use`, on a blocking engine."""
    engine = prepare_engine(create_engine(URL.create("sqlite", database=str(path))))
    kept.append(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS mine (x)")


async def store_use(path) -> None:
    """Open a store and enqueue."""
    store = SqliteStore(path)
    kept.append(store)
    await store.open()
    await store.queue("x").enqueue(1)


async def before(path, who) -> None:
    """Have the file open, or have had it open."""
    async with SqliteStore(path) as store:
        await store.queue("x").enqueue("before")
    match who:
        case "store":
            await store_use(path)
        case "engine":
            await engine_use(path)
        case "sync engine":
            sync_engine_use(path)
        case "closed store":
            await store_use(path)
            await kept[0].close()
        case "disposed engine":
            await engine_use(path)
            await kept[0].dispose()


async def in_the_child(path, how) -> None:
    """Open a file in the child."""
    other = Path(path).with_name(f"{how}.db")
    match how:
        case "store":
            await store_use(path)
        case "symbolic link":
            other.symlink_to(path)
            await store_use(other)
        case "hard link":
            other.hardlink_to(path)
            await store_use(other)
        case "engine":
            await engine_use(path)
        case "sync engine":
            sync_engine_use(path)
        case "other file":
            await store_use(other)


async def after(path) -> None:
    """The parent's store, or another one, works on."""
    if kept and isinstance(kept[0], SqliteStore) and kept[0]._runtime.is_open:
        await kept[0].queue("x").enqueue("after")
        await kept[0].close()
    async with SqliteStore(path) as store:
        say("parent", *(job.payload.decode() for job in await store.queue("x").jobs()))


def attempt(path, how) -> None:
    """Be the child."""
    try:
        asyncio.run(in_the_child(path, how))
    except AlkstoreError as error:
        say("refused", error)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the test is told
        say("failed", repr(error))
    else:
        say("opened")
    os._exit(0)


def main(path, who, *hows) -> None:
    """Fork between two runs of the loop, once for each way to open."""
    with asyncio.Runner() as runner:
        runner.run(before(path, who))
        for how in hows:
            child = os.fork()
            if child == 0:
                attempt(path, how)
            os.waitpid(child, 0)
        runner.run(after(path))


main(*sys.argv[1:])
