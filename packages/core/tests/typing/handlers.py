"""What the type checker has to know of handlers. Checked by mypy, run by nobody.

An ignored error that is no error is one (`warn_unused_ignores`): so each comment below says
that the line beside it must not pass.
"""

from typing import assert_type

from alkstore_core import Job, JobHandle, Store, StreamEvent, TxHandle
from alkstore_core.worker import App, CallNext, Consumer, OutboxWorker, Retry, Runner, Worker, run

app = App()


async def of_jobs(handle: JobHandle, call_next: CallNext) -> object:
    """A middleware of jobs."""
    return await call_next()


async def of_events(event: StreamEvent, call_next: CallNext) -> None:
    """A middleware of events."""
    await call_next()


@app.handler("mail", middlewares=[of_jobs])
def plain(mail: dict[str, str], job: Job) -> int:
    """A plain function."""
    raise Retry(mail["to"], delay=job.attempts)


@app.consumer("orders", "totals", on_poison="skip", middlewares=[of_events])
async def count(order: dict[str, str], tx: TxHandle) -> None:
    """An async one."""


async def decorated(store: Store, job: Job) -> None:
    """A decorator gives its function back as it was."""
    assert_type(plain({"to": "ada"}, job), int)
    plain(5, job)  # type: ignore[arg-type]
    assert_type(app.runners(store), list[Runner])
    await app.run(store, schedules=False)


async def by_hand(store: Store) -> None:
    """Runners go together; middlewares belong to what they wrap."""
    await run(
        Worker(store, store.queue("mail"), plain, timeout=0.5),
        OutboxWorker(store, store.outbox("hooks"), plain),
        Consumer(store, store.stream("orders"), "totals", count, max_attempts=3),
        schedules=store,
    )
    Worker(store, "mail", plain, middlewares=[of_events])  # type: ignore[list-item]
    Worker(store, "mail", 5)  # type: ignore[arg-type]
    Consumer(store, "s", "c", count, on_poison="ignore")  # type: ignore[arg-type]
