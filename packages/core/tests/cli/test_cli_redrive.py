"""Redriving all dead jobs comes to an end."""

from alkstore_core.cli.dead import redriven


async def test_what_dies_again_is_not_redriven_again(store):
    """A worker that fails each job at once does not keep `redrive --all` busy for ever."""
    queue = store.queue("q")
    ids = await queue.enqueue_many(range(3))
    for handle in await queue.claim_batch("w", 3):
        await handle.fail()

    seen = []
    async for old, new in redriven(queue, ()):
        seen.append(old)
        handle = await queue.claim_one("w")
        assert new == handle.job.id
        await handle.fail()

    assert ids == seen
    assert 3 == (await queue.stats()).dead
