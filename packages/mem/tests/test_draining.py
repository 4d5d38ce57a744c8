"""`drain` does to jobs what a worker does, and says what it did."""

import asyncio
import threading
from dataclasses import dataclass

import pytest

from alkstore_core import CodecError, EnqueueOpts, Job, JobHandle, QueueOpts, Store
from alkstore_core.sync import SyncStore
from alkstore_core.worker import Fail, Retry
from alkstore_mem import MemStore
from alkstore_mem.testing import Handled, drain


@dataclass
class Mail:
    """A typed payload."""

    to: str


async def test_everything_ready_is_handled(store):
    """Each job went through the handler, best first, and is acknowledged."""
    queue = store.queue("q")
    await queue.enqueue(1)
    await queue.enqueue(2, EnqueueOpts(priority=5))

    handled = await drain(queue, lambda n: n * 10)

    assert [(20, "acked"), (10, "acked")] == [(h.result, h.became) for h in handled]
    assert [] == await store.queues()


async def test_what_the_handler_enqueues_is_handled_too(store):
    """It ends when nothing is ready, also of what came meanwhile."""
    queue = store.queue("q")
    await queue.enqueue(3)

    async def count_down(n: int, store: MemStore) -> None:
        if n:
            await store.queue("q").enqueue(n - 1)

    assert 4 == len(await drain(queue, count_down))


async def test_handlers_are_given_what_they_ask_for(store):
    """Payloads are built by annotation; job, handle and store come as with a worker."""
    await store.queue("q").enqueue(Mail("ada"))

    async def handler(mail: Mail, job: Job, handle: JobHandle, store: Store) -> None:
        seen.extend([mail, job.id == handle.job.id, await store.queues()])

    seen = []
    await drain(store.queue("q"), handler)
    assert [Mail("ada"), True, ["q"]] == seen


async def test_a_signature_that_a_worker_refuses_is_refused(store):
    """The test hears of it, whether or not there is a job."""

    def handler(one, another):
        raise AssertionError("never called")

    with pytest.raises(TypeError, match="second payload"):
        await drain(store.queue("q"), handler)


async def test_plain_handlers_run_in_a_thread(store):
    """So they may run an event loop of their own, as with a worker."""
    await store.queue("q").enqueue(1)

    def handler(_: int) -> threading.Thread:
        asyncio.run(asyncio.sleep(0))
        return threading.current_thread()

    [handled] = await drain(store.queue("q"), handler)
    assert threading.current_thread() is not handled.result


async def test_an_error_is_raised_once_its_job_is_settled(store):
    """The test fails by the handler's own error, which says what became of the job."""
    queue = store.queue("q")
    job_id, _ = await queue.enqueue_many([1, 2])

    async def handler(n: int) -> None:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        await drain(queue, handler)
    assert ["raised by the handler of job 1 of 'q', attempt 1 of 3; the job is retried"] == (
        caught.value.__notes__
    )
    job = await queue.get_job(job_id)
    assert ("pending", 1, "ZeroDivisionError: mine") == (job.state, job.attempts, job.last_error)
    assert (1, 1) == ((await queue.stats()).ready, (await queue.stats()).delayed)


async def test_errors_may_be_collected(store):
    """Then the rest is handled too, and each error stands beside its job."""
    queue = store.queue("q", QueueOpts(max_attempts=1))
    await queue.enqueue_many([0, 1])

    handled = await drain(queue, lambda n: 1 // n, collect_errors=True)

    assert ["dead", "acked"] == [h.became for h in handled]
    assert isinstance(handled[0].error, ZeroDivisionError)
    assert handled[1].error is None


async def test_retry_and_fail_are_outcomes_not_errors(store):
    """They do what they say, and nothing is raised."""
    queue = store.queue("q")
    later, never = await queue.enqueue_many(["later", "never"])

    def handler(what: str) -> None:
        raise Retry("busy", delay=60) if what == "later" else Fail("hopeless")

    handled = await drain(queue, handler)

    assert ["retried", "dead"] == [h.became for h in handled]
    assert ("busy", 1_060) == (
        (await queue.get_job(later)).last_error,
        (await queue.get_job(later)).run_at,
    )
    assert "hopeless" == (await queue.get_job(never)).last_error


async def test_a_payload_that_does_not_fit_is_dead_and_told(store):
    """As with a worker; the test hears why."""
    queue = store.queue("q")
    job_id = await queue.enqueue({"from": "ada"})

    async def handler(mail: Mail) -> None:
        raise AssertionError("never called")

    with pytest.raises(CodecError):
        await drain(queue, handler)
    assert "dead" == (await queue.get_job(job_id)).state


async def test_a_job_that_the_handler_settled_is_left_alone(store):
    """What the handler decided by hand stands."""
    queue = store.queue("q")
    await queue.enqueue(1)

    async def handler(handle: JobHandle) -> None:
        await handle.fail("by hand")

    assert ["settled"] == [h.became for h in await drain(queue, handler)]


async def test_a_claim_that_lapsed_meanwhile_is_lost(store, clock):
    """A job whose handler took longer than its claim is not reported as done."""
    await store.queue("q", QueueOpts(visibility_timeout_s=10, max_attempts=1)).enqueue(1)

    async def handler(_: int) -> None:
        await clock.advance(11)

    assert ["lost"] == [h.became for h in await drain(store.queue("q"), handler)]


async def test_delayed_jobs_wait_unless_time_is_moved(store, clock):
    """With `advance` the clock goes from one delayed job to the next, retries included."""
    queue = store.queue("q")
    await queue.enqueue("a", EnqueueOpts(delay=60))
    await queue.enqueue("b", EnqueueOpts(delay=3600))
    assert [] == await drain(queue, lambda _: None)

    seen = []

    def handler(what: str, job: Job) -> None:
        seen.append((what, clock.now() - 1_000))
        if what == "a" and job.attempts == 1:
            raise Retry(delay=30)

    await drain(queue, handler, advance=True)
    assert [("a", 60), ("a", 90), ("b", 3600)] == seen


async def test_what_expired_is_passed_over(store):
    """A job that will never be handed out does not keep `advance` going."""
    await store.queue("q").enqueue(1, EnqueueOpts(delay=60, expires=30))

    assert [] == await drain(store.queue("q"), lambda _: None, advance=True)


async def test_time_that_nobody_can_move_is_refused():
    """Without a manual clock there is nothing to advance."""
    async with MemStore() as store:
        with pytest.raises(ValueError, match="ManualClock"):
            await drain(store.queue("q"), lambda _: None, advance=True)


async def test_work_without_end_is_an_error(store):
    """A handler that enqueues as much as it does ends the test, not the day."""
    queue = store.queue("q")
    await queue.enqueue(1)

    async def handler(n: int) -> None:
        await queue.enqueue(n)

    with pytest.raises(AssertionError, match="called 5 times and 'q' still has work"):
        await drain(queue, handler, limit=5)
    assert 1 == (await queue.claim_one("w")).job.attempts


async def test_an_outbox_is_drained(store):
    """Its messages go to the handler as a queue's jobs."""
    await store.outbox("hooks").enqueue({"url": "/"})

    [handled] = await drain(store.outbox("hooks"), lambda hook: hook["url"])

    assert "/" == handled.result
    assert [] == await store.outboxes()


def test_it_blocks_for_a_blocking_store(clock):
    """There plain handlers run in the thread of the test, and may use the store."""
    with SyncStore(MemStore(clock=clock)) as store:
        store.queue("q").enqueue(1)
        store.outbox("o").enqueue(2)

        def handler(n: int) -> threading.Thread:
            store.queue("later").enqueue(n, EnqueueOpts(delay=60))
            return threading.current_thread()

        async def deliver(message: int, store: MemStore) -> list[str]:
            return await store.queues()

        assert [threading.current_thread()] == [h.result for h in drain(store.queue("q"), handler)]
        assert [["later"]] == [h.result for h in drain(store.outbox("o"), deliver)]
        [handled] = drain(store.queue("later"), lambda n: n, advance=True)
        assert isinstance(handled, Handled)


def test_errors_are_raised_where_it_blocks(clock):
    """The handler's error leaves the call, its job settled before."""
    with SyncStore(MemStore(clock=clock)) as store:
        store.queue("q").enqueue(0)
        with pytest.raises(ZeroDivisionError):
            drain(store.queue("q"), lambda n: 1 // n)
        assert 1 == store.queue("q").stats().delayed
