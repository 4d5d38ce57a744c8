"""Schedules: who fires them, when, and what happens when things go wrong."""

import asyncio

import attrs
import pytest
from dict_engine import DictEngine, until

from alkstore_core import (
    Closed,
    CodecError,
    DatabaseError,
    InvalidSpec,
    JobState,
    LeadershipLost,
    Schedule,
    ScheduleOpts,
    StopToken,
    Store,
)
from alkstore_core import scheduler as scheduler_module


class Running:
    """A runner under way."""

    def __init__(self, store):
        self.stop = StopToken()
        self.task = asyncio.create_task(store.run_schedules(self.stop))

    async def end(self):
        """Stop and wait."""
        self.stop.stop()
        return await self.task


@pytest.fixture
async def run(store):
    """Start a runner; it ends with the test."""
    runners = []

    def start(on=store):
        runners.append(Running(on))
        return runners[-1]

    yield start
    for runner in runners:
        runner.stop.stop()
    await asyncio.gather(*(r.task for r in runners), return_exceptions=True)


def fired(engine, queue="q"):
    """How many jobs were fired so far."""
    return sum(job.queue == queue for job in engine.data.jobs.values())


async def leading(engine):
    """Wait until somebody leads and has looked at the schedules."""
    await until(lambda: engine.data.leases and "list_schedules" in engine.calls)


async def asleep(clock, due):
    """Wait until somebody sleeps until a time."""
    await until(lambda: due in {sleeper.due for sleeper in clock._sleepers})


async def test_schedule_is_stored_and_returned(store):
    """`schedule` returns what is stored; its first boundary is one interval from now."""
    opts = ScheduleOpts(priority=2, expires=9, headers={"a": "b"})
    schedule = await store.schedule("nightly", "@every  2m", "q", {"n": 1}, opts)

    expected = Schedule(
        name="nightly",
        spec="@every  2m",
        queue="q",
        payload=b'{"n":1}',
        priority=2,
        max_attempts=None,
        expires=9,
        headers={"a": "b"},
        next_fire_at=1_120,
    )
    assert expected == schedule
    assert [expected] == await store.schedules()


async def test_same_spec_keeps_the_rhythm(clock, store):
    """The same spec updates all but the boundary; another one starts anew."""
    await store.schedule("s", "@every 60s", "q", 1)
    await clock.advance(30)

    same = await store.schedule("s", "@every 60s", "other", 2)
    changed = await store.schedule("s", "@every 1m", "other", 2)

    assert ("other", b"2", 1_060) == (same.queue, same.payload, same.next_fire_at)
    assert 1_090 == changed.next_fire_at


@pytest.mark.parametrize("spec", ["", "@every", "@every 0s", "@every 5", "* * * * *", None, 5])
async def test_bad_spec_is_refused(engine, store, spec):
    """What is not in the grammar is refused before anything is stored."""
    with pytest.raises(InvalidSpec):
        await store.schedule("s", spec, "q", 1)

    assert {} == engine.data.schedules


async def test_bad_payload_is_refused(engine, store):
    """A payload that is no JSON is refused before anything is stored."""
    with pytest.raises(CodecError):
        await store.schedule("s", "@every 1s", "q", {1})

    assert {} == engine.data.schedules


async def test_unschedule(store):
    """A schedule is deleted once."""
    await store.schedule("s", "@every 1s", "q", 1)

    assert [True, False] == [await store.unschedule("s"), await store.unschedule("s")]


async def test_nothing_fires_without_a_runner(clock, engine, store):
    """There is no timer of its own."""
    await store.schedule("s", "@every 1s", "q", 1)
    await clock.advance(10)

    assert 0 == fired(engine)


async def test_boundaries_fire_as_jobs(clock, engine, store, run):
    """Each boundary is one job, with the schedule's options over a plain queue's defaults."""
    await store.schedule("s", "@every 10s", "q", {"n": 1}, ScheduleOpts(max_attempts=7, expires=5))
    run()
    await leading(engine)
    await asleep(clock, 1_010)
    assert 0 == fired(engine)

    await clock.advance(10)
    await until(lambda: fired(engine) == 1)

    job = await store.queue("q").get_job(1)
    assert (b'{"n":1}', JobState.PENDING, 1_010) == (job.payload, job.state, job.run_at)
    assert (7, 1_015, 300, 5) == (
        job.max_attempts,
        job.expires_at,
        job.visibility_timeout_s,
        job.backoff_base_s,
    )
    await asleep(clock, 1_020)
    await clock.advance(10)
    await until(lambda: fired(engine) == 2)


async def test_missed_boundaries_fire_up_to_64(clock, engine, store, run):
    """Missed boundaries fire, 64 at most; then the rhythm goes on ahead of now."""
    await store.schedule("few", "@every 10s", "few", 1)
    await store.schedule("many", "@every 1s", "many", 1)
    await clock.advance(105)
    run()

    await until(lambda: fired(engine, "many"))

    assert 10 == fired(engine, "few")
    assert 64 == fired(engine, "many")
    assert [1_110, 1_106] == [s.next_fire_at for s in await store.schedules()]


async def test_fired_jobs_wake_workers(clock, engine, store, run):
    """Workers of the queue wake when a boundary fires."""
    await store.schedule("s", "@every 10s", "q", 1)
    async with store.queue("q").wakes() as wakes:
        run()
        await asleep(clock, 1_010)
        await clock.advance(10)

        assert "q" == (await wakes.recv()).channel


async def test_nearer_schedule_wakes_a_sleeping_leader(clock, engine, store, run):
    """A schedule that is added with a nearer boundary is not slept over."""
    run()
    await asleep(clock, 1_020)

    await store.schedule("s", "@every 1s", "q", 1)
    await asleep(clock, 1_001)
    await clock.advance(1)

    await until(lambda: fired(engine) == 1)


async def test_stop_releases_the_leadership(engine, store, run):
    """A stopped runner returns `None`; the leadership is free at once."""
    runner = run()
    await leading(engine)
    assert "__alkstore_scheduler" == (await store.locks())[0].name

    assert None is await runner.end()

    assert [] == await store.locks()


async def test_stopped_token_ends_at_once(engine, store):
    """A runner with a stopped token returns without leading."""
    stop = StopToken()
    stop.stop()

    assert None is await store.run_schedules(stop)

    assert "acquire" not in engine.calls


async def test_cancelled_runner_releases_the_leadership(engine, store, run):
    """A cancelled runner gives the leadership back before it ends."""
    runner = run()
    await leading(engine)
    runner.task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await runner.task
    assert {} == engine.data.leases


async def test_second_runner_stands_by_and_takes_over(clock, engine, store, run):
    """One leads, the other takes over when the leader stops."""
    first = run()
    await leading(engine)
    second = run()
    await until(lambda: "list_locks" in engine.calls)
    token = engine.data.leases["__alkstore_scheduler"].token

    await first.end()

    await until(lambda: engine.data.leases)
    assert engine.data.leases["__alkstore_scheduler"].token > token
    await second.end()


async def test_standby_takes_over_when_the_lease_lapses(clock, engine, store, run):
    """A leader that died without a word is replaced the second after its lease."""
    await engine.auto.acquire("__alkstore_scheduler", "dead", 60)
    await store.schedule("s", "@every 10s", "q", 1)
    run()
    await asleep(clock, 1_060)
    await clock.advance(60)
    assert 0 == fired(engine)
    await asleep(clock, 1_061)
    await clock.advance(1)

    await until(lambda: fired(engine) == 6)


async def test_lease_is_renewed_at_a_third(clock, engine, store, run):
    """An idle leader renews every 20 s and so leads for ever."""
    run()
    for due in range(1_020, 1_200, 20):
        await asleep(clock, due)
        await clock.advance(20)
    await asleep(clock, 1_200)

    assert 1_240 == engine.data.leases["__alkstore_scheduler"].expires_at


async def test_lost_lease_raises_and_fires_nothing(clock, engine, store, run):
    """A leader that slept over its lease raises `LeadershipLost`; nothing was fired."""
    await store.schedule("s", "@every 10s", "q", 1)
    runner = run()
    await asleep(clock, 1_010)
    await clock.advance(61)

    with pytest.raises(LeadershipLost):
        await runner.task
    assert 0 == fired(engine)


async def test_lease_lost_between_renewal_and_firing_fires_nothing(clock, engine, store, run):
    """The lease is checked again in the very transaction that fires."""
    await store.schedule("s", "@every 10s", "q", 1)
    runner = run()
    await asleep(clock, 1_010)
    gate = engine.hold("before", "begin")
    await clock.advance(10)
    await gate.reached.wait()
    await clock.advance(61)
    gate.open()

    with pytest.raises(LeadershipLost):
        await runner.task
    assert 0 == fired(engine)
    assert set() == engine.open_transactions


async def test_boundary_fired_by_another_is_not_fired_again(clock, engine, store, run):
    """The advance of a boundary is compare-and-set: who comes second inserts nothing."""
    schedule = await store.schedule("s", "@every 10s", "q", 1)
    run()
    await asleep(clock, 1_010)
    gate = engine.hold("before", "advance")
    await clock.advance(10)
    await gate.reached.wait()
    (tx,) = engine.open_transactions
    tx.mine.schedules["s"] = attrs.evolve(schedule, next_fire_at=1_020)
    gate.open()

    await asleep(clock, 1_020)
    assert 0 == fired(engine)


async def test_schedule_changed_before_its_tick_fires_as_changed(clock, engine, store, run):
    """What is fired is what stands in the row when its transaction reads it."""
    await store.schedule("s", "@every 10s", "q", "old")
    run()
    await asleep(clock, 1_010)
    gate = engine.hold("before", "begin")
    await clock.advance(10)
    await gate.reached.wait()
    schedule = engine.data.schedules["s"]
    engine.data.schedules["s"] = attrs.evolve(schedule, payload=b'"new"')
    gate.open()
    await until(lambda: fired(engine) == 1)

    assert b'"new"' == engine.data.jobs[1].payload


async def test_broken_row_stops_no_other(clock, engine, store, run, caplog):
    """A row that cannot be understood is told once; the others fire."""
    good = await store.schedule("good", "@every 10s", "q", 1)
    engine.data.schedules["cron"] = attrs.evolve(good, name="cron", spec="* * * * *")
    engine.data.schedules["evil"] = attrs.evolve(good, name="evil", queue="__alkstore_outbox:o")
    run()
    await asleep(clock, 1_010)
    for due in (1_020, 1_030):
        await clock.advance(10)
        await asleep(clock, due)

    assert 2 == len(engine.data.jobs)
    assert 1 == caplog.text.count("'cron'")
    assert 1 == caplog.text.count("'evil'")


async def test_failing_schedule_stops_no_other(clock, engine, store, run, caplog, monkeypatch):
    """When one schedule's rows cannot be written, the others of the same tick fire."""
    for name in ("a", "b", "c"):
        await store.schedule(name, "@every 10s", name, 1)
    insert = type(engine.auto).insert_jobs

    async def fail_b(self, queue, *args, **kwargs):
        if queue == "b":
            raise DatabaseError("disk full")
        return await insert(self, queue, *args, **kwargs)

    monkeypatch.setattr(type(engine.auto), "insert_jobs", fail_b)
    run()
    await asleep(clock, 1_010)
    await clock.advance(10)

    await until(lambda: fired(engine, "a") == 1 and fired(engine, "c") == 1)
    await until(lambda: "'b' did not fire: disk full" in caplog.text)
    assert [1_020, 1_010, 1_020] == [s.next_fire_at for s in await store.schedules()]


async def test_short_outage_does_not_end_the_runner(clock, engine, store, run, monkeypatch):
    """A leader whose database does not answer tries again, and goes on leading."""
    monkeypatch.setattr(scheduler_module, "RETRY_S", 0.001)
    await store.schedule("s", "@every 10s", "q", 1)
    runner = run()
    await asleep(clock, 1_010)
    engine.faults["renew"] += [DatabaseError("connection lost")] * 3
    async with store.queue("q").wakes() as wakes:
        await clock.advance(10)
        await wakes.recv()

    assert 1 == fired(engine)
    assert not runner.task.done()


async def test_long_outage_is_lost_leadership(clock, engine, store, run, monkeypatch):
    """An outage that outlasts the lease ends a leader with `LeadershipLost`."""
    monkeypatch.setattr(scheduler_module, "LEASE_S", 0)
    monkeypatch.setattr(scheduler_module, "RETRY_S", 0)
    engine.faults["list_schedules"] += [DatabaseError("connection lost")] * 100

    with pytest.raises(LeadershipLost) as caught:
        await run().task
    assert isinstance(caught.value.__cause__, DatabaseError)


async def test_outage_of_a_standby_is_told(engine, store, run, monkeypatch):
    """A runner that cannot even ask for the leadership raises the database's error."""
    monkeypatch.setattr(scheduler_module, "LEASE_S", 0)
    monkeypatch.setattr(scheduler_module, "RETRY_S", 0)
    engine.faults["acquire"] += [DatabaseError("connection lost")] * 100

    with pytest.raises(DatabaseError, match="connection lost"):
        await run().task


async def test_close_ends_runners_and_frees_the_leadership(clock):
    """A runner of a store that closes raises `Closed`, and its leadership is free."""
    engine = DictEngine(clock)
    async with Store(engine) as store:
        runner = Running(store)
        await leading(engine)

    with pytest.raises(Closed):
        await runner.task
    assert {} == engine.data.leases
    assert "close" == engine.calls[-1]


async def test_runner_leaves_no_task(engine, store):
    """A runner that ended leaves no task and no topic behind."""
    before = asyncio.all_tasks()
    runner = Running(store)
    await leading(engine)
    await runner.end()

    await until(lambda: asyncio.all_tasks() == before)
    assert {} == engine.signals._topics


async def test_runner_waits_for_the_writer(clock, engine, store, run):
    """A tick takes its turn behind an open transaction and then fires."""
    await store.schedule("s", "@every 10s", "q", 1)
    run()
    await asleep(clock, 1_010)
    async with store.begin_tx():
        await clock.advance(10)
        await until(lambda: store._runtime.slot._queue)
        assert 0 == fired(engine)

    await until(lambda: fired(engine) == 1)


async def test_runner_in_a_transaction_of_its_own_is_refused(store):
    """A task that holds the writer cannot run schedules: it would wait for itself."""
    async with store.begin_tx():
        with pytest.raises(DatabaseError, match="run it in another task"):
            await store.run_schedules(StopToken())


async def test_close_does_not_wait_for_a_runner_behind_a_transaction(clock):
    """`close` rolls back the transaction that a runner waits for."""
    engine = DictEngine(clock)
    store = Store(engine)
    await store.open()
    tx = await store.begin_tx()
    runner = Running(store)
    await until(lambda: store._runtime.slot._queue)

    await store.close()

    with pytest.raises(Closed):
        await runner.task
    with pytest.raises(Closed):
        await tx.commit()
