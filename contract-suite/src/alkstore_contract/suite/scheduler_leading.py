"""Who fires: one leader among all runners, and what becomes of a leadership."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from alkstore_contract.expect import expect, expect_equal, expect_raises
from alkstore_contract.pending import end, expect_waiting, turns
from alkstore_contract.properties import prop
from alkstore_contract.suite._running import Runner, fired, jobs
from alkstore_core import Closed, LeadershipLost, StopToken

if TYPE_CHECKING:
    from alkstore_contract.case import Case
    from alkstore_core import Store

START = 1_700_000_000
LEADERSHIP = "__alkstore_scheduler"


@prop("scheduler.two_runners", decided="Scheduler/Running")
async def two_runners(case: Case) -> None:
    """However many run schedules, each boundary fires once."""
    clients = [await case.store() for _ in range(3)]
    await clients[0].schedule("tick", "@every 10s", "work", 1)
    runners = [Runner(client) for client in clients]
    for count in range(1, 7):
        await case.advance(10)
        await fired(clients[0], count)
    for runner in runners:
        await runner.stop()
    expect_equal(await jobs(clients[0]), 6, "jobs of six boundaries")


@prop("scheduler.standby", decided="Scheduler/Running")
async def standby(case: Case) -> None:
    """A runner beside a leader waits without an error; it leads at once when the leader stops."""
    store, other = await case.store(), await case.store()
    await store.schedule("tick", "@every 10s", "work", 1)
    leader = Runner(store)
    await case.advance(10)
    await fired(store, 1)
    second = Runner(other)
    await case.advance(10)
    await fired(store, 2)
    await expect_waiting(second.task, "the second runner ended beside a leader")
    await leader.stop()
    await case.advance(10)
    await fired(store, 3)
    await second.stop()
    expect_equal(await jobs(store), 3, "jobs of three boundaries")


@prop("scheduler.takeover", decided="Scheduler/Running")
async def takeover(case: Case) -> None:
    """When the leader's lease has lapsed a standing-by runner leads; each boundary fires once."""
    store, other = await case.store(), await case.store()
    await store.schedule("tick", "@every 30s", "work", 1)
    leader = Runner(store)
    await case.advance(30)
    await fired(store, 1)
    second = Runner(other)
    await _stands_by(other)
    await case.advance(61)
    with expect_raises(LeadershipLost, "the runner whose lease lapsed"):
        await leader.task
    await fired(store, 3)
    await second.stop()
    expect_equal(await jobs(store), 3, "jobs of three boundaries")


async def _stands_by(store: Store) -> None:
    # It has asked for the lease before it answers a question that was put later.
    await turns()
    await store.locks()
    await turns()


@prop("scheduler.lost", decided="Scheduler/Running")
async def lost(case: Case) -> None:
    """A runner whose leadership is gone raises `LeadershipLost` and has fired nothing since.

    Calling it again goes on with the boundaries that are due.
    """
    store = await case.store()
    await store.schedule("tick", "@every 30s", "work", 1)
    runner = Runner(store)
    await case.advance(30)
    await fired(store, 1)
    await case.advance(61)
    with expect_raises(LeadershipLost, "the runner whose lease lapsed"):
        await runner.task
    expect_equal(await jobs(store), 1, "jobs after the loss")
    again = Runner(store)
    await fired(store, 3)
    await again.stop()


@prop("scheduler.lease", decided="Scheduler/Running")
async def lease(case: Case) -> None:
    """A leader's lease is 60 s, renewed each 20, and one and the same for as long as it leads."""
    store = await case.store()
    await store.schedule("tick", "@every 20s", "work", 1)
    runner = Runner(store)
    tokens = set()
    for count in range(1, 7):
        await case.advance(20)
        await fired(store, count)
        (lock,) = await store.locks()
        expect_equal(lock.name, LEADERSHIP, "the lock")
        left = lock.expires_at - case.clock.now()
        expect(40 <= left <= 60, f"{left} s are left of the lease")  # noqa: PLR2004
        tokens.add(lock.token)
    await runner.stop()
    expect_equal(len(tokens), 1, "leases in two minutes")


@prop("scheduler.lease.idle", decided="Scheduler/Running")
async def lease_idle(case: Case) -> None:
    """A leader with nothing to fire renews its lease at a third of it."""
    store = await case.store()
    await store.schedule("tick", "@every 1s", "work", 1)
    runner = Runner(store)
    await case.advance(1)
    await fired(store, 1)
    await store.schedule("tick", "@every 95s", "work", 1)
    for _ in range(4):
        await case.advance(20)
        # Nothing announces a renewal.
        while (await store.locks())[0].expires_at < case.clock.now() + 60:  # noqa: ASYNC110
            await asyncio.sleep(0)
    await case.advance(15)
    await fired(store, 2)
    await runner.stop()


@prop("scheduler.stop", decided="Scheduler/Running")
async def stop(case: Case) -> None:
    """A stopped runner returns `None` and gives its leadership up: another one leads at once."""
    store, other = await case.store(), await case.store()
    await store.schedule("tick", "@every 10s", "work", 1)
    for count, client in enumerate((store, other, store), start=1):
        runner = Runner(client)
        await case.advance(10)
        await fired(store, count)
        await runner.stop()
        expect_equal(await store.locks(), [], "locks after the stop")


@prop("scheduler.stop.before", decided="Scheduler/Running")
async def stop_before(case: Case) -> None:
    """With a token that was stopped before, `run_schedules` returns and fires nothing."""
    store = await case.store()
    await store.schedule("tick", "@every 10s", "work", 1)
    await case.advance(10)
    token = StopToken()
    token.stop()
    running: asyncio.Future[Any] = asyncio.ensure_future(store.run_schedules(token))
    expect_equal(await running, None, "what it returned")
    expect_equal((await jobs(store), await store.locks()), (0, []), "jobs and locks")


@prop("scheduler.stop.standby", decided="Scheduler/Running")
async def stop_standby(case: Case) -> None:
    """A runner that stands by returns `None` on stop, and the leader goes on."""
    store, other = await case.store(), await case.store()
    await store.schedule("tick", "@every 10s", "work", 1)
    leader = Runner(store)
    await case.advance(10)
    await fired(store, 1)
    second = Runner(other)
    await _stands_by(other)
    await second.stop()
    await case.advance(10)
    await fired(store, 2)
    await leader.stop()


@prop("scheduler.cancelled", decided="Store/Cancellation")
async def cancelled(case: Case) -> None:
    """A cancelled runner gives its leadership up, too."""
    store, other = await case.store(), await case.store()
    await store.schedule("tick", "@every 10s", "work", 1)
    runner = Runner(store)
    await case.advance(10)
    await fired(store, 1)
    await end(runner.task)
    expect(runner.task.cancelled(), "the cancelled runner did not end by its cancellation")
    expect_equal(await store.locks(), [], "locks after the cancellation")
    second = Runner(other)
    await case.advance(10)
    await fired(store, 2)
    await second.stop()


@prop("scheduler.closed", decided="Store/Lifecycle")
async def closed(case: Case) -> None:
    """Closing its store ends a runner with `Closed` and gives its leadership up."""
    store, other = await case.store(), await case.store()
    await store.schedule("tick", "@every 10s", "work", 1)
    runner = Runner(store)
    await case.advance(10)
    await fired(store, 1)
    await store.close()
    with expect_raises(Closed, "the runner of the closed store"):
        await runner.task
    expect_equal(await other.locks(), [], "locks after the close")
    second = Runner(other)
    await case.advance(10)
    await fired(other, 2)
    await second.stop()


@prop("scheduler.nearer", decided="Scheduler/Running", cases=("same client", "other client"))
async def nearer(case: Case, where: str) -> None:
    """A schedule that comes due sooner wakes a sleeping leader, whichever client registers it."""
    store, other = await case.store(), await case.store()
    await store.schedule("far", "@every 19s", "far", 1)
    runner = Runner(store)
    await case.advance(19)
    await fired(store, 1, "far")
    client = store if where == "same client" else other
    await client.schedule("near", "@every 1s", "near", 1)
    await case.advance(1)
    await fired(store, 1, "near")
    await runner.stop()


@prop("scheduler.changed_spec.leader", decided="Scheduler/Schedules")
async def changed_spec_leader(case: Case) -> None:
    """A running leader follows a changed spec at once."""
    store, other = await case.store(), await case.store()
    await store.schedule("tick", "@every 19s", "work", 1)
    runner = Runner(store)
    await case.advance(19)
    await fired(store, 1)
    await other.schedule("tick", "@every 2s", "work", 1)
    await case.advance(2)
    await fired(store, 2)
    await runner.stop()
