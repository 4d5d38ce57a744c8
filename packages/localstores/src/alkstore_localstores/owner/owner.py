"""`QueueOwner`: opens, serves and deletes the queues of a state directory."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Self

from alkstore_core.completion import to_the_end
from alkstore_localstores.errors import (
    INVALID_INPUT,
    LOCAL_QUEUE_OWNER_NOT_READY,
    LocalStoreError,
)
from alkstore_localstores.owner.state import OwnerLock, StateDirectory, check_resource
from alkstore_localstores.owner.tokens import Tokens
from alkstore_localstores.queue import LocalQueue

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from types import TracebackType

    from alkstore_localstores.drivers import DriverName
    from alkstore_localstores.messages import QueueStats

_log = logging.getLogger(__name__)


class _Served:
    """A queue, and who is using it right now."""

    def __init__(self, queue: LocalQueue) -> None:
        self.queue = queue
        self.opening = asyncio.Lock()
        self.is_open = False
        self.running = 0
        self.idle = asyncio.Event()


class QueueOwner:
    """The one process that has the queues of a state directory open.

    `start` takes the directory's lock and opens every queue that is there; a queue that cannot
    be opened keeps none of the others from being served, and is tried again when it is asked
    for. Closing ends what is running first.

    Creations, deletions and closings are never left half done: a cancellation goes on when they
    have ended.
    """

    def __init__(
        self,
        state_dir: str | os.PathLike[str],
        *,
        driver: DriverName = "sqlite3",
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.state = StateDirectory(state_dir)
        self.tokens = Tokens(self.state.tokens)
        self._driver: DriverName = driver
        self._clock = clock
        self._held: OwnerLock | None = None
        self._is_started = False
        self._served: dict[str, _Served] = {}
        # Creations and deletions, one after the other.
        self._changing = asyncio.Lock()

    @property
    def resources(self) -> list[str]:
        """The queues there are, in order."""
        return sorted(self._served)

    async def start(self) -> None:
        """Own the state directory, which is made when it is missing, and open its queues.

        Raises:
            LocalStoreError: BINDING_SETUP_FAILED: another process owns it;
                LOCAL_FILESYSTEM_ERROR: it cannot be used.

        """
        # Not in a thread: what that takes after a cancellation nobody would ever give up.
        self._held = OwnerLock(self.state)
        try:
            found = await asyncio.to_thread(self.state.resources)
            await asyncio.to_thread(self._finish_deletions, found)
            self._is_started = True
            for resource in found:
                await self._serve(resource)
            for resource in found:
                with contextlib.suppress(LocalStoreError):
                    async with self.use(resource):
                        pass
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End what is running, close the queues, and give the state directory up. Idempotent."""
        self._is_started = False
        await to_the_end(asyncio.create_task(self._close()))

    async def _close(self) -> None:
        async with self._changing:
            for resource in list(self._served):
                await self._retire(self._served[resource])
                del self._served[resource]
            held, self._held = self._held, None
            if held is not None:
                held.release()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def create(self, resource: str) -> str:
        """Make a queue, or find it there; return its token, the same one each time.

        Raises:
            LocalStoreError: INVALID_INPUT: this is no resource id; BINDING_SETUP_FAILED: a
                directory of an older release is in the way, or the file there is no queue of
                ours; LOCAL_FILESYSTEM_ERROR: the disk refused.

        """
        check_resource(resource)
        return await to_the_end(asyncio.create_task(self._create(resource)))

    async def _create(self, resource: str) -> str:
        async with self._changing:
            self._check_started()
            await asyncio.to_thread(self.state.check_legacy, resource)
            served = self._served.get(resource)
            if served is None:
                await asyncio.to_thread(self._revoke_deleted, resource)
                served = self._make(resource)
            try:
                await self._open(resource, served)
                token = await asyncio.to_thread(self.tokens.issue, resource)
            except BaseException:
                if resource not in self._served:
                    await served.queue.close()
                raise
            self._served[resource] = served
            return token

    async def delete(self, resource: str) -> None:
        """Delete a queue with all that is in it.

        It takes no new operations from now on; those running end first. Its token and every
        handle of it are revoked, then its directory is removed.

        Raises:
            LocalStoreError: INVALID_INPUT: there is no such queue; LOCAL_FILESYSTEM_ERROR: the
                disk refused; what is left is deleted at the owner's next start.

        """
        check_resource(resource)
        await to_the_end(asyncio.create_task(self._delete(resource)))

    async def _delete(self, resource: str) -> None:
        async with self._changing:
            self._check_started()
            # From here on it answers like an unknown one.
            self.tokens.forget(resource)
            served = self._served.pop(resource, None)
            if served is None and resource not in await asyncio.to_thread(self.state.resources):
                raise LocalStoreError(INVALID_INPUT, f"there is no queue {resource!r}")
            if served is not None:
                await self._retire(served)
            doomed = await asyncio.to_thread(self.state.set_aside, resource)
            await asyncio.to_thread(self.tokens.revoke, resource)
            await asyncio.to_thread(self.state.delete, doomed)

    async def stats(self, resource: str) -> QueueStats:
        """Count a queue's messages.

        Raises:
            LocalStoreError: as `use`, and what the queue raises.

        """
        async with self.use(resource) as queue:
            return await queue.stats()

    def use(self, resource: str) -> Use:
        """A block that has the queue, which is not deleted before the block ends.

        Entering it raises:
            LocalStoreError: INVALID_INPUT: there is no such queue, or not any more;
                LOCAL_QUEUE_OWNER_NOT_READY: it cannot be opened, with the reason.

        """
        return Use(self, resource)

    def _found(self, resource: str) -> _Served:
        self._check_started()
        served = self._served.get(resource)
        if served is None:
            raise LocalStoreError(INVALID_INPUT, f"there is no queue {resource!r}")
        return served

    def _finish_deletions(self, found: list[str]) -> None:
        """End what a crash has cut short.

        Other tokens without a queue stay: a directory that is not there now, as on a disk that
        is not mounted, may be there next time.
        """
        for resource, doomed in self.state.set_aside_before():
            if resource not in found:
                self.tokens.revoke(resource)
            try:
                self.state.delete(doomed)
            except LocalStoreError as error:
                _log.warning("a deleted queue still takes room: %s", error)

    def _revoke_deleted(self, resource: str) -> None:
        """Revoke what a deletion that failed half-way left: its queue's token is not another's.

        Before there is a directory again, which a start takes the token of.
        """
        if any(resource == deleted for deleted, _ in self.state.set_aside_before()):
            self.tokens.revoke(resource)

    def _check_started(self) -> None:
        if not self._is_started:
            raise LocalStoreError(
                LOCAL_QUEUE_OWNER_NOT_READY,
                f"the owner of {self.state.path} is starting, stopping or not started",
                hint="try again in a moment",
            )

    def _make(self, resource: str) -> _Served:
        directory = self.state.owned(resource)
        return _Served(LocalQueue(directory, driver=self._driver, clock=self._clock))

    async def _serve(self, resource: str) -> None:
        try:
            # A queue that was moved here by hand, as from an older release, has no token yet.
            await asyncio.to_thread(self.tokens.issue, resource)
        except LocalStoreError as error:
            # It is listed all the same. Over HTTP nobody gets in where no token is known.
            _log.error("queue %r is not served over HTTP: %s", resource, error)
        self._served[resource] = self._make(resource)

    async def _open(self, resource: str, served: _Served) -> None:
        async with served.opening:
            if not served.is_open:
                await asyncio.to_thread(self.state.check_legacy, resource)
                await served.queue.open()
                served.is_open = True

    async def _open_again(self, resource: str, served: _Served) -> None:
        try:
            await self._open(resource, served)
        except LocalStoreError as error:
            _log.warning("queue %r cannot be opened: %s", resource, error)
            raise LocalStoreError(
                LOCAL_QUEUE_OWNER_NOT_READY,
                f"queue {resource!r} cannot be opened: {error.message}",
                hint=error.hint,
                source=error,
            ) from error

    async def _retire(self, served: _Served) -> None:
        """Wait for those who use it, then close it; nobody new can find it any more."""
        while served.running:
            served.idle.clear()
            await served.idle.wait()
        await served.queue.close()


class Use:
    """What `QueueOwner.use` gives."""

    __slots__ = ("_owner", "_resource", "_served")

    def __init__(self, owner: QueueOwner, resource: str) -> None:
        self._owner = owner
        self._resource = resource

    async def __aenter__(self) -> LocalQueue:
        served = self._served = self._owner._found(self._resource)  # noqa: SLF001 - one class in two
        served.running += 1
        if not served.is_open:
            try:
                await self._owner._open_again(self._resource, served)  # noqa: SLF001
            except BaseException:
                self._leave()
                raise
        return served.queue

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        served = self._served
        served.running -= 1
        if not served.running:
            served.idle.set()
