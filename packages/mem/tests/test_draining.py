"""`drain` does to jobs what a worker does, and says what it did."""

import asyncio
import threading
from dataclasses import dataclass

import pytest

from alkstore_core import CodecError, DatabaseError, EnqueueOpts, Job, JobHandle, QueueOpts, Store
from alkstore_core.sync import SyncStore
from alkstore_core.worker import Fail, Outcome, Retry
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

    handled = await drain(store, "q", lambda n: n * 10)

    assert [(20, "acked"), (10, "acked")] == [(h.result, h.outcome) for h in handled]
    assert [] == await store.queues()


async def test_what_the_handler_enqueues_is_handled_too(store):
    """It ends when nothing is ready, also of what came meanwhile."""
    queue = store.queue("q")
    await queue.enqueue(3)

    async def count_down(n: int, store: MemStore) -> None:
        if n:
            await store.queue("q").enqueue(n - 1)

    assert 4 == len(await drain(store, "q", count_down))


async def test_handlers_are_given_what_they_ask_for(store):
    """Payloads are built by annotation; job, handle and the test's very store come too."""
    await store.queue("q").enqueue(Mail("ada"))

    async def handler(mail: Mail, job: Job, handle: JobHandle, given: Store) -> None:
        seen.extend([mail, job.id == handle.job.id, given is store])

    seen = []
    await drain(store, "q", handler)
    assert [Mail("ada"), True, True] == seen


class ShopStore(MemStore):
    """A store of the application's own class."""


async def test_handlers_may_ask_for_a_store_of_their_own_class(clock):
    """A worker gives them its store, whatever the class; so does this, also where it blocks."""

    async def handler(_: int, given: ShopStore) -> ShopStore:
        return given

    async with ShopStore(clock=clock) as store:
        await store.queue("q").enqueue(1)
        [handled] = await drain(store, "q", handler)
        assert store is handled.result
    with SyncStore(ShopStore(clock=clock)) as blocking:
        blocking.queue("q").enqueue(1)
        [handled] = drain(blocking, "q", handler)
        assert blocking.wrapped is handled.result


async def test_another_class_of_store_than_the_tests_is_refused(store):
    """As by a worker: the handler would not get what it asks for."""

    async def handler(_: int, given: ShopStore) -> None:
        raise AssertionError("never called")

    with pytest.raises(TypeError, match="asks for ShopStore, but its store is of class MemStore"):
        await drain(store, "q", handler)


@pytest.mark.parametrize("where", [{}, {"queue": "q", "outbox": "o"}, {"queue": "q"}])
async def test_what_to_drain_has_to_be_said(store, where):
    """One queue or one outbox, and a handler."""
    handler = {} if where == {"queue": "q"} else {"handler": print}

    with pytest.raises(TypeError, match="name of a queue, or outbox="):
        await drain(store, **where, **handler)


async def test_a_signature_that_a_worker_refuses_is_refused(store):
    """The test hears of it, whether or not there is a job."""

    def handler(one, another):
        raise AssertionError("never called")

    with pytest.raises(TypeError, match="second payload"):
        await drain(store, "q", handler)


async def test_plain_handlers_run_in_a_thread(store):
    """So they may run an event loop of their own, as with a worker."""
    await store.queue("q").enqueue(1)

    def handler(_: int) -> threading.Thread:
        asyncio.run(asyncio.sleep(0))
        return threading.current_thread()

    [handled] = await drain(store, "q", handler)
    assert threading.current_thread() is not handled.result


async def test_an_error_is_raised_once_its_job_is_settled(store):
    """The test fails by the handler's own error, which says what became of the job."""
    queue = store.queue("q")
    job_id, _ = await queue.enqueue_many([1, 2])

    async def handler(n: int) -> None:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        await drain(store, "q", handler)
    assert ["raised by the handler of job 1 of queue 'q', attempt 1 of 3; the job is retried"] == (
        caught.value.__notes__
    )
    job = await queue.get_job(job_id)
    assert ("pending", 1, "ZeroDivisionError: mine") == (job.state, job.attempts, job.last_error)
    assert (1, 1) == ((await queue.stats()).ready, (await queue.stats()).delayed)


async def test_errors_may_be_collected(store):
    """Then the rest is handled too, and each error stands beside its job."""
    queue = store.queue("q", QueueOpts(max_attempts=1))
    await queue.enqueue_many([0, 1])

    handled = await drain(store, "q", lambda n: 1 // n, collect_errors=True)

    assert ["dead", "acked"] == [h.outcome for h in handled]
    assert isinstance(handled[0].error, ZeroDivisionError)
    assert handled[1].error is None


async def test_retry_and_fail_are_outcomes_not_errors(store):
    """They do what they say, and nothing is raised."""
    queue = store.queue("q")
    later, never = await queue.enqueue_many(["later", "never"])

    def handler(what: str) -> None:
        raise Retry("busy", delay=60) if what == "later" else Fail("hopeless")

    handled = await drain(store, "q", handler)

    assert ["retried", "dead"] == [h.outcome for h in handled]
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
        await drain(store, "q", handler)
    assert "dead" == (await queue.get_job(job_id)).state


async def test_a_job_that_the_handler_settled_is_left_alone(store):
    """What the handler decided by hand stands."""
    queue = store.queue("q")
    await queue.enqueue(1)

    async def handler(handle: JobHandle) -> None:
        await handle.fail("by hand")

    assert ["settled"] == [h.outcome for h in await drain(store, "q", handler)]


async def test_a_claim_that_lapsed_meanwhile_is_lost(store, clock):
    """A job whose handler took longer than its claim is not reported as done."""
    await store.queue("q", QueueOpts(visibility_timeout_s=10, max_attempts=1)).enqueue(1)

    async def handler(_: int) -> None:
        await clock.advance(11)

    assert ["lost"] == [h.outcome for h in await drain(store, "q", handler)]


async def test_delayed_jobs_wait_unless_time_is_moved(store, clock):
    """With `advance` the clock goes from one delayed job to the next, retries included."""
    queue = store.queue("q")
    await queue.enqueue("a", EnqueueOpts(delay=60))
    await queue.enqueue("b", EnqueueOpts(delay=3600))
    assert [] == await drain(store, "q", lambda _: None)

    seen = []

    def handler(what: str, job: Job) -> None:
        seen.append((what, clock.now() - 1_000))
        if what == "a" and job.attempts == 1:
            raise Retry(delay=30)

    await drain(store, "q", handler, advance=True)
    assert [("a", 60), ("a", 90), ("b", 3600)] == seen


async def test_what_expired_is_passed_over(store):
    """A job that will never be handed out does not keep `advance` going."""
    await store.queue("q").enqueue(1, EnqueueOpts(delay=60, expires=30))

    assert [] == await drain(store, "q", lambda _: None, advance=True)


async def test_time_that_nobody_can_move_is_refused():
    """Without a manual clock there is nothing to advance."""
    async with MemStore() as store:
        with pytest.raises(ValueError, match="ManualClock"):
            await drain(store, "q", lambda _: None, advance=True)


async def test_work_without_end_is_an_error(store):
    """A handler that enqueues as much as it does ends the test, not the day."""
    queue = store.queue("q")
    await queue.enqueue(1)

    async def handler(n: int) -> None:
        await queue.enqueue(n)

    with pytest.raises(AssertionError, match="called 5 times and queue 'q' still has work"):
        await drain(store, "q", handler, limit=5)
    assert 1 == (await queue.claim_one("w")).job.attempts


async def test_a_job_that_is_given_back_for_ever_is_an_error(store):
    """A release restores the attempt, so that no number of attempts would end it."""
    await store.queue("q").enqueue(1)

    async def handler(handle: JobHandle) -> None:
        await handle.release()

    with pytest.raises(AssertionError, match="enqueues or gives back as much as it does"):
        await drain(store, "q", handler, limit=5)


@pytest.mark.parametrize(("limit", "error"), [(-1, ValueError), (True, TypeError)])
def test_a_limit_that_is_none_is_refused(store, limit, error):
    """It would never be reached, and work that goes on for ever never end."""
    with pytest.raises(error, match=f"limit takes an int, 0 or more, not {limit}"):
        drain(store, "q", print, limit=limit)


async def test_work_that_ends_at_the_limit_is_no_error(store):
    """The limit is what may be called, not what may not."""
    await store.queue("q").enqueue_many(range(5))

    assert 5 == len(await drain(store, "q", lambda _: None, limit=5))


async def test_time_that_moves_has_the_same_limit(store):
    """A handler that always enqueues one for later would move the clock for ever."""
    queue = store.queue("q")
    await queue.enqueue(1)

    async def handler(n: int) -> None:
        await queue.enqueue(n, EnqueueOpts(delay=60))

    with pytest.raises(AssertionError, match="called 5 times"):
        await drain(store, "q", handler, advance=True, limit=5)


async def test_a_retry_without_delay_is_made_at_once(store):
    """It is ready again, and tried until it is dead."""
    await store.queue("q").enqueue(1)

    async def handler(_: int) -> None:
        raise Retry("busy", delay=0)

    assert ["retried", "retried", "dead"] == [h.outcome for h in await drain(store, "q", handler)]


async def test_what_expires_before_its_turn_is_not_handled(store, clock):
    """The first handler takes so long that the second job is past its expiry."""
    queue = store.queue("q")
    slow, late = await queue.enqueue_many(["slow", "late"], EnqueueOpts(expires=60))

    async def handler(what: str) -> None:
        await clock.advance(61)

    assert [slow] == [h.job.id for h in await drain(store, "q", handler)]
    await queue.sweep_expired()
    assert [(late, "expired")] == [(job.id, job.last_error) for job in await queue.dead_jobs()]


async def test_other_queues_are_left_alone(store):
    """Also those that the handler enqueues into, and an outbox of the queue's name."""
    await store.queue("a").enqueue(1)
    await store.queue("b").enqueue(2)
    await store.outbox("a").enqueue(3)

    async def handler(n: int, given: Store) -> int:
        await given.queue("b").enqueue(n)
        return n

    assert [1] == [h.result for h in await drain(store, "a", handler)]
    assert [2, 1] == [h.result for h in await drain(store, "b", lambda n: n)]
    assert [3] == [h.result for h in await drain(store, outbox="a", handler=lambda n: n)]


async def test_it_is_refused_inside_of_a_transaction(store):
    """Its claims would wait for the transaction, which waits for it."""
    await store.queue("q").enqueue(1)

    async with store.transaction() as tx:
        await tx.enqueue_tx("q", 2)
        with pytest.raises(DatabaseError, match="claim would wait for it for ever"):
            await drain(store, "q", print)

    assert [1, 2] == [h.result for h in await drain(store, "q", lambda n: n)]


@pytest.mark.parametrize("handler", [lambda n: n, pytest.param("async", id="async")])
def test_it_is_refused_inside_of_a_blocking_transaction(clock, handler):
    """There too, at once, in whichever thread the handler would run."""

    async def asynchronous(n: int) -> int:
        return n

    with SyncStore(MemStore(clock=clock)) as store, store.transaction() as tx:
        tx.enqueue_tx("q", 2)
        with pytest.raises(DatabaseError, match="claim would wait for it for ever"):
            drain(store, "q", asynchronous if handler == "async" else handler)


async def test_a_test_that_is_cancelled_ends(store):
    """Its cancellation is not the handler's: nothing is settled, nothing swallowed."""
    queue = store.queue("q")
    job_id = await queue.enqueue(1)
    begun = asyncio.Event()

    async def handler(_: int) -> None:
        begun.set()
        await asyncio.Event().wait()

    draining = asyncio.create_task(drain(store, "q", handler, collect_errors=True))
    await begun.wait()
    draining.cancel()
    with pytest.raises(asyncio.CancelledError):
        await draining
    assert "processing" == (await queue.get_job(job_id)).state


async def test_an_outbox_is_drained(store):
    """Its messages go to the handler as a queue's jobs."""
    await store.outbox("hooks").enqueue({"url": "/"})

    [handled] = await drain(store, outbox="hooks", handler=lambda hook: hook["url"])

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

        assert [threading.current_thread()] == [h.result for h in drain(store, "q", handler)]
        assert [["later"]] == [h.result for h in drain(store, outbox="o", handler=deliver)]
        [handled] = drain(store, "later", lambda n: n, advance=True)
        assert isinstance(handled, Handled)
        assert handled.outcome is Outcome.ACKED


def test_errors_are_raised_where_it_blocks(clock):
    """The handler's error leaves the call, its job settled before."""
    with SyncStore(MemStore(clock=clock)) as store:
        store.queue("q").enqueue(0)
        with pytest.raises(ZeroDivisionError):
            drain(store, "q", lambda n: 1 // n)
        assert 1 == store.queue("q").stats().delayed


@pytest.mark.parametrize("raised", [asyncio.CancelledError, SystemExit])
def test_what_would_end_a_loop_is_raised_where_it_blocks(clock, raised):
    """The handler's own, in the test, and not as the end of the loop of blocking calls."""

    async def handler(_: int) -> None:
        raise raised("mine")

    with SyncStore(MemStore(clock=clock)) as store:
        store.queue("q").enqueue(0)
        with pytest.raises(raised, match="mine"):
            drain(store, "q", handler)
        assert 1 == store.queue("q").stats().delayed


def test_work_without_end_is_an_error_where_it_blocks(clock):
    """The limit holds there too."""
    with SyncStore(MemStore(clock=clock)) as store:
        store.queue("q").enqueue(1)
        with pytest.raises(AssertionError, match="called 5 times"):
            drain(store, "q", lambda n: store.queue("q").enqueue(n), limit=5)
