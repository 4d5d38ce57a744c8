"""A copy is whole or it is refused, wherever it was interrupted."""

import asyncio
import io
import json
from collections import defaultdict
from contextlib import asynccontextmanager, suppress

import pytest
from attrs import evolve
from dict_engine import DictEngine
from hypothesis import given, settings
from hypothesis import strategies as st

from alkstore_core import (
    CopyRefused,
    DatabaseError,
    EnqueueOpts,
    JobState,
    ManualClock,
    Moved,
    QueueOpts,
    ScheduleOpts,
    StopToken,
    Store,
    copy_store,
)
from alkstore_core.copying.mark import MARK


@pytest.fixture
def other(clock):
    """The engine that is copied to."""
    return DictEngine(clock)


@pytest.fixture
async def target(other):
    """An open and empty store."""
    async with Store(other) as opened:
        yield opened


@pytest.fixture
async def filled(store, clock):
    """A store with something of each kind; nobody works on it."""
    queue = store.queue("work", QueueOpts(visibility_timeout_s=10))
    await queue.enqueue("gone")
    await (await queue.claim_one("w")).ack()
    await queue.enqueue({"n": 1}, EnqueueOpts(priority=5, headers={"trace": "a"}, expires=900))
    await (await queue.claim_one("w")).retry("broke once", 0)
    await queue.enqueue({"n": 2}, EnqueueOpts(priority=9))
    await (await queue.claim_one("w")).fail("broken\0 for good")
    await queue.enqueue({"n": 3}, EnqueueOpts(delay=500))
    await queue.enqueue({"n": 4}, EnqueueOpts(priority=7))
    await queue.claim_one("lost worker")
    await store.outbox("mail").enqueue({"to": "x"})
    stream = store.stream("orders")
    await stream.publish("trimmed")
    await stream.trim_to(1)
    await stream.publish_with_key("k", {"e": 1}, headers={"h": "v"})
    await store.stream("other").publish({"e": 2})
    await clock.advance(20)
    await stream.publish({"e": 3})
    await stream.publish_with_key("k", {"e": 4})
    for consumer, offset in {"new": 0, "before": 1, "between": 3, "end": 5, "beyond": 99}.items():
        await stream.save_offset(consumer, offset)
    await store.schedule("s", "@every 1h", "work", {"at": 1}, ScheduleOpts(priority=2, expires=9))
    return store


async def test_everything_arrives_as_it_was(filled, target):
    """Each kind has all its fields on the other side; numbers alone are new."""
    report = await copy_store(filled, target)

    counted = (report.jobs, report.dead_jobs, report.events, report.consumers, report.schedules)
    assert (4, 1, 4, 5, 1) == counted
    assert not report.resumed
    work = await target.queue("work").jobs()
    assert [1, 2, 3] == [job.id for job in work]
    first, delayed, lapsed = work
    assert first.payload == b'{"n":1}'
    assert (first.attempts, first.last_error, first.priority) == (1, "broke once", 5)
    assert (first.headers, first.expires_at, first.created_at) == ({"trace": "a"}, 1900, 1000)
    assert (delayed.run_at, delayed.visibility_timeout_s) == (1500, 10)
    assert (lapsed.state, lapsed.worker_id) == (JobState.PROCESSING, "lost worker")
    (dead,) = await target.queue("work").dead_jobs()
    assert (dead.payload, dead.attempts, dead.died_at) == (b'{"n":2}', 1, 1000)
    assert dead.last_error == (await filled.queue("work").dead_jobs())[0].last_error
    assert ["mail"] == await target.outboxes()
    events = await target.stream("orders").read_since(0, 10)
    assert [("k", b'{"e":1}', {"h": "v"}, 1000), (None, b'{"e":3}', None, 1020)] == [
        (e.key, e.payload, e.headers, e.created_at) for e in events[:2]
    ]
    assert await filled.schedules() == await target.schedules()


async def test_consumers_stand_where_they_stood(filled, target):
    """Each is at the last copied event that it had passed, before the first one at 0."""
    await copy_store(filled, target)

    stream = target.stream("orders")
    assert [1, 3, 4] == [event.offset for event in await stream.read_since(0, 10)]
    assert {"new": 0, "before": 0, "between": 1, "end": 4, "beyond": 4} == {
        place.consumer: place.offset for place in await stream.consumers()
    }


async def test_the_source_is_only_read(engine, filled, target):
    """Nothing that writes is called on it; the one transaction that begins does nothing."""
    engine.calls.clear()
    await copy_store(filled, target)

    reads = {"dump", "names", "stats", "bounds", "read", "list_locks", "list_schedules"}
    assert reads | {"begin", "rollback"} == set(engine.calls)


async def test_a_target_says_nothing_of_the_copy_once_it_is_whole(filled, target):
    """The mark is gone, and no lock is left."""
    await copy_store(filled, target)

    assert ["s"] == [schedule.name for schedule in await target.schedules()]
    assert [] == await target.locks()


async def test_where_each_row_went_is_told(filled, target):
    """Calls and lines of JSON say the same: kind, name, and both numbers."""
    calls, lines = [], io.StringIO()
    await copy_store(filled, target, map_to=calls.append)
    await copy_store(filled, target, map_to=lines)

    assert Moved("jobs", "work", 2, 1) in calls
    assert Moved("dead_jobs", "work", 3, 5) in calls
    assert Moved("events", "orders", 2, 1) in calls
    assert 9 == len(calls)
    assert calls == [Moved(**json.loads(line)) for line in lines.getvalue().splitlines()]


async def test_progress_is_told(filled, target):
    """Every step ends at its total."""
    told = []
    await copy_store(filled, target, progress=told.append, batch=1)

    last = {(at.step, at.kind): (at.done, at.total) for at in told}
    assert last["reading", "jobs"] == (4, None)
    assert last["copying", "jobs"] == last["verifying", "jobs"] == (4, 4)
    assert last["copying", "consumers"] == (5, 5)


async def test_empty_copies_to_empty(store, target):
    """Nothing is a copy of nothing."""
    report = await copy_store(store, target)

    assert 0 == report.jobs + report.dead_jobs + report.events + report.schedules


async def test_a_copy_again_writes_nothing(filled, target, other):
    """A target that already is the copy is verified, as after a kill behind the last commit."""
    await copy_store(filled, target)
    other.calls.clear()
    report = await copy_store(filled, target)

    assert report.resumed
    assert not {"begin", "load"} & set(other.calls)


async def refused(source, target, why, **options):
    """The copy is refused, for this reason."""
    with pytest.raises(CopyRefused, match=why):
        await copy_store(source, target, **options)


async def test_a_live_claim_is_refused(filled, target, other):
    """Somebody is at work there; nothing was written."""
    await filled.queue("work").claim_one("w")

    await refused(filled, target, "1 live claims")
    assert not other.data.jobs


async def test_a_live_claim_of_an_outbox_is_refused(filled, target):
    """Deliveries are work as well."""
    await filled.outbox("mail").backing.claim_one("w")

    await refused(filled, target, "1 live claims")


@pytest.mark.parametrize("leading", ["source", "target"])
async def test_a_leading_scheduler_is_refused(filled, target, leading):
    """It would fire meanwhile, here or there."""
    stop = StopToken()
    led = filled if leading == "source" else target
    running = asyncio.create_task(led.run_schedules(stop))
    leads = led._runtime.engine.hold("after", "acquire")
    await leads.reached.wait()
    leads.open()

    await refused(filled, target, f"schedules of the {leading}")
    stop.stop()
    await running


async def test_one_database_is_refused(filled, engine):
    """Also by way of two stores."""
    async with Store(engine) as again:
        await refused(filled, again, "are one database")
        await refused(filled, filled, "are one database")


USES = {
    "a job": lambda store: store.queue("q").enqueue(1),
    "an event": lambda store: store.stream("s").publish(1),
    "a position": lambda store: store.stream("s").save_offset("c", 1),
    "a schedule": lambda store: store.schedule("t", "@every 1m", "q", 1),
}


@pytest.mark.parametrize("use", USES)
async def test_a_target_in_use_is_refused(filled, target, other, use):
    """Whatever it holds stays as it is."""
    await USES[use](target)
    before = other.data.copy()

    await refused(filled, target, "the target is in use")
    assert vars(before) | {"leases": {}, "last": 0} == vars(other.data) | {"leases": {}, "last": 0}


@pytest.mark.parametrize("step", ["copying", "verifying"])
@pytest.mark.parametrize("use", USES)
async def test_a_moving_source_is_refused(filled, target, use, step):
    """What came in while it was copied is not left out silently."""
    hits = asyncio.Event()

    def hit(at):
        if (at.step, at.kind) == (step, "events"):
            hits.set()

    async def move():
        await hits.wait()
        await USES[use](filled)

    moving = asyncio.create_task(move())
    await refused(filled, target, "has changed while", progress=hit)
    await moving
    await refused(filled, target, "start with an empty target")


async def test_what_is_claimed_at_the_very_end_is_refused(filled, target, engine):
    """A claim that begins when all jobs have been compared is still seen."""

    def claim_last(at):
        if (at.step, at.kind) == ("copying", "consumers"):
            job = engine.data.jobs[2]
            held = {"state": JobState.PROCESSING, "claim_expires_at": 9_999, "worker_id": "w"}
            engine.data.jobs[2] = evolve(job, **held)

    await refused(filled, target, "live claims", progress=claim_last)


@pytest.mark.parametrize("write", ["publish_tx", "enqueue_tx"])
async def test_an_open_transaction_is_refused(filled, target, write, clock):
    """What it is about to commit would be missing from the copy."""
    begun, end = asyncio.Event(), asyncio.Event()

    async def writer():
        async with filled.transaction() as tx:
            await getattr(tx, write)("late", 1)
            begun.set()
            await end.wait()

    writing = asyncio.create_task(writer())
    await begun.wait()
    await refused(filled, target, "somebody writes to the source")
    end.set()
    await writing
    await copy_store(filled, target)
    assert [1] == [e.payload_as(int) for e in await target.stream("late").read_since(0, 9)] or [
        1
    ] == [job.payload_as(int) for job in await target.queue("late").jobs()]


async def test_an_unfinished_copy_is_no_source(filled, target, other, engine):
    """A copy of what is not whole would look whole."""
    other.faults["delete_schedule"].append(DatabaseError("no"))
    with pytest.raises(DatabaseError, match="no"):
        await copy_store(filled, target)

    assert MARK in [schedule.name for schedule in await target.schedules()]
    (finding,) = await target.diagnose()
    assert ("copy.unfinished", "error") == (finding.code, finding.severity)
    async with Store(DictEngine(engine.clock)) as third:
        await refused(target, third, "not whole")
    await copy_store(filled, target)
    assert [] == await target.diagnose()


async def test_the_mark_of_another_copy_is_refused(filled, target, other, engine):
    """What was begun from elsewhere is not gone on with."""
    other.faults["delete_schedule"].append(DatabaseError("no"))
    with pytest.raises(DatabaseError, match="no"):
        await copy_store(filled, target)

    async with Store(DictEngine(engine.clock)) as elsewhere:
        await refused(elsewhere, target, "mark of a copy of something else")


@pytest.mark.parametrize("payload", [b"1", b'{"source":1}', b"no json"])
async def test_a_mark_of_another_version_is_refused(filled, target, other, payload):
    """It cannot be told how far that one was."""
    other.faults["delete_schedule"].append(DatabaseError("no"))
    with pytest.raises(DatabaseError, match="no"):
        await copy_store(filled, target)
    schedules = other.data.schedules
    object.__setattr__(schedules[MARK], "payload", payload)

    await refused(filled, target, "not one of this version")


async def test_two_copies_into_one_target_do_not_mix(filled, other):
    """One of them ends it; the other, which finds the mark moved, writes nothing more."""
    stopped, go_on = asyncio.Event(), asyncio.Event()
    steps = []

    async def gate(when, name):
        if (when, name) == ("before", "begin") and asyncio.current_task().get_name() == "slow":
            steps.append(name)
            if len(steps) == 3:
                stopped.set()
                await go_on.wait()

    other.gate = gate
    async with Store(other) as one, Store(other) as two:
        slow = asyncio.create_task(copy_store(filled, one, batch=1), name="slow")
        await stopped.wait()
        report = await copy_store(filled, two, batch=1)
        assert report.resumed
        whole = contents(other)
        go_on.set()
        with pytest.raises(CopyRefused, match="another copy"):
            await slow
        assert whole == contents(other)


async def test_a_target_that_loses_a_row_is_refused(filled, target, other):
    """What was written is read back before anything is said, and the mark stays."""

    def lose(at):
        if (at.step, at.kind, at.done) == ("copying", "events", 4):
            del other.data.events[2]

    await refused(filled, target, "does not hold what was copied", progress=lose)
    assert MARK in [schedule.name for schedule in await target.schedules()]


@pytest.mark.parametrize("kind", ["jobs", "dead_jobs", "events", "consumers", "schedules"])
async def test_a_target_that_changes_a_row_is_refused(filled, target, other, kind, monkeypatch):
    """An engine that does not keep a field does not get away with it."""
    store = type(other.auto).store

    def forgetful(session, into, fields):
        if into == kind and fields.get("name") != MARK:
            name = {"consumers": "offset", "schedules": "priority"}.get(kind, "headers")
            fields[name] = '{"x":"y"}' if name == "headers" else 77
        return store(session, into, fields)

    monkeypatch.setattr(type(other.auto), "store", forgetful)
    await refused(filled, target, "does not hold what was copied")


async def test_a_row_that_changes_before_it_is_copied_is_refused(filled, target, engine):
    """Both sides are equal then, but not to what was there at the beginning."""

    def change(at):
        if (at.step, at.kind, at.done) == ("copying", "jobs", 1):
            engine.data.jobs[4] = evolve(engine.data.jobs[4], priority=99)

    await refused(filled, target, "has changed while", progress=change, batch=1)


async def test_a_target_that_is_taken_into_use_at_the_last_moment_is_refused(
    filled, target, engine, other
):
    """It is looked at once more in the transaction that puts the mark."""
    theirs = dict(list(engine.data.jobs.items())[:1])

    async def gate(when, name):
        if (when, name) == ("before", "begin"):
            other.data.jobs = dict(theirs)

    other.gate = gate
    await refused(filled, target, "begun to use the target")
    assert (theirs, {}) == (other.data.jobs, other.data.schedules)


BROKEN = {
    "the same page for ever": (lambda _kind, _after, rows: rows, "in ascending order"),
    "a page backwards": (
        lambda _kind, after, rows: [r for r in rows if not after or r.position > after][::-1],
        "in ascending order",
    ),
    "names twice": (
        lambda kind, after, rows: (
            rows if kind == "schedules" else [r for r in rows if not after or r.position > after]
        ),
        "twice",
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
async def test_an_engine_that_dumps_wrongly_is_told(filled, target, engine, monkeypatch, fault):
    """A copy neither runs for ever nor guesses what was meant."""
    change, told = BROKEN[fault]
    dump = engine.auto.dump

    async def broken(kind, after, limit):
        return change(kind, after, await dump(kind, None, 1_000))

    monkeypatch.setattr(engine.auto, "dump", broken)
    with pytest.raises(DatabaseError, match=told):
        await copy_store(filled, target)


@pytest.mark.parametrize("change", [lambda ids: ids[::-1], lambda ids: ids[:-1]])
async def test_a_target_that_numbers_wrongly_is_told(filled, target, other, monkeypatch, change):
    """Numbers that do not ascend would change the order; the batch is not committed."""
    load = type(other.auto).load

    async def broken(session, kind, records):
        return change(await load(session, kind, records))

    monkeypatch.setattr(type(other.auto), "load", broken)
    with pytest.raises(DatabaseError, match="have to ascend"):
        await copy_store(filled, target)
    assert {} == other.data.jobs


@pytest.mark.parametrize("batch", [0, -1])
async def test_a_batch_has_rows(filled, target, batch):
    """A copy that would never end is not begun."""
    with pytest.raises(DatabaseError, match="at least 1 row"):
        await copy_store(filled, target, batch=batch)


async def test_pages_shrink_with_large_payloads(store, target, monkeypatch, engine):
    """A page of large rows is soon a small one, so that memory does not grow with payloads."""
    await store.queue("q").enqueue_many(["x" * 1_000_000] * 40)
    limits = []
    dump = type(engine.auto).dump

    def watched(session, kind, after, limit):
        limits.append((session.engine, limit))
        return dump(session, kind, after, limit)

    monkeypatch.setattr(type(engine.auto), "dump", watched)
    await copy_store(store, target, batch=10)

    assert {10, 4} == {limit for of, limit in limits if of is engine and limit > 1}


# -- interruptions --------------------------------------------------------------------------


class Killed(DatabaseError):  # noqa: N818 - as processes are
    """The process ended here."""


def kill_at(engine, moment):
    """Fail at the given one of the moments before and after calls; count them."""
    seen = [0]
    # Nothing of a process that ended stays open.
    engine.open_transactions.clear()

    async def gate(when, name):
        seen[0] += 1
        if seen[0] == moment:
            raise Killed(f"{when} {name}")

    engine.gate = gate
    return seen


async def test_a_copy_is_whole_wherever_it_was_interrupted(filled, clock):
    """At each moment before and after every call on the target, its commits among them."""
    calm = DictEngine(clock)
    async with Store(calm) as target:
        moments = kill_at(calm, None)
        await copy_store(filled, target, batch=2)
    assert moments[0] > 60
    for moment in range(1, moments[0] + 1):
        engine = DictEngine(clock)
        async with Store(engine) as target:
            kill_at(engine, moment)
            with pytest.raises(Killed):
                await copy_store(filled, target, batch=2)
            kill_at(engine, None)
            await copy_store(filled, target, batch=2)
        assert contents(calm) == contents(engine), moment


def contents(engine):
    """Everything but the numbers counted up, which skip what was rolled back."""
    data = engine.data
    return data.jobs, data.events, data.offsets, data.schedules


PAYLOADS = st.one_of(st.integers(), st.text(max_size=5), st.none())
NAMES = st.sampled_from(["a", "b", "é"])
ACTIONS = st.one_of(
    st.tuples(st.just("enqueue"), NAMES, PAYLOADS, st.integers(-2, 2), st.integers(0, 90)),
    st.tuples(st.just("publish"), NAMES, PAYLOADS, st.sampled_from(["k", "l"])),
    st.tuples(st.just("fail"), NAMES),
    st.tuples(st.just("retry"), NAMES, st.integers(0, 90)),
    st.tuples(st.just("abandon"), NAMES),
    st.tuples(st.just("save"), NAMES, st.sampled_from(["c", "d"]), st.integers(0, 30)),
    st.tuples(st.just("trim"), NAMES, st.integers(0, 20)),
    st.tuples(st.just("wait"), st.integers(1, 40)),
    st.tuples(st.just("schedule"), NAMES, st.integers(1, 9)),
)


async def act(store, clock, action, name, *rest):
    """Do one thing to a store."""
    queue, stream = store.queue(name) if action != "wait" else None, None
    if action == "enqueue":
        payload, priority, delay = rest
        await queue.enqueue(payload, EnqueueOpts(priority=priority, delay=delay))
    elif action in {"fail", "retry", "abandon"}:
        handle = await queue.claim_one("w")
        if handle and action == "fail":
            await handle.fail("failed")
        elif handle and action == "retry":
            await handle.retry("retried", rest[0])
    elif action == "wait":
        await clock.advance(name)
    elif action == "schedule":
        await store.schedule(name, f"@every {rest[0]}m", "a", rest[0])
    else:
        stream = store.stream(name)
        if action == "publish":
            await stream.publish_with_key(rest[1], rest[0])
        elif action == "save":
            await stream.save_offset(*rest)
        else:
            await stream.trim_to(rest[0])


async def unread(store):
    """What each consumer has before it."""
    found = {}
    for name in await store.streams():
        for place in await store.stream(name).consumers():
            events = await store.stream(name).read_from_consumer(place.consumer, 1000)
            found[name, place.consumer] = [(e.key, e.payload, e.created_at) for e in events]
    return found


async def claims(store):
    """What workers get, in their order; it empties the queues."""
    found = defaultdict(list)
    for name in await store.queues():
        while handle := await store.queue(name).claim_one("w"):
            job = handle.job
            found[name].append((job.payload, job.attempts, job.priority, job.run_at))
            await handle.ack()
    return found


@asynccontextmanager
async def opened(*engines):
    """Stores on engines."""
    stores = [Store(engine) for engine in engines]
    for store in stores:
        await store.open()
    yield stores
    for store in stores:
        await store.close()


@given(
    actions=st.lists(ACTIONS, max_size=40),
    kills=st.lists(st.integers(1, 60), max_size=6),
    batch=st.integers(1, 5),
)
@settings(deadline=None, max_examples=60)
def test_readers_and_workers_go_on_as_they_would_have(actions, kills, batch):
    """Each consumer's unread events and each queue's order of claims are equal on both sides."""

    async def scenario():
        clock = ManualClock(start=1_000)
        source_engine, target_engine = DictEngine(clock), DictEngine(clock)
        async with opened(source_engine, target_engine) as (source, target):
            for action in actions:
                await act(source, clock, *action)
            await clock.advance(400)
            for moment in kills:
                kill_at(target_engine, moment)
                with suppress(Killed):
                    await copy_store(source, target, batch=batch)
            kill_at(target_engine, None)
            await copy_store(source, target, batch=batch)
            assert await unread(source) == await unread(target)
            assert await claims(source) == await claims(target)

    asyncio.run(scenario())
