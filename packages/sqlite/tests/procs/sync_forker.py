"""A server that forks its workers around a blocking store: `sync_forker.py PATH [late]`."""

import os
import signal
import sys
import warnings

from wire import say

from alkstore_core import DatabaseError
from alkstore_core.sync import SyncStore
from alkstore_sqlite import SqliteStore

warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads is the very test


def early(path) -> None:
    """Open, fork, and call in the child."""
    with SyncStore(SqliteStore(path)) as store:
        store.queue("x").enqueue("before")
        child = os.fork()
        if not child:
            signal.alarm(20)
            try:
                store.queue("x").enqueue("child")
            except DatabaseError as error:
                say("child", error)
            sys.exit(0)
        os.waitpid(child, 0)
        store.queue("x").enqueue("after")
        say("parent", len(store.queue("x").jobs()))


def late(path) -> None:
    """Construct, fork three times, and open in each process."""
    store = SyncStore(SqliteStore(path))
    for _ in range(3):
        if not os.fork():
            signal.alarm(20)
            with store:
                store.queue("x").enqueue("child")
                say("child", "opened")
            sys.exit(0)
    for _ in range(3):
        os.wait()
    with store:
        store.queue("x").enqueue("parent")
        say("parent", len(store.queue("x").jobs()))


(late if sys.argv[2:] == ["late"] else early)(sys.argv[1])
