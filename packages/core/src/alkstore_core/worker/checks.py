"""What a worker is made of: checked where it is made, with an error that says what to pass."""

from __future__ import annotations

from alkstore_core.outboxes import Outbox
from alkstore_core.queues import JobSource


def check_options(concurrency: object, timeout: object, grace: object) -> None:
    """The numbers are numbers, and in range but for `grace`, which its runner checks."""
    if not isinstance(concurrency, int):
        raise TypeError(f"concurrency must be an int, not {concurrency!r}")
    if concurrency < 1:
        raise ValueError(f"concurrency must be at least 1, not {concurrency}")
    if timeout is not None:
        if not isinstance(timeout, (int, float)):
            raise TypeError(f"timeout must be a number of seconds or None, not {timeout!r}")
        if not timeout > 0:
            raise ValueError(f"timeout must be above 0 seconds, not {timeout}")
    if not isinstance(grace, (int, float)):
        raise TypeError(f"grace must be a number of seconds, not {grace!r}")


def check_queue(queue: object) -> None:
    """It is a queue or the name of one."""
    if isinstance(queue, Outbox):
        raise TypeError(f"a Worker runs a queue: for outbox {queue.name!r} make an OutboxWorker")
    if not isinstance(queue, (str, JobSource)):
        raise TypeError(f"queue must be a queue or its name, not {queue!r}")


def check_outbox(outbox: object) -> None:
    """It is an outbox or the name of one."""
    if not isinstance(outbox, (str, Outbox)):
        raise TypeError(
            f"an OutboxWorker runs an outbox, or takes its name, not {outbox!r}; for a queue "
            "make a Worker"
        )
