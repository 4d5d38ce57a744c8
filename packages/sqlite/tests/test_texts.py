"""Payloads, names and error texts with anything in them, as the file keeps them."""

import asyncio
from typing import Any

import pytest

from alkstore_core import CodecError, EnqueueOpts, InvalidName, ReservedName

PAYLOADS = {
    "text": ("tea", b'"tea"'),
    "unicode": ({"ключ": "☃ 🍵"}, '{"ключ":"☃ 🍵"}'.encode()),
    "nul": ("a\0b", b'"a\\u0000b"'),
    "order": ({"b": 1, "a": [1, None, True]}, b'{"b":1,"a":[1,null,true]}'),
    "float": ([1.0, 1e300, -0.0], b"[1.0,1e+300,-0.0]"),
    "big": (10**400, b"1" + b"0" * 400),
    "none": (None, b"null"),
    "empty": ("", b'""'),
    "separators": ("\u2028/<>", '"\u2028/<>"'.encode()),
}


@pytest.mark.parametrize("kind", PAYLOADS)
async def test_payloads_are_kept_byte_for_byte(store, sql, kind):
    """The compact UTF-8 form is what is stored, as a BLOB, and what comes back."""
    value, expected = PAYLOADS[kind]
    job_id = await store.queue("x").enqueue(value)
    offset = await store.stream("x").publish(value)

    assert [(expected, "blob")] == sql("SELECT payload, typeof(payload) FROM __alkstore_jobs")
    assert [(expected, "blob")] == sql("SELECT payload, typeof(payload) FROM __alkstore_events")
    job = await store.queue("x").get_job(job_id)
    [event] = await store.stream("x").read_since(0, 1)
    assert (expected, expected, offset) == (job.payload, event.payload, event.offset)
    assert value == job.payload_as(Any)


async def test_payloads_are_kept_in_bulk_and_in_groups(store, sql):
    """The bytes are the same whether a row is written alone, in bulk or with others' rows."""
    values = [value for value, _ in PAYLOADS.values()]
    expected = [bytes_ for _, bytes_ in PAYLOADS.values()]
    queue, stream = store.queue("x"), store.stream("x")
    await queue.enqueue_many(values)
    await stream.publish_many(values)
    await asyncio.gather(*map(queue.enqueue, values), *map(stream.publish, values))
    async with store.transaction() as tx:
        await tx.enqueue_many_tx("x", values)
        await tx.publish_many_tx("x", values)

    for table in ("__alkstore_jobs", "__alkstore_events"):
        rows = sql(f"SELECT payload, typeof(payload) FROM {table} ORDER BY 1")
        assert sorted(3 * expected) == [payload for payload, _ in rows]
        assert {"blob"} == {kind for _, kind in rows}
    jobs = await queue.jobs()
    assert values == [job.payload_as(Any) for job in jobs[: len(values)]]


async def test_a_large_payload_is_kept(store):
    """Megabytes in one payload come back as they went in, from queue, stream and notify."""
    value = {"ballast": "☃" * 2_000_000}
    job_id = await store.queue("x").enqueue(value)
    [offset, _] = await store.stream("x").publish_many([value, 1])
    await store.notify("x", value)

    assert value == (await store.queue("x").get_job(job_id)).payload_as(dict)
    [event] = await store.stream("x").read_since(offset - 1, 1)
    assert value == event.payload_as(dict)


@pytest.mark.parametrize(
    "value",
    ["\ud800", {"\udfff": 1}, float("nan"), [float("inf")], {1: 2}, (1,), b"x", {1}, 10**4301],
    ids=["surrogate", "key", "nan", "inf", "int-key", "tuple", "bytes", "set", "digits"],
)
async def test_what_json_cannot_carry_is_refused_before_any_row(store, everything, value):
    """Such a payload is a `CodecError` at every entry, and the transaction stays usable."""
    before = everything()
    for call in (
        lambda: store.queue("x").enqueue(value),
        lambda: store.queue("x").enqueue_many([1, value]),
        lambda: store.stream("x").publish(value),
        lambda: store.stream("x").publish_many([1, value]),
        lambda: store.notify("x", value),
        lambda: store.outbox("x").enqueue(value),
        lambda: store.schedule("x", "@every 1s", "x", value),
    ):
        with pytest.raises(CodecError):
            await call()
    assert before == everything()

    async with store.transaction() as tx:
        await tx.enqueue_tx("x", "before")
        with pytest.raises(CodecError):
            await tx.enqueue_tx("x", value)
        with pytest.raises(CodecError):
            await tx.publish_with_key_tx("x", "k", value)
        await tx.enqueue_tx("x", "after")
    assert 2 == len(await store.queue("x").jobs())


NAMES = {
    "queue": lambda store, name: store.queue(name).enqueue(1),
    "stream": lambda store, name: store.stream(name).publish(1),
    "outbox": lambda store, name: store.outbox(name).enqueue(1),
    "notify": lambda store, name: store.notify(name, 1),
    "listen": lambda store, name: store.listen(name),
    "lock": lambda store, name: store.try_lock(name, "me", 1),
    "schedule": lambda store, name: store.schedule(name, "@every 1s", "x", 1),
    "schedule_queue": lambda store, name: store.schedule("x", "@every 1s", name, 1),
    "enqueue_tx": lambda store, name: store.with_tx(lambda tx: tx.enqueue_tx(name, 1)),
    "publish_tx": lambda store, name: store.with_tx(lambda tx: tx.publish_tx(name, 1)),
    "notify_tx": lambda store, name: store.with_tx(lambda tx: tx.notify_tx(name, 1)),
    "outbox_tx": lambda store, name: store.with_tx(lambda tx: tx.outbox_enqueue_tx(name, 1)),
    "offset_tx": lambda store, name: store.with_tx(lambda tx: tx.save_offset_tx(name, "c", 1)),
}
IDENTIFIERS = {
    "worker": lambda store, name: store.queue("x").claim_one(name),
    "acker": lambda store, name: store.queue("x").ack_batch([1], name),
    "consumer": lambda store, name: store.stream("x").save_offset(name, 1),
    "reader": lambda store, name: store.stream("x").read_from_consumer(name, 1),
    "subscriber": lambda store, name: store.stream("x").subscribe(name),
    "key": lambda store, name: store.stream("x").publish_with_key(name, 1),
    "owner": lambda store, name: store.try_lock("x", name, 1),
    "run_once": lambda store, name: store.outbox("x").run_once(name, None),
    "key_tx": lambda store, name: store.with_tx(lambda tx: tx.publish_with_key_tx("x", name, 1)),
    "consumer_tx": lambda store, name: store.with_tx(lambda tx: tx.save_offset_tx("x", name, 1)),
}
GOOD = [" x ", "'; DROP TABLE __alkstore_jobs; --", "x" * 255, "☃" * 85, "%_\\", "X", "x\nx"]


@pytest.mark.parametrize("call", NAMES | IDENTIFIERS)
async def test_bad_names_are_refused_before_any_row(store, everything, call):
    """Empty, blank, NUL, lone surrogates and over 255 bytes: `InvalidName`, nothing written."""
    before = everything()
    for name in ("", " \t\n", "\u3000", "a\0b", "\ud800", "x" * 256, "☃" * 86, None, b"x", 1):
        with pytest.raises(InvalidName):
            await (NAMES | IDENTIFIERS)[call](store, name)

    assert before == everything()


@pytest.mark.parametrize("call", NAMES)
async def test_reserved_names_are_refused(store, everything, call):
    """What begins with the library's own prefix is `ReservedName` at every entry."""
    before = everything()
    with pytest.raises(ReservedName):
        await NAMES[call](store, "__alkstore_x")

    assert before == everything()


@pytest.mark.parametrize("name", GOOD)
async def test_odd_names_come_back_as_they_were(store, name):
    """Names are kept as they are: not trimmed, not folded, not taken for SQL."""
    await store.queue(name).enqueue(1)
    await store.stream(name).publish_with_key(name, 1)
    await store.stream(name).save_offset(name, 1)
    handle = await store.queue(name).claim_one(name)
    lock = await store.try_lock(name, name, 60)

    assert name == handle.job.worker_id
    assert [name] == await store.queues()
    assert [name] == await store.streams()
    assert name == (await store.stream(name).read_since(0, 1))[0].key
    assert [name] == [position.consumer for position in await store.stream(name).consumers()]
    assert [(name, name)] == [(held.name, held.owner) for held in await store.locks()]
    assert [] == await store.queue("x").jobs()
    assert await handle.ack()
    assert await lock.release()


ERRORS = {
    "plain": ("broken", "broken"),
    "nul": ("a\0b", "a\\x00b"),
    "surrogate": ("a\ud800b", "a\\ud800b"),
    "unicode": ("☃", "☃"),
    "empty": ("", ""),
}


@pytest.mark.parametrize("way", ["retry", "fail", "exhausted"])
@pytest.mark.parametrize("kind", ERRORS)
async def test_any_error_text_lands_and_reads_back(store, way, kind):
    """Whatever the text holds the transition happens, with what cannot be stored escaped."""
    text, expected = ERRORS[kind]
    queue = store.queue("x")
    job_id = await queue.enqueue(1, EnqueueOpts(max_attempts=1 if way == "exhausted" else 3))
    handle = await queue.claim_one("me")

    assert await (handle.fail(text) if way == "fail" else handle.retry(text, 0))

    job = await queue.get_job(job_id)
    assert expected == job.last_error
    assert ("pending" if way == "retry" else "dead") == job.state


@pytest.mark.parametrize("unit", ["x", "☃", "\0", "\ud800"])
async def test_a_long_error_text_is_cut(store, unit):
    """Megabytes of error text are cut at 8 KiB of whole characters; the transition lands."""
    queue = store.queue("x")
    job_id = await queue.enqueue(1)
    assert await (await queue.claim_one("me")).fail(unit * 2_000_000)

    kept = (await queue.get_job(job_id)).last_error
    assert 8_000 <= len(kept.encode()) <= 8_192


@pytest.mark.parametrize("call", ["retry", "fail"])
async def test_an_exception_is_an_error_text(store, call):
    """The exception that a worker caught can be handed over as it is."""
    queue = store.queue("x")
    job_id = await queue.enqueue(1)
    handle = await queue.claim_one("me")

    assert await getattr(handle, call)(ValueError("broken\ud800"))
    assert "ValueError: broken\\ud800" == (await queue.get_job(job_id)).last_error
