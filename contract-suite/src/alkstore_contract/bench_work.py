"""What `bench` has an engine do, through the public surface, and how it makes sure of it."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Final

from attrs import frozen

from alkstore_contract.harness import BENCH, BENCH_PAGE, BENCH_PAYLOAD

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from alkstore_contract.harness import RawWorkload
    from alkstore_core import Store

PRODUCERS = 50
WORKERS = 4
EVENTS = 10 * BENCH_PAGE
"""How many events a reader finds."""

FILL_AT_ONCE = 1_000


class UnmeasuredError(Exception):
    """What was timed is not the work that was asked for, so its rate would say nothing."""


@frozen(kw_only=True)
class Work:
    """One kind of work. It is timed in counts that are multiples of `step`."""

    name: RawWorkload
    what: str
    unit: str
    step: int = 1
    run: Callable[[Store, int], Awaitable[int]]
    """Do so many operations; says how many were done."""

    fill: Callable[[Store, int], Awaitable[None]]
    """Put there what so many operations need."""

    check: Callable[[Store, int], Awaitable[None]]
    """See that the store holds what so many operations since it was empty leave behind."""


async def _enqueue(store: Store, count: int) -> int:
    queue = store.queue(BENCH)
    for _ in range(count):
        await queue.enqueue(BENCH_PAYLOAD)
    return count


async def _enqueue_concurrently(store: Store, count: int) -> int:
    queue = store.queue(BENCH)
    turns = itertools.repeat(None, count)

    async def producer() -> int:
        done = 0
        for _ in turns:
            await queue.enqueue(BENCH_PAYLOAD)
            done += 1
        return done

    return sum(await asyncio.gather(*(producer() for _ in range(PRODUCERS))))


async def _enqueue_many(store: Store, count: int) -> int:
    queue = store.queue(BENCH)
    done = 0
    for _ in range(count // BENCH_PAGE):
        done += len(await queue.enqueue_many([BENCH_PAYLOAD] * BENCH_PAGE))
    return done


def _drain(workers: int) -> Callable[[Store, int], Awaitable[int]]:
    async def drain(store: Store, count: int) -> int:
        queue = store.queue(BENCH)
        turns = itertools.repeat(None, count)

        async def worker(number: int) -> list[tuple[int, bool]]:
            done = []
            for _ in turns:
                handle = await queue.claim_one(f"worker-{number}")
                if handle is None:
                    break
                done.append((handle.job.id, await handle.ack()))
            return done

        lists = await asyncio.gather(*(worker(number) for number in range(workers)))
        done = [job for each in lists for job in each]
        twice = len(done) - len({id_ for id_, _ in done})
        if twice:
            raise UnmeasuredError(f"{twice} of {len(done)} claims gave out a job a second time")
        refused = sum(not acked for _, acked in done)
        if refused:
            raise UnmeasuredError(f"{refused} of {len(done)} live claims could not be acked")
        return len(done)

    return drain


async def _publish(store: Store, count: int) -> int:
    stream = store.stream(BENCH)
    for _ in range(count):
        await stream.publish(BENCH_PAYLOAD)
    return count


async def _read(store: Store, count: int) -> int:
    stream = store.stream(BENCH)
    done = after = 0
    while done < count:
        events = await stream.read_since(after, BENCH_PAGE)
        if not events and not after:
            break
        done += len(events)
        after = events[-1].offset if len(events) == BENCH_PAGE else 0
    return done


async def _transact(store: Store, count: int) -> int:
    for _ in range(count):
        async with store.begin_tx() as tx:
            await tx.enqueue_tx(BENCH, BENCH_PAYLOAD)
            await tx.publish_tx(BENCH, BENCH_PAYLOAD)
            await tx.commit()
    return count


async def _fill_nothing(store: Store, count: int) -> None:
    """What inserts needs nothing."""


async def _fill_jobs(store: Store, count: int) -> None:
    queue = store.queue(BENCH)
    for start in range(0, count, FILL_AT_ONCE):
        await queue.enqueue_many([BENCH_PAYLOAD] * min(FILL_AT_ONCE, count - start))


async def _fill_events(store: Store, count: int) -> None:  # noqa: ARG001 - read again and again
    stream = store.stream(BENCH)
    if not (await stream.bounds()).count:
        await stream.publish_many([BENCH_PAYLOAD] * EVENTS)


async def _check_jobs(store: Store, total: int) -> None:
    queue = store.queue(BENCH)
    stats = await queue.stats()
    if stats.ready != total:
        raise UnmeasuredError(f"{total} jobs were enqueued and {stats.ready} are ready")
    _check_payload([job.payload_as(dict) for job in await queue.jobs(limit=1)])


async def _check_drained(store: Store, total: int) -> None:
    stats = await store.queue(BENCH).stats()
    left = stats.ready + stats.delayed + stats.processing + stats.expired + stats.dead
    if left:
        raise UnmeasuredError(f"of {total} jobs that were drained, {left} are still there: {stats}")


async def _check_events(store: Store, total: int) -> None:
    stream = store.stream(BENCH)
    count = (await stream.bounds()).count
    if count != total:
        raise UnmeasuredError(f"{total} events were published and {count} are there")
    _check_payload([event.payload_as(dict) for event in await stream.read_since(0, 1)])


async def _check_read(store: Store, total: int) -> None:  # noqa: ARG001 - reading leaves nothing
    await _check_events(store, EVENTS)
    events = await store.stream(BENCH).read_since(0, EVENTS)
    offsets = {event.offset for event in events}
    if not len(events) == len(offsets) == EVENTS:
        raise UnmeasuredError(f"of {EVENTS} events {len(offsets)} can be read")


async def _check_both(store: Store, total: int) -> None:
    await _check_jobs(store, total)
    await _check_events(store, total)


def _check_payload(found: list[object]) -> None:
    if found != [BENCH_PAYLOAD]:
        raise UnmeasuredError(f"the payload that went in is not the one that is there: {found}")


WORK: Final[tuple[Work, ...]] = (
    Work(
        name="enqueue",
        what="one enqueue awaited after the other",
        unit="jobs/s",
        run=_enqueue,
        fill=_fill_nothing,
        check=_check_jobs,
    ),
    Work(
        name="enqueue-50",
        what=f"{PRODUCERS} tasks, each awaiting one enqueue after the other",
        unit="jobs/s",
        step=PRODUCERS,
        run=_enqueue_concurrently,
        fill=_fill_nothing,
        check=_check_jobs,
    ),
    Work(
        name="enqueue-many",
        what=f"enqueue_many of {BENCH_PAGE} jobs",
        unit="jobs/s",
        step=BENCH_PAGE,
        run=_enqueue_many,
        fill=_fill_nothing,
        check=_check_jobs,
    ),
    Work(
        name="drain-1",
        what="one worker: claim_one, ack, until all jobs are done",
        unit="jobs/s",
        run=_drain(1),
        fill=_fill_jobs,
        check=_check_drained,
    ),
    Work(
        name="drain-4",
        what=f"{WORKERS} workers of one store: claim_one, ack, until all jobs are done",
        unit="jobs/s",
        step=WORKERS,
        run=_drain(WORKERS),
        fill=_fill_jobs,
        check=_check_drained,
    ),
    Work(
        name="publish",
        what="one publish awaited after the other",
        unit="events/s",
        run=_publish,
        fill=_fill_nothing,
        check=_check_events,
    ),
    Work(
        name="read",
        what=f"read_since, {BENCH_PAGE} events at a time",
        unit="events/s",
        step=BENCH_PAGE,
        run=_read,
        fill=_fill_events,
        check=_check_read,
    ),
    Work(
        name="transaction",
        what="begin_tx, enqueue_tx, publish_tx, commit",
        unit="tx/s",
        run=_transact,
        fill=_fill_nothing,
        check=_check_both,
    ),
)
