"""Outbox workers: a worker whose jobs are the messages of an outbox."""

import asyncio

import pytest
from dict_engine import until

from alkstore_core import JobHandle, JobState
from alkstore_core.worker import Fail, OutboxWorker, Worker


@pytest.fixture
def deliver(store, runs):
    """Start a worker on outbox `mail`; it ends with the test."""
    return lambda handler, **options: runs(OutboxWorker(store, "mail", handler, **options))


async def test_a_message_is_delivered_and_gone(engine, store, deliver):
    """Messages enqueued in a transaction and beside it reach the handler."""
    seen = []

    async def handler(message):
        seen.append(message["to"])

    running = deliver(handler)
    await store.outbox("mail").enqueue({"to": "ada"})
    async with store.transaction() as tx:
        await tx.outbox_enqueue_tx("mail", {"to": "bob"})
    await until(lambda: len(seen) == 2 and not engine.data.jobs)

    assert ["ada", "bob"] == sorted(seen)
    assert "mail" == running.worker.name


async def test_the_log_names_the_outbox(engine, store, deliver, caplog):
    """Not the queue under a reserved name that is behind it."""
    await store.outbox("mail").enqueue(1)

    async def handler(handle: JobHandle):
        raise Fail("no such address")

    deliver(handler)
    await until(lambda: engine.data.jobs[1].state is JobState.DEAD)

    assert "outbox 'mail': job 1 failed (attempt 1 of 5), dead now: no such address" in caplog.text
    assert "__alkstore" not in caplog.text


async def test_a_queue_of_the_outbox_s_name_is_another(engine, store, deliver, runs):
    """A worker on queue `mail` gets none of the outbox's messages."""
    await store.outbox("mail").enqueue("message")
    await store.queue("mail").enqueue("job")
    seen = {}
    done = asyncio.Event()

    def noting(kind):
        async def handler(payload):
            seen[kind] = payload
            if len(seen) == 2:
                done.set()

        return handler

    deliver(noting("outbox"))
    runs(Worker(store, store.queue("mail"), noting("queue")))
    await done.wait()

    assert {"outbox": "message", "queue": "job"} == seen
