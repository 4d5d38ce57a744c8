"""What log lines say beside their text: stable names and fields, for who collects them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alkstore_core.names import outbox_behind

if TYPE_CHECKING:
    from alkstore_core.worker.runs import Run


def event(name: str, **fields: Any) -> dict[str, Any]:
    """`extra` of a log line: its event's name and what it is about."""
    return {"event_name": f"alkstore.{name}", **fields}


class Events:
    """`extra` of the lines of one worker or consumer, which say whose they are."""

    def __init__(self, **whose: str) -> None:
        self._whose = whose

    def __call__(self, name: str, **fields: Any) -> dict[str, Any]:
        """A line's."""
        return event(name, **self._whose, **fields)


def job_event(name: str, run: Run, **fields: Any) -> dict[str, Any]:
    """`extra` of a log line about one job."""
    job = run.handle.job
    return event(
        name,
        **source(job.queue),
        job_id=job.id,
        attempt=job.attempts,
        max_attempts=job.max_attempts,
        worker_id=job.worker_id,
        **fields,
    )


def source(queue: str) -> dict[str, str]:
    """A queue's name, or that of the outbox it stands behind, each under its own field."""
    outbox = outbox_behind(queue)
    return {"queue": queue} if outbox is None else {"outbox": outbox}
