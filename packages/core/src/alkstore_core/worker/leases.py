"""One live holder of a name, and others that stand by."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
from typing import TYPE_CHECKING

from alkstore_core.errors import DatabaseError
from alkstore_core.runtime import quietly
from alkstore_core.worker.alarm import Backoff
from alkstore_core.worker.logs import event
from alkstore_core.worker.runner import own_id
from alkstore_core.worker.runs import CUT_S

if TYPE_CHECKING:
    from alkstore_core.locks import Lock
    from alkstore_core.store import Store

_log = logging.getLogger(__name__)

LONGEST_NAME = 255


class Lease:
    """A lock that is kept as long as it is needed, or until that fails.

    Its name is the channel, too, on which a holder tells those who stand by that it has gone.
    """

    def __init__(self, store: Store, name: str, seconds: int) -> None:
        self._store = store
        self.name = name
        self.seconds = seconds
        # Never the caller's: two holders of one owner's name would both be given the lock.
        self._owner = own_id()
        self._lock: Lock | None = None
        self._reached = 0.0

    @property
    def live(self) -> bool:
        """Whether it is ours for another second."""
        return self._store.mark() < self._reached + self.seconds - CUT_S

    async def take(self) -> bool:
        """Whether it is ours now, for all its seconds."""
        lock = self._lock = await self._store.try_lock(self.name, self._owner, self.seconds)
        # What a former holder of this very object left behind is not refreshed by taking it.
        return lock is not None and await self._renew(lock)

    async def keep(self) -> str:
        """Renew at each third; returns why it is lost, a second before it would lapse."""
        lock = self._lock
        while lock is not None:
            await self._store.sleep_until(self._reached + self.seconds / 3)
            renewing = asyncio.ensure_future(self._renew_in_time(lock))
            left = self._store.sleep_until(self._reached + self.seconds - CUT_S)
            deadline = asyncio.ensure_future(left)
            try:
                await asyncio.wait((renewing, deadline), return_when=asyncio.FIRST_COMPLETED)
                if not renewing.done():
                    return "it could not be renewed in time"
                if not renewing.result():
                    break
            finally:
                renewing.cancel()
                deadline.cancel()
        return "its renewal was refused"

    def leave(self) -> None:
        """Let it lapse: what it stands for still goes on."""
        self._lock = None

    async def give_up(self) -> None:
        """Free it, and tell those who stand by; what fails there only makes them wait."""
        lock, self._lock = self._lock, None
        if lock is not None:
            await quietly(self._release(lock))

    async def _release(self, lock: Lock) -> None:
        if await lock.release():
            await self._store.notify(self.name)

    async def _renew_in_time(self, lock: Lock) -> bool:
        backoff = Backoff()
        while True:
            try:
                return await self._renew(lock)
            except DatabaseError as error:
                _log.warning(
                    "lock %r could not be renewed, trying again: %s",
                    *(self.name, error),
                    extra=event("lock.refused", lock=self.name),
                )
                await asyncio.sleep(backoff.take())

    async def _renew(self, lock: Lock) -> bool:
        mark = self._store.mark()
        renewed = await lock.renew(self.seconds)
        self._reached = mark if renewed else -math.inf
        return renewed


def lease_name(*parts: str) -> str:
    """A lock's name out of parts, the same in every process and unlike that of other parts."""
    escaped = "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)
    if len(escaped.encode()) <= LONGEST_NAME:
        return escaped
    return f"{parts[0]}/sha256:{hashlib.sha256(escaped.encode()).hexdigest()}"
