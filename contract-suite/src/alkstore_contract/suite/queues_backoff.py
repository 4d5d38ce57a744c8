"""How long a retry waits when nobody says, and what becomes of error texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alkstore_contract.expect import expect, expect_equal
from alkstore_contract.properties import prop
from alkstore_contract.suite._steps import claim, job_of
from alkstore_core import JobState, QueueOpts

if TYPE_CHECKING:
    from alkstore_contract.case import Case

# (base, the least and the greatest wait after attempts 1, 2, 3 …), worked out by hand.
_RANGES = (
    (5, ((2, 5), (5, 10), (10, 20), (20, 40), (40, 80), (80, 160), (160, 320))),
    (1, ((0, 1), (1, 2), (2, 4), (4, 8))),
    (7, ((3, 7), (7, 14), (14, 28))),
    (300, ((150, 300), (300, 600), (600, 1200), (1200, 2400), (1800, 3600), (1800, 3600))),
)
_CAPPED = range(1800, 3601)


async def _wait_after(case: Case, base: int, attempts: int) -> int:
    """Retry a job so often without a delay; the seconds it waits after the last attempt."""
    store = await case.store()
    queue = store.queue("work", QueueOpts(backoff_base_s=base, max_attempts=1000))
    job_id = await queue.enqueue(None)
    for _ in range(attempts - 1):
        await (await claim(queue)).retry("again", 0)
    handle = await claim(queue)
    expect_equal(handle.job.attempts, attempts, "attempts")
    expect_equal(await handle.retry("again"), True, "retry")
    return (await job_of(queue, job_id)).run_at - case.clock.now()


@prop("queues.backoff.range", decided="Queues/Handle", cases=_RANGES)
async def in_range(case: Case, given: tuple[int, tuple[tuple[int, int], ...]]) -> None:
    """The wait doubles with each attempt: between `d // 2` and `d` for `d = base · 2^(k−1)`."""
    base, ranges = given
    store = await case.store()
    queue = store.queue("work", QueueOpts(backoff_base_s=base, max_attempts=99))
    ids = await queue.enqueue_many(range(6))
    for attempt, (least, greatest) in enumerate(ranges, 1):
        handles = await queue.claim_batch("worker", 10)
        expect_equal(len(handles), 6, f"the jobs claimed in attempt {attempt}")
        for handle in handles:
            await handle.retry("again")
        for job_id in ids:
            wait = (await job_of(queue, job_id)).run_at - case.clock.now()
            expect(
                least <= wait <= greatest,
                f"base {base}, attempt {attempt}: waits {wait}, not {least} to {greatest} seconds",
            )
        await case.advance(greatest)


@prop("queues.backoff.cap", decided="Queues/Handle", cases=((1, 13), (1, 70), (5, 11)))
async def cap(case: Case, given: tuple[int, int]) -> None:
    """However many attempts there were, the wait is at most an hour and at least half of one."""
    wait = await _wait_after(case, *given)
    expect(wait in _CAPPED, f"waits {wait}, not 1800 to 3600 seconds")


@prop("queues.backoff.huge", decided="Queues/Handle", cases=(3600, 3601, 10**9, 2**62, 2**63 - 1))
async def huge(case: Case, base: int) -> None:
    """A base of an hour or more waits half an hour to an hour from the first attempt on."""
    wait = await _wait_after(case, base, 1)
    expect(wait in _CAPPED, f"waits {wait}, not 1800 to 3600 seconds")


@prop("queues.backoff.none", decided="Queues/Handle", cases=(0, -1, -(2**63)))
async def none(case: Case, base: int) -> None:
    """A base of 0 or less does not wait, whichever the attempt."""
    expect_equal(await _wait_after(case, base, 4), 0, "the seconds of waiting")


@prop("queues.backoff.spread", decided="Queues/Handle")
async def spread(case: Case) -> None:
    """Every whole second of the range occurs: jobs that failed together come back apart."""
    store = await case.store()
    queue = store.queue("work", QueueOpts(backoff_base_s=4))
    await queue.enqueue_many(range(100))
    handles = await queue.claim_batch("worker", 100)
    for handle in handles:
        await handle.retry("again")
    waits = {job.run_at - case.clock.now() for job in await queue.jobs()}
    expect_equal(sorted(waits), [2, 3, 4], "the different waits of a hundred jobs")


async def _reads_back(case: Case, error: str | BaseException, text: str) -> None:
    """The error of a retry, of the last retry and of a failure is stored as `text`."""
    store = await case.store()
    queue = store.queue("work", QueueOpts(max_attempts=2))
    first, second = await queue.enqueue_many([1, 2])
    for handle in await queue.claim_batch("worker", 2):
        expect_equal(await handle.retry(error, 0), True, "retry")
    expect_equal((await job_of(queue, first)).last_error, text, "last_error of a retry")
    handles = await queue.claim_batch("worker", 2)
    expect_equal(await handles[0].retry(error), True, "the last retry")
    expect_equal(await handles[1].fail(error), True, "fail")
    for job_id, how in ((first, "the last retry"), (second, "fail")):
        job = await job_of(queue, job_id)
        expect_equal((job.state, job.last_error), (JobState.DEAD, text), f"the job after {how}")


@prop(
    "queues.error.kept", decided="Queues/Handle", cases=(" trimmed? \n", "日本語 😀", "a'b\"c;--\\")
)
async def error_kept(case: Case, text: str) -> None:
    """An error text reads back as it was given."""
    await _reads_back(case, text, text)


@prop("queues.error.nul", decided="Queues/Handle")
async def error_nul(case: Case) -> None:
    """A NUL in an error text is escaped; the transition lands and nothing is cut off."""
    await _reads_back(case, "be\0fore", "be\\x00fore")


@prop("queues.error.surrogate", decided="Queues/Handle")
async def error_surrogate(case: Case) -> None:
    """A lone surrogate in an error text is escaped, and the transition lands."""
    await _reads_back(case, "be\udc80fore\ud800", "be\\udc80fore\\ud800")


@prop("queues.error.long", decided="Queues/Handle", cases=(8191, 8192, 8193, 3_000_000))
async def error_long(case: Case, size: int) -> None:
    """An error text is cut at 8 KiB, and the transition lands whatever the size."""
    await _reads_back(case, "e" * size, "e" * min(size, 8192))


@prop("queues.error.whole", decided="Queues/Handle")
async def error_whole(case: Case) -> None:
    """The 8 KiB are bytes of UTF-8, and no character is cut in two."""
    await _reads_back(case, "a" + "語" * 5000, "a" + "語" * 2730)


@prop("queues.error.exception", decided="Queues/Handle")
async def error_exception(case: Case) -> None:
    """An exception is accepted as an error and reads as its type and text."""
    await _reads_back(case, ValueError("no such ro\0w"), "ValueError: no such ro\\x00w")
