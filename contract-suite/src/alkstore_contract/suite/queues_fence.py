"""What a handle's calls do once its claim is over: nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alkstore_contract.expect import expect_equal
from alkstore_contract.properties import prop
from alkstore_contract.suite._steps import LAPSE, claim, expect_job, fields_of
from alkstore_core import EnqueueOpts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from alkstore_contract.case import Case
    from alkstore_core import JobHandle

    Act = Callable[[JobHandle], Awaitable[bool]]


async def _ack(handle: JobHandle) -> bool:
    return await handle.ack()


async def _retry(handle: JobHandle) -> bool:
    return await handle.retry("stale", 7)


async def _fail(handle: JobHandle) -> bool:
    return await handle.fail("stale")


async def _heartbeat(handle: JobHandle) -> bool:
    return await handle.heartbeat(5000)


async def _release(handle: JobHandle) -> bool:
    return await handle.release()


async def _lapsed(case: Case, act: Act) -> None:
    """In the deadline's second the call still counts, a second later it changes nothing."""
    store = await case.store()
    queue = store.queue("work")
    await queue.enqueue_many([1, 2])
    first, second = await queue.claim_batch("worker", 2)
    await case.advance(300)
    expect_equal(await act(first), True, "the call in the deadline's second")
    await case.advance(1)
    before = fields_of(await queue.get_job(second.job.id))
    expect_equal(await act(second), False, "the call a second after the deadline")
    expect_job(await queue.get_job(second.job.id), before, "after the refused call")


async def _reclaimed(case: Case, act: Act, worker: str) -> None:
    """After a lapse somebody else, or the same worker, claims; the old handle does nothing."""
    store = await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue(None, EnqueueOpts(max_attempts=9))
    old = await claim(queue, "worker")
    await case.advance(LAPSE)
    new = await claim(queue, worker)
    before = fields_of(await queue.get_job(job_id))
    expect_equal(await act(old), False, f"the old handle's call after a reclaim by {worker!r}")
    expect_job(await queue.get_job(job_id), before, "after the refused call")
    expect_equal(await new.ack(), True, "ack by the new handle")


async def _over(case: Case, act: Act) -> None:
    """The claim's job was swept, cancelled, or acked by its id, without the handle's doing."""
    store = await case.store()
    queue = store.queue("work")
    await queue.enqueue(None, EnqueueOpts(expires=10))
    await queue.enqueue_many([1, 2])
    swept, cancelled, acked = await queue.claim_batch("worker", 3)
    await case.advance(20)
    expect_equal(await queue.sweep_expired(), 1, "the sweep")
    expect_equal(await queue.cancel(cancelled.job.id), True, "cancel")
    expect_equal(await queue.ack_batch([acked.job.id], "worker"), 1, "ack_batch by id")
    dead = await queue.get_job(swept.job.id)
    for handle, how in ((swept, "the sweep"), (cancelled, "cancel"), (acked, "the ack by id")):
        expect_equal(await act(handle), False, f"a call after {how}")
    expect_equal(await queue.get_job(swept.job.id), dead, "the dead job after the refused call")
    expect_equal(await queue.jobs(), [], "the live jobs after the refused calls")


async def _settles(case: Case, act: Act) -> None:
    """The first answer is the last: all later calls are refused and change nothing."""
    store = await case.store()
    queue = store.queue("work")
    job_id = await queue.enqueue(None)
    handle = await claim(queue)
    expect_equal(await act(handle), True, "the first call")
    before = await queue.get_job(job_id)
    for again in (_ack, _retry, _fail, _heartbeat, _release):
        expect_equal(await again(handle), False, f"{again.__name__} after the first call")
    expect_equal(await queue.get_job(job_id), before, "the job after the later calls")


@prop("queues.ack.lapsed", decided="Queues/Handle")
async def ack_lapsed(case: Case) -> None:
    """`ack` counts through the second of the claim's deadline; after it, it is refused."""
    await _lapsed(case, _ack)


@prop("queues.ack.reclaimed", decided="Queues/Handle")
async def ack_reclaimed(case: Case) -> None:
    """`ack` by a handle whose job another worker has claimed since changes nothing."""
    await _reclaimed(case, _ack, "other")


@prop("queues.ack.reclaimed_same", decided="Queues/Handle")
async def ack_reclaimed_same(case: Case) -> None:
    """`ack` is refused after a reclaim also when the same worker id claimed again."""
    await _reclaimed(case, _ack, "worker")


@prop("queues.ack.over", decided="Queues/Handle")
async def ack_over(case: Case) -> None:
    """`ack` is refused when the job was swept, cancelled or acked by its id meanwhile."""
    await _over(case, _ack)


@prop("queues.ack.settles", decided="Queues/Handle")
async def ack_settles(case: Case) -> None:
    """After an answered `ack` every other call of the handle gives `False`."""
    await _settles(case, _ack)


@prop("queues.retry.lapsed", decided="Queues/Handle")
async def retry_lapsed(case: Case) -> None:
    """`retry` counts through the second of the claim's deadline; after it, it is refused."""
    await _lapsed(case, _retry)


@prop("queues.retry.reclaimed", decided="Queues/Handle")
async def retry_reclaimed(case: Case) -> None:
    """`retry` by a handle whose job another worker has claimed since changes nothing."""
    await _reclaimed(case, _retry, "other")


@prop("queues.retry.reclaimed_same", decided="Queues/Handle")
async def retry_reclaimed_same(case: Case) -> None:
    """`retry` is refused after a reclaim also when the same worker id claimed again."""
    await _reclaimed(case, _retry, "worker")


@prop("queues.retry.over", decided="Queues/Handle")
async def retry_over(case: Case) -> None:
    """`retry` is refused when the job was swept, cancelled or acked by its id meanwhile."""
    await _over(case, _retry)


@prop("queues.retry.settles", decided="Queues/Handle")
async def retry_settles(case: Case) -> None:
    """After an answered `retry` every other call of the handle gives `False`."""
    await _settles(case, _retry)


@prop("queues.fail.lapsed", decided="Queues/Handle")
async def fail_lapsed(case: Case) -> None:
    """`fail` counts through the second of the claim's deadline; after it, it is refused."""
    await _lapsed(case, _fail)


@prop("queues.fail.reclaimed", decided="Queues/Handle")
async def fail_reclaimed(case: Case) -> None:
    """`fail` by a handle whose job another worker has claimed since changes nothing."""
    await _reclaimed(case, _fail, "other")


@prop("queues.fail.reclaimed_same", decided="Queues/Handle")
async def fail_reclaimed_same(case: Case) -> None:
    """`fail` is refused after a reclaim also when the same worker id claimed again."""
    await _reclaimed(case, _fail, "worker")


@prop("queues.fail.over", decided="Queues/Handle")
async def fail_over(case: Case) -> None:
    """`fail` is refused when the job was swept, cancelled or acked by its id meanwhile."""
    await _over(case, _fail)


@prop("queues.fail.settles", decided="Queues/Handle")
async def fail_settles(case: Case) -> None:
    """After an answered `fail` every other call of the handle gives `False`."""
    await _settles(case, _fail)


@prop("queues.heartbeat.lapsed", decided="Queues/Handle")
async def heartbeat_lapsed(case: Case) -> None:
    """`heartbeat` counts through the second of the claim's deadline; after it, it is refused."""
    await _lapsed(case, _heartbeat)


@prop("queues.heartbeat.reclaimed", decided="Queues/Handle")
async def heartbeat_reclaimed(case: Case) -> None:
    """`heartbeat` by a handle whose job another worker has claimed since changes nothing."""
    await _reclaimed(case, _heartbeat, "other")


@prop("queues.heartbeat.reclaimed_same", decided="Queues/Handle")
async def heartbeat_reclaimed_same(case: Case) -> None:
    """`heartbeat` is refused after a reclaim also when the same worker id claimed again."""
    await _reclaimed(case, _heartbeat, "worker")


@prop("queues.heartbeat.over", decided="Queues/Handle")
async def heartbeat_over(case: Case) -> None:
    """`heartbeat` is refused when the job was swept, cancelled or acked by its id meanwhile."""
    await _over(case, _heartbeat)


@prop("queues.release.lapsed", decided="Queues/Handle")
async def release_lapsed(case: Case) -> None:
    """`release` counts through the second of the claim's deadline; after it, it is refused."""
    await _lapsed(case, _release)


@prop("queues.release.reclaimed", decided="Queues/Handle")
async def release_reclaimed(case: Case) -> None:
    """`release` by a handle whose job another worker has claimed since changes nothing."""
    await _reclaimed(case, _release, "other")


@prop("queues.release.reclaimed_same", decided="Queues/Handle")
async def release_reclaimed_same(case: Case) -> None:
    """`release` is refused after a reclaim also when the same worker id claimed again."""
    await _reclaimed(case, _release, "worker")


@prop("queues.release.over", decided="Queues/Handle")
async def release_over(case: Case) -> None:
    """`release` is refused when the job was swept, cancelled or acked by its id meanwhile."""
    await _over(case, _release)


@prop("queues.release.settles", decided="Queues/Handle")
async def release_settles(case: Case) -> None:
    """After an answered `release` every other call of the handle gives `False`."""
    await _settles(case, _release)
