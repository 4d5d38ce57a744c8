"""A job's own word for where it stands is the one that statistics count it by."""

import collections

import attrs

from alkstore_core import EnqueueOpts, QueueOpts


async def test_standing_is_what_stats_count(store, clock):
    """Of each standing another number of jobs, and stats count as many."""
    queue = store.queue("q", QueueOpts(visibility_timeout_s=10))
    await queue.enqueue_many(range(1))
    for handle in await queue.claim_batch("w", 1):
        await handle.fail()
    # Held beyond their expiry.
    held = await store.queue("q", QueueOpts(visibility_timeout_s=21)).enqueue_many(
        range(3), EnqueueOpts(expires=20)
    )
    await queue.claim_batch("w", 3)
    # Lapsed, and one of them expired later.
    await queue.enqueue_many(range(2))
    await queue.enqueue_many(range(1), EnqueueOpts(expires=20))
    await queue.claim_batch("w", 3)
    await clock.advance(11)
    await queue.enqueue_many(range(4), EnqueueOpts(expires=9))
    await queue.enqueue_many(range(5), EnqueueOpts(delay=11))
    await queue.enqueue_many(range(6))

    def counted(stats):
        return {name: n for name, n in attrs.asdict(stats).items() if name != "oldest_ready_age_s"}

    for seconds, expected in [(0, (10, 5, 3, 3, 0)), (9, (6, 5, 3, 2, 5)), (1, (6, 5, 3, 2, 5))]:
        await clock.advance(seconds)
        jobs = [*await queue.jobs(), *await queue.dead_jobs()]
        now = await store.now()
        stats = counted(await queue.stats())
        standing = collections.Counter(job.standing(now) for job in jobs)
        assert stats == {name: standing[name] for name in stats}
        assert expected == tuple(
            stats[name] for name in ("ready", "delayed", "processing", "lapsed", "expired")
        )
    await clock.advance(1)
    now = await store.now()
    assert {"expired"} == {(await queue.get_job(each)).standing(now) for each in held}
    assert 11 == (await queue.stats()).ready
