"""The event loop that all blocking calls of a process share, in a thread of its own."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import threading
from collections import Counter
from typing import TYPE_CHECKING, Final, TypeVar

from alkstore_core.errors import Closed, DatabaseError
from alkstore_core.runtime import quietly

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Awaitable, Callable

    from alkstore_core.store import Store
    from alkstore_core.sync.calls import Call

T = TypeVar("T")

GRACE_S: Final = 1.0
"""How long calls under way may take once every store is closed."""

EXIT_S: Final = 10.0
"""How long stores that nobody closed may hold up the interpreter's end."""

_log = logging.getLogger(__name__)


class Portal:
    """An event loop in a daemon thread. It lives as long as a store is open on it.

    One for all stores: those that are used together, as `copy_store` does, have to share a loop.
    """

    def __init__(self) -> None:
        self.stores: Counter[Store] = Counter()
        self.forked: bool = False
        self._loop = asyncio.new_event_loop()
        # Reentrant: a signal's handler may call in the midst of a call.
        self._gate = threading.RLock()
        self._ending = False
        # asyncio itself holds tasks weakly: one that nobody else holds may be collected midway.
        self._spawned: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._serve, name="alkstore-sync", daemon=True)
        self._thread.start()

    def make(self, call: Call[T]) -> T:
        """Have a call's work done on the loop and wait for its end; see `Call`.

        Raises:
            Closed: the loop has ended.
            DatabaseError: called on the loop itself, which would wait for ever.

        """
        if threading.current_thread() is self._thread:
            raise DatabaseError(
                "this blocking call was made on the event loop that would have to serve it, and "
                "would wait for itself for ever: there await the store's own calls, or make this "
                "one in another thread"
            )
        return call.make(self._submit)

    def spawn(self, work: Callable[[], Awaitable[object]]) -> None:
        """Run `work` some time, without waiting. For the collector: takes no lock, never fails."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._start, work)

    def end(self, within: float | None = None) -> None:
        """No call is taken any more; those under way end or are cancelled."""
        with self._gate:
            if not self._ending:
                self._ending = True
                self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(within)

    def close_all(self, within: float) -> None:
        """Close what is open, as far as that can be done in time, and end."""
        closed = threading.Event()

        async def close() -> None:
            await asyncio.gather(*(quietly(store.close()) for store in tuple(self.stores)))
            closed.set()

        self.spawn(close)
        closed.wait(within)
        self.end(within)

    def _start(self, work: Callable[[], Awaitable[object]]) -> None:
        task = self._loop.create_task(_await(work))
        self._spawned.add(task)
        task.add_done_callback(self._spawned.discard)

    def _submit(self, callback: Callable[[], None], context: contextvars.Context) -> None:
        # Under the gate: what is taken in before the end is run before the end.
        with self._gate:
            if self._ending:
                raise Closed("the store is closed: construct and open a new one")
            self._loop.call_soon_threadsafe(callback, context=context)

    def _serve(self) -> None:
        while not self._ending:
            try:
                self._loop.run_forever()
            except BaseException:  # noqa: BLE001 - logged, with its traceback.
                # Of somebody's task, which raised what asyncio lets end a loop; others go on.
                _log.exception("a task on the loop of blocking calls was ended")
        try:
            self._loop.run_until_complete(_drain())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()


async def _await(work: Callable[[], Awaitable[object]]) -> None:
    await work()


async def _drain() -> None:
    """Let what was begun come to its end; cancel what does not."""
    for cancels in (False, True):
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if not left:
            return
        for task in left if cancels else ():
            task.cancel()
        await asyncio.wait(left, timeout=GRACE_S)


# -- the one of this process --------------------------------------------------------------


class _Process:
    """The portal of this process, if any store is open on it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.portal: Portal | None = None
        self.parents: list[Portal] = []


_process = _Process()


def exclusively() -> contextlib.AbstractContextManager[object]:
    """One thread at a time; never held while anything is waited for."""
    return _process.lock


def attach(store: Store) -> Portal:
    """The portal, which serves this store until as many calls of `detach`."""
    with _process.lock:
        if _process.portal is None:
            _process.portal = Portal()
        _process.portal.stores[store] += 1
        return _process.portal


def detach(portal: Portal, store: Store) -> None:
    """The store needs it no more; with the last one the portal ends."""
    with _process.lock:
        portal.stores[store] -= 1
        portal.stores = +portal.stores
        if portal.stores:
            return
        if _process.portal is portal:
            _process.portal = None
    portal.end()


def _after_fork() -> None:
    # The thread is the parent's, and a lock may have been held by another of its threads. The
    # loop must not be collected: to close it here would unhook it from the parent's selector.
    if _process.portal is not None:
        _process.portal.forked = True
        _process.parents.append(_process.portal)
    _process.lock = threading.RLock()
    _process.portal = None


def _at_exit() -> None:
    if _process.portal is not None:
        _process.portal.close_all(EXIT_S)


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
