"""The handle of a claimed job, for code that blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from alkstore_core.jobs import JobHandle
    from alkstore_core.sync.bridge import Bridge
    from alkstore_core.values import Job


@final
class SyncJobHandle:
    """One claim of a job, as `JobHandle`; usable from any thread."""

    __slots__ = ("_bridge", "_handle")

    def __init__(self, bridge: Bridge, handle: JobHandle) -> None:
        self._bridge = bridge
        self._handle = handle

    @property
    def wrapped(self) -> JobHandle:
        """The asynchronous handle."""
        return self._handle

    @property
    def job(self) -> Job:
        """The job as it was claimed."""
        return self._handle.job

    @property
    def settled(self) -> bool:
        """Whether a settling call was answered, with whatever answer, or a release was begun."""
        return self._handle.settled

    def ack(self) -> bool:
        """The job is done: it is deleted."""
        return self._bridge.call(self._handle.ack)

    def retry(self, err: str | BaseException | None = None, delay: int | None = None) -> bool:
        """Try the job again later; when its attempts are used up it is dead."""
        return self._bridge.call(self._handle.retry, err, delay)

    def fail(self, err: str | BaseException | None = None) -> bool:
        """The job is dead at once, with `err` or `"failed"` as its `last_error`."""
        return self._bridge.call(self._handle.fail, err)

    def heartbeat(self, extend: int) -> bool:
        """The claim now ends `extend` seconds from now, whatever was left of it. Repeatable."""
        return self._bridge.call(self._handle.heartbeat, extend)

    def release(self) -> bool:
        """Give the job back as if it had never been claimed, attempt included."""
        return self._bridge.call(self._handle.release)
