"""Named locks with a lease."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, final

from alkstore_core.integers import check_duration
from alkstore_core.runtime import quietly

if TYPE_CHECKING:
    from types import TracebackType

    from alkstore_core.runtime import Runtime


@final
class Lock:
    """A lease on a name. It lapses silently unless renewed in time.

    The handle is fenced by `token`: once its lease has lapsed its calls give `False` and change
    nothing, whoever holds the lock by then. Pass the token on to what the lock protects, to
    refuse a late holder there too: tokens only grow. `async with` releases at the end.
    """

    __slots__ = ("_name", "_owner", "_runtime", "_token")

    def __init__(self, runtime: Runtime, name: str, owner: str, token: int) -> None:
        self._runtime = runtime
        self._name = name
        self._owner = owner
        self._token = token

    @property
    def name(self) -> str:
        """What is locked."""
        return self._name

    @property
    def owner(self) -> str:
        """Who holds it."""
        return self._owner

    @property
    def token(self) -> int:
        """The fencing token, strictly growing through the whole database."""
        return self._token

    async def renew(self, ttl: int) -> bool:
        """The lease now ends `ttl` seconds from now; `False` when it was no longer live.

        Raises:
            DatabaseError: the database refused, or `ttl` is not an i64 above 0.
            Closed: the store is not open.

        """
        seconds = check_duration("ttl", ttl)
        if self._runtime.slot.taken:
            await self._runtime.turn("renew", urgent=True)
        return await self._runtime.session().renew(self._name, self._token, seconds)

    async def release(self) -> bool:
        """The lock is free; `False` when the lease was no longer live.

        Raises:
            DatabaseError: the database refused.
            Closed: the store is not open.

        """
        if self._runtime.slot.taken:
            await self._runtime.turn("release")
        return await self._runtime.session().release_lock(self._name, self._token)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc is None:
            await self._leave()
        else:
            await quietly(self._leave())

    async def _leave(self) -> None:
        # Here, not in the task that ends the release: there the holder would not be recognised.
        self._runtime.slot.check(
            "leaving the lock's block", "leave it after the transaction has ended"
        )
        await self._runtime.finish(self.release())
