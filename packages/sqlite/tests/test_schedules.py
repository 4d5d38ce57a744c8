"""Schedules on one file: who leads, who stands by, what wakes them, and what stops nobody."""

import asyncio
import collections
import functools

import pytest

from alkstore_core import StopToken
from alkstore_sqlite import SqliteStore

LEADERSHIP = "__alkstore_scheduler"


async def until(happened) -> None:
    """Return once something is so; the bound is for failures only."""
    async with asyncio.timeout(30):
        while True:
            found = happened()
            if await found if asyncio.iscoroutine(found) else found:
                return
            await asyncio.sleep(0.002)


async def asleep(clock, due) -> None:
    """Return once somebody waits for a second of the clock."""
    await until(lambda: due in {sleeper.due for sleeper in clock._sleepers})


@pytest.fixture
async def run(store):
    """Start a runner; it ends with the test."""
    stop = StopToken()
    tasks = []

    def start(on=store):
        tasks.append(asyncio.create_task(on.run_schedules(stop)))
        return tasks[-1]

    yield start
    stop.stop()
    await asyncio.gather(*tasks, return_exceptions=True)


async def leader(store) -> int | None:
    """The process that leads."""
    owners = [lock.owner for lock in await store.locks() if lock.name == LEADERSHIP]
    return int(owners[0].split(":")[1]) if owners else None


async def starter(spawn, path, time):
    """Another process that is ready."""
    child = spawn("scheduler.py", path, time)
    await child.expect("ready")
    return child


async def test_two_processes_fire_each_boundary_once(path, spawn, shared_clock):
    """However time jumps and leaderships change, each boundary is one job, consumed at once."""
    start = shared_clock.now()
    handled = []
    async with SqliteStore(path, clock=shared_clock) as store:
        await store.schedule("s", "@every 10s", "q", 1)
        for _ in range(2):
            child = await starter(spawn, path, shared_clock.path)
            child.tell("run")
            await child.expect("running")

        async def settled() -> bool:
            handles = await store.queue("q").claim_batch("me", 100)
            handled.extend(handles)
            await store.queue("q").ack_batch(handles, "me")
            [schedule] = await store.schedules()
            return schedule.next_fire_at > shared_clock.now()

        for seconds in (10, 10, 25, 61, 3, 130, 1, 10, 61, 61, 10, 8):
            shared_clock.advance(seconds)
            await until(settled)
        await until(settled)

        assert shared_clock.now() - start == 390
        assert len(handled) == 39
        assert await store.queue("q").jobs() == []


async def test_a_killed_leader_is_replaced_after_its_lease(path, spawn, shared_clock):
    """A standby leads and fires once the lease of a killed leader has lapsed, not before."""
    async with SqliteStore(path, clock=shared_clock) as store:
        await store.schedule("s", "@every 10s", "q", 1)
        first, second = [await starter(spawn, path, shared_clock.path) for _ in range(2)]
        first.tell("run")
        await until(functools.partial(_leads, store, first))
        first.kill()
        second.tell("run")
        await second.expect("running")

        shared_clock.advance(60)
        assert await leader(store) == first.process.pid
        assert await store.queue("q").jobs() == []
        shared_clock.advance(1)
        await until(functools.partial(_leads, store, second))
        await until(lambda: _jobs(store, 6))


async def _leads(store, child) -> bool:
    return await leader(store) == child.process.pid


async def _jobs(store, count) -> bool:
    return len(await store.queue("q").jobs()) == count


async def test_a_nearer_schedule_of_another_process_wakes_the_leader(
    store, path, clock, run, spawn
):
    """A leader that sleeps until its renewal looks again when others put a nearer schedule."""
    other = await starter(spawn, path, 1_000_000)
    run()
    await asleep(clock, 1_000_020)
    other.tell("schedule", "s", 1, "q")
    await other.expect("scheduled")

    await asleep(clock, 1_000_001)
    await clock.advance(1)
    await until(lambda: _jobs(store, 1))


async def test_a_released_leadership_of_another_process_wakes_a_standby(
    store, path, clock, run, spawn
):
    """A standby leads as soon as another process stops leading; no time has to pass."""
    other = await starter(spawn, path, 1_000_000)
    other.tell("run")
    await other.expect("running")
    await until(functools.partial(_leads, store, other))
    run()
    await asleep(clock, 1_000_060)
    other.tell("stop")
    await other.expect("stopped")

    await asleep(clock, 1_000_020)
    assert await leader(store) not in {None, other.process.pid}


async def test_renewals_do_not_wake_the_leader(store, path, clock, run, monkeypatch):
    """While nothing is due a leader renews and looks every 20 seconds, and does no more."""
    calls = collections.Counter()
    session = store._runtime.engine.auto
    for name in ("acquire", "renew", "list_schedules"):
        monkeypatch.setattr(session, name, _counted(calls, name, getattr(session, name)))
    async with SqliteStore(path, clock=clock) as other, store.listen("fence") as fence:
        run()
        for due in range(1_000_020, 1_000_120, 20):
            await asleep(clock, due)
            await clock.advance(20)
        await asleep(clock, 1_000_120)
        # The watcher that has seen these has seen the renewals before them.
        for _ in range(5):
            await other.notify("fence", None)
            async with asyncio.timeout(30):
                await fence.recv()

    # One look more than renewals, and another because the taken leadership is news.
    assert calls["acquire"] == 1
    assert 5 <= calls["renew"] <= 6
    assert 6 <= calls["list_schedules"] <= 7


def _counted(calls, name, method):
    @functools.wraps(method)
    async def counting(*args, **kwargs):
        calls[name] += 1
        return await method(*args, **kwargs)

    return counting


@pytest.mark.parametrize(
    "damage",
    [
        "headers = 'no json'",
        "headers = '{\"a\": 1}'",
        "headers = '[]'",
        "next_fire_at = 'soon'",
        "spec = '* * * * *'",
        "queue = '__alkstore_outbox:o'",
        "priority = 'high'",
        "expires = 'never'",
        "max_attempts = 'many'",
    ],
)
async def test_a_broken_row_stops_no_other(store, clock, run, sql, damage, caplog):
    """Whatever somebody wrote into one schedule's row, the others fire and can be listed."""
    await store.schedule("bad", "@every 10s", "bad", 1)
    await store.schedule("good", "@every 10s", "q", 1)
    sql(f"UPDATE __alkstore_schedules SET {damage} WHERE name = 'bad'")
    runner = run()
    await asleep(clock, 1_000_010)
    await clock.advance(10)

    await until(lambda: _jobs(store, 1))
    assert not runner.done()
    assert "good" in [schedule.name for schedule in await store.schedules()]
    assert "'bad'" in caplog.text


async def test_a_runner_cancelled_in_acquire_leaves_no_leadership(store, monkeypatch):
    """A lease that was taken when its runner is cancelled is given back before the runner ends."""
    session = store._runtime.engine.auto
    acquire = session.acquire
    taken, answer = asyncio.Event(), asyncio.Event()

    async def slowly(*args):
        token = await acquire(*args)
        taken.set()
        await answer.wait()
        return token

    monkeypatch.setattr(session, "acquire", slowly)
    runner = asyncio.create_task(store.run_schedules(StopToken()))
    async with asyncio.timeout(30):
        await taken.wait()
    assert [lock.name for lock in await store.locks()] == [LEADERSHIP]
    runner.cancel()
    await asyncio.sleep(0)
    answer.set()

    with pytest.raises(asyncio.CancelledError):
        await runner
    assert await store.locks() == []
