"""What is in a store, in one look."""

from __future__ import annotations

import pytest

from alkstore_core import QueueStats
from alkstore_core.overview import ConsumerOverview, QueueOverview, overview, stream_overview


async def test_an_empty_store(store):
    """Nothing is there."""
    seen = await overview(store)
    assert ((), (), (), ()) == (seen.queues, seen.streams, seen.locks, seen.schedules)


async def test_queues_and_outboxes_are_told_apart(store):
    """Each is named as its user named it, with its own counts."""
    await store.queue("mails").enqueue_many([1, 2])
    await store.outbox("mails").enqueue(1)
    await store.queue("mails").claim_one("w")
    stats = {"delayed": 0, "lapsed": 0, "expired": 0, "dead": 0, "oldest_ready_age_s": 0}
    assert (
        QueueOverview(name="mails", kind="queue", stats=QueueStats(ready=1, processing=1, **stats)),
        QueueOverview(
            name="mails", kind="outbox", stats=QueueStats(ready=1, processing=0, **stats)
        ),
    ) == (await overview(store)).queues


@pytest.mark.parametrize(
    ("saved", "trimmed", "lag"),
    [(0, 0, 5), (2, 0, 3), (5, 0, 0), (9, 0, 0), (1, 3, 2), (0, 5, 0)],
)
async def test_lag(store, saved, trimmed, lag):
    """A consumer's lag is what is stored and not yet behind it."""
    stream = store.stream("s")
    await stream.publish_many(range(5))
    await stream.save_offset("c", saved)
    await stream.trim_to(trimmed)
    (seen,) = (await overview(store)).streams
    assert (ConsumerOverview(name="c", offset=saved, lag=lag),) == seen.consumers
    assert 5 - trimmed == seen.bounds.count


async def test_one_stream_alone(store, engine):
    """It is as in the whole, and nothing else is counted; of one that is not there all is 0."""
    await store.queue("q").enqueue(1)
    await store.stream("s").publish_many(range(5))
    await store.stream("s").save_offset("c", 2)
    (seen,) = (await overview(store)).streams
    engine.calls.clear()

    assert seen == await stream_overview(store, "s")
    # An event that comes in between makes a lag greater, never negative.
    assert ["list_consumers", "bounds"] == engine.calls[:2]
    assert "stats" not in engine.calls
    nothing = await stream_overview(store, "x")
    assert ((), 0) == (nothing.consumers, nothing.bounds.count)


async def test_locks_and_schedules(store, clock):
    """Live leases and schedules are there, and the time by which they end and fire."""
    await store.try_lock("l", "me", 5)
    await store.schedule("nightly", "@every 1d", "q", None)
    seen = await overview(store)
    assert (["l"], ["nightly"]) == (
        [lock.name for lock in seen.locks],
        [schedule.name for schedule in seen.schedules],
    )
    assert (clock.now(), clock.now() + 5) == (seen.at, seen.locks[0].expires_at)
