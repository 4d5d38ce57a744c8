"""How the objects of one blocking store reach the asynchronous ones behind them."""

from __future__ import annotations

import functools
import warnings
import weakref
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from alkstore_core.errors import Closed
from alkstore_core.runtime import quietly
from alkstore_core.sync.calls import Call
from alkstore_core.sync.portal import Portal, attach, detach, exclusively

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from alkstore_core.store import Store

P = ParamSpec("P")
T = TypeVar("T")
W = TypeVar("W")


class Bridge:
    """Held by a blocking store and by all that came from it.

    When the last of them is lost while the store is open, the store is closed.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._portal: Portal | None = None
        self._begun = False
        self._lost: weakref.finalize[..., Bridge] | None = None

    def call(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Await `function(...)` on the loop, in the caller's context, and wait for its end.

        Raises:
            Closed: the store is not open.
            DatabaseError: called on that loop, or in a forked child.

        """
        return self._reach().make(Call(functools.partial(function, *args, **kwargs)))

    def take(
        self,
        work: Callable[[], Awaitable[T]],
        unseen: Callable[[T], Awaitable[object]],
        wrap: Callable[[T], W],
    ) -> W:
        """As `call`; what an interrupted caller never got to see is given to `unseen`.

        Others see what `wrap` made of it, on the loop: between the end of the wait and the
        caller nothing is called, since CPython may raise an interruption after each call.
        """

        async def both() -> tuple[T, W]:
            value = await work()
            return value, wrap(value)

        return self._reach().make(Call(both, lambda made: unseen(made[0])))[1]

    def finish(
        self,
        work: Callable[[], Awaitable[T]],
        after: Callable[[], Awaitable[object]],
    ) -> T:
        """As `call`, for what ends something: once asked for, the end comes.

        When the caller is interrupted `work` is cancelled, or never begun; then `after` is run,
        which ends what `work` has left. The interruption is raised after that.
        """
        call = Call(work, after=after)
        try:
            return self._reach().make(call)
        except Exception:
            raise
        except BaseException:
            if not call.begun:
                self._reach().make(Call(after))
            raise

    def open(self) -> None:
        """Open the store; on an open one nothing happens."""
        if self._portal is not None:
            self.call(self._store.open)
            return
        portal = attach(self._store)
        try:
            portal.make(Call(self._store.open))
        finally:
            # An interrupted one may be open all the same.
            self._settle(portal)

    def close(self) -> None:
        """Close the store; whoever calls it meanwhile waits for the same end."""
        if self._portal is None and self._begun:
            return
        if self._portal is not None and self._portal.forked:
            self._store.check()
        portal = attach(self._store)
        try:
            portal.make(Call(self._store.close, after=self._store.close))
        finally:
            self._begun = True
            self._settle(portal)

    def _reach(self) -> Portal:
        portal = self._portal
        if portal is not None and not portal.forked:
            return portal
        if not self._begun:
            raise Closed("the store is not open: use `with store` or call open() first")
        # It was closed, or this is a forked child: the store knows.
        self._store.check()
        raise Closed("the store is closed: construct and open a new one")

    def _settle(self, used: Portal) -> None:
        """Keep one hold on the portal while the store is open, and none else."""
        surplus = [used]
        with exclusively():
            if self._store.is_open and self._portal is None:
                self._portal = surplus.pop()
                self._begun = True
                self._lost = weakref.finalize(self, _lost, used, self._store)
                self._lost.atexit = False
            elif not self._store.is_open and self._portal is not None:
                surplus.append(self._portal)
                self._portal = None
                if self._lost is not None:
                    self._lost.detach()
        for portal in surplus:
            detach(portal, self._store)


def _lost(portal: Portal, store: Store) -> None:
    """Close, from whichever thread the collector runs in."""
    if portal.forked:
        return

    async def close() -> None:
        await quietly(store.close())
        detach(portal, store)

    portal.spawn(close)
    warnings.warn(
        f"a {type(store).__name__} was lost while it was open: close it, or use `with`",
        ResourceWarning,
        stacklevel=2,
    )
