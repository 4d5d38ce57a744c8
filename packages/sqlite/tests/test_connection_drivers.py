"""Ops on aiosqlite through SQLAlchemy: the same values, whole whatever becomes of the caller."""

import asyncio

import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from alkstore_core import DatabaseError
from alkstore_core.jobspec import JobSpec
from alkstore_core.spi import Claim, Entry
from alkstore_core.sql import claims, dead_letters, locks, queues, streams, transfer
from alkstore_core.sql.connection_drivers import AsyncConnectionDriver
from alkstore_core.sql.op import Mode
from alkstore_core.sql.tables import metadata
from alkstore_sqlite import prepare_engine

SPEC = JobSpec(
    priority=0,
    delay=None,
    run_at=None,
    expires=None,
    max_attempts=3,
    visibility_timeout_s=300,
    backoff_base_s=5,
    dead_letter_retention_s=None,
    headers=None,
)


@pytest.fixture
async def connection(tmp_path):
    """A connection to a database with our tables, in a transaction."""
    engine = prepare_engine(create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/ops.db"))
    async with engine.connect() as opened:
        await opened.run_sync(metadata.create_all)
        await opened.commit()
        await opened.begin()
        yield opened
    await engine.dispose()


@pytest.fixture
def run(connection):
    """Run an op at second 1,000."""
    driver = AsyncConnectionDriver(connection, lambda: 1_000)

    async def run_op(op, *args):
        return await driver.run(Mode.WRITE, op, *args)

    return run_op


async def test_ops_give_the_same_values(run):
    """Single and many rows, counts, dead moves and leases come out as on a plain connection."""
    payloads = [b"1", '"\\u0000 😀"'.encode(), b"3"]
    assert [1, 2, 3] == await run(queues.insert_jobs, "q", payloads, SPEC)
    assert [4] == await run(queues.insert_jobs, "q", [b"4"], SPEC)
    jobs = await run(claims.claim, "q", "w", 10)
    assert [*payloads, b"4"] == [job.payload for job in jobs]
    assert 1 == await run(queues.ack, "q", [Claim(1, 1)])
    assert 1 == await run(queues.ack, "q", [Claim(1, 1), Claim(2, 1)])
    assert [3, 4] == await run(queues.extend, "q", [Claim(3, 1), Claim(4, 1)], 60)
    assert await run(queues.requeue, "q", Claim(3, 1), 60, "boom")
    assert await run(dead_letters.bury, "q", Claim(4, 1), "boom")
    assert 5 == await run(dead_letters.redrive, "q", 4)
    assert [1, 2] == await run(streams.append, "s", [Entry(b"1", "k"), Entry(b"2")])
    assert [2] == [event.offset for event in await run(streams.read, "s", 1, 10)]
    assert [None, 1, 1] == [
        await run(streams.save_offset, "s", "c", 1),
        await run(streams.get_offset, "s", "c"),
        await run(locks.acquire, "l", "a", 60),
    ]
    assert 2 == len(await run(transfer.dump, "jobs", None, 10))


async def test_a_cancelled_op_runs_to_its_end(connection, run):
    """The caller's cancellation goes on once the op is whole; the transaction is usable."""
    task = asyncio.create_task(run(queues.insert_jobs, "q", [b"1"] * 5_000, SPEC))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert 5_000 == len(await run(claims.claim, "q", "w", 10_000))
    await connection.rollback()


async def test_a_refusal_is_opaque(connection, run):
    """The driver's error is the cause of a `DatabaseError`."""
    await connection.exec_driver_sql("DROP TABLE __alkstore_jobs")
    with pytest.raises(DatabaseError, match="no such table") as caught:
        await run(queues.get_job, "q", 1)
    assert "OperationalError" == type(caught.value.__cause__).__name__
