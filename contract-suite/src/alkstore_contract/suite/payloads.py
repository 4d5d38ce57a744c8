"""Payloads: the bytes that are stored, and what is refused."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
from typing import TYPE_CHECKING, Any

from alkstore_contract.expect import expect, expect_equal, expect_raises
from alkstore_contract.properties import prop
from alkstore_contract.suite._steps import job_of
from alkstore_core import CodecError

if TYPE_CHECKING:
    from alkstore_contract.case import Case
    from alkstore_core import Store

# (value, the bytes that are stored for it), written out by hand.
_STORED: tuple[tuple[Any, bytes], ...] = (
    (None, b"null"),
    (True, b"true"),
    (False, b"false"),
    (0, b"0"),
    (-9007199254740993, b"-9007199254740993"),
    (1.0, b"1.0"),
    (-0.0, b"-0.0"),
    (0.1, b"0.1"),
    (1e300, b"1e+300"),
    (5e-324, b"5e-324"),
    ("", b'""'),
    ("é 語 😀", b'"\xc3\xa9 \xe8\xaa\x9e \xf0\x9f\x98\x80"'),
    ('"\\/\b\f\n\r\t', b'"\\"\\\\/\\b\\f\\n\\r\\t"'),
    ("\0\x1f\x7f", b'"\\u0000\\u001f\x7f"'),
    ("\u2028\ufeff\uffff", b'"\xe2\x80\xa8\xef\xbb\xbf\xef\xbf\xbf"'),
    ("' OR 1=1; -- %s ? :x", b'"\' OR 1=1; -- %s ? :x"'),
    ([], b"[]"),
    ({}, b"{}"),
    ([1, [2, [None, "x"]], {}], b'[1,[2,[null,"x"]],{}]'),
    ({"b": 1, "a": {"z": [True], "": 2.5}}, b'{"b":1,"a":{"z":[true],"":2.5}}'),
)


async def _through_all(store: Store, name: str, value: Any) -> dict[str, bytes]:
    """Store a value by every way there is; what each gives back."""
    queue, stream, outbox = store.queue(name), store.stream(name), store.outbox(name)
    ids = {
        "enqueue": await queue.enqueue(value),
        "enqueue_many": (await queue.enqueue_many(["beside", value]))[1],
    }
    await outbox.enqueue(value)
    await stream.publish(value)
    await stream.publish_with_key("key", value)
    await stream.publish_many([value, value])
    async with store.transaction() as tx:
        ids["enqueue_tx"] = await tx.enqueue_tx(name, value)
        ids["enqueue_many_tx"] = (await tx.enqueue_many_tx(name, [value, "beside"]))[0]
        await tx.outbox_enqueue_tx(name, value)
        await tx.publish_tx(name, value)
        await tx.publish_with_key_tx(name, "key", value)
        await tx.publish_many_tx(name, [value])
    plan = await store.schedule(name, "@every 1s", name, value)
    found = {how: (await job_of(queue, job_id)).payload for how, job_id in ids.items()}
    for job in await outbox.backing.jobs():
        found[f"outbox {job.id}"] = job.payload
    for event in await stream.read_since(0, 100):
        found[f"stream {event.offset}"] = event.payload
    found["schedule"] = plan.payload
    (found["schedules"],) = [each.payload for each in await store.schedules() if each.name == name]
    expect_equal(len(found), 15, "the number of ways")
    return found


@prop("payloads.bytes", decided="Payloads")
async def stored_bytes(case: Case) -> None:
    """A payload is stored as exactly its compact UTF-8 JSON, by whichever call it came in."""
    store = await case.store()
    for number, (value, expected) in enumerate(_STORED):
        for how, data in (await _through_all(store, f"name {number}", value)).items():
            expect_equal(data, expected, f"the payload {value!r} by {how}")


@prop("payloads.claimed", decided="Payloads")
async def claimed(case: Case) -> None:
    """Workers and readers get the exact bytes, and decoded they equal what went in."""
    store = await case.store()
    queue, stream = store.queue("work"), store.stream("log")
    values = [value for value, _ in _STORED]
    await queue.enqueue_many(values)
    await stream.publish_many(values)
    handles = await queue.claim_batch("worker", 100)
    events = await stream.read_from_consumer("reader", 100)
    for (value, expected), handle, event in zip(_STORED, handles, events, strict=True):
        expect_equal(handle.job.payload, expected, f"the claimed job's payload for {value!r}")
        expect_equal(handle.job.payload_as(Any), value, "the job's payload_as(Any)")
        expect_equal(event.payload, expected, f"the event's payload for {value!r}")
        expect_equal(event.payload_as(Any), value, "the event's payload_as(Any)")


@prop("payloads.key_order", decided="Payloads")
async def key_order(case: Case) -> None:
    """Keys keep their order, and what looks like one number stays as it was written."""
    store = await case.store()
    queue = store.queue("work")
    value = {"z": 1, "a": 1.0, "10": 1e2, "9": -0.0, "é": [], "Z": 10**20}
    job = await job_of(queue, await queue.enqueue(value))
    expected = '{"z":1,"a":1.0,"10":100.0,"9":-0.0,"é":[],"Z":100000000000000000000}'
    expect_equal(job.payload.decode(), expected, "the payload")


@prop("payloads.integers", decided="Payloads", cases=(1, 19, 20, 640, 641, 4300))
async def integers(case: Case, digits: int) -> None:
    """Integers of up to 4,300 digits come back digit by digit."""
    store = await case.store()
    queue = store.queue("work")
    text = ("1234567890" * 430)[:digits]
    for sign in ("", "-"):
        job = await job_of(queue, await queue.enqueue([_integer(sign + text)]))
        expect_equal(job.payload, f"[{sign}{text}]".encode(), "the payload")
        expect_equal(job.payload_as(Any), [_integer(sign + text)], "payload_as(Any)")


def _integer(text: str) -> int:
    # Digit by digit: whatever limit the interpreter sets on conversions.
    number = 0
    for digit in text.lstrip("-"):
        number = number * 10 + (ord(digit) - ord("0"))
    return -number if text.startswith("-") else number


@prop("payloads.integers_longer", decided="Payloads")
async def integers_longer(case: Case) -> None:
    """An integer of more than 4,300 digits is refused with `CodecError`."""
    store = await case.store()
    for number in (10**4300, -(10**4300)):
        with expect_raises(CodecError, "an integer of 4,301 digits"):
            await store.queue("work").enqueue([number])
    expect_equal(await store.queues(), [], "the queues")


@prop("payloads.large", decided="Payloads", cases=(100_000, 3_000_000))
async def large(case: Case, size: int) -> None:
    """A payload of megabytes is stored and read back whole, alone and among others."""
    store = await case.store()
    queue = store.queue("work")
    text = "é" * (size // 2)
    await queue.enqueue(text)
    await queue.enqueue_many([text, text])
    for handle in await queue.claim_batch("worker", 3):
        expect(handle.job.payload == b'"' + text.encode() + b'"', "the payload came back changed")


@prop("payloads.depth", decided="Payloads")
async def depth(case: Case) -> None:
    """500 levels of nesting are legal, 501 and cycles are refused with `CodecError`."""
    store = await case.store()
    queue = store.queue("work")
    deep: list[Any] = []
    for _ in range(499):
        deep = [deep]
    job = await job_of(queue, await queue.enqueue(deep))
    expect_equal(job.payload, b"[" * 500 + b"]" * 500, "the payload")
    with expect_raises(CodecError, "501 levels"):
        await queue.enqueue([deep])
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle
    with expect_raises(CodecError, "a cycle"):
        await queue.enqueue(cycle)
    expect_equal([each.id for each in await queue.jobs()], [job.id], "the jobs")


class _Colour(enum.Enum):
    RED = 1


_REFUSED: dict[str, Any] = {
    "NaN": float("nan"),
    "infinity": float("inf"),
    "negative infinity": float("-inf"),
    "a lone surrogate": "a\ud800b",
    "a lone surrogate in a key": {"a\udfff": 1},
    "an int as key": {1: "x"},
    "None as key": {None: "x"},
    "a bool as key": {True: "x"},
    "a tuple": (1, 2),
    "an empty tuple": (),
    "bytes": b"x",
    "a bytearray": bytearray(b"x"),
    "a set": {1},
    "a frozenset": frozenset({1}),
    "a Decimal": decimal.Decimal("1.5"),
    "a datetime": dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
    "a date": dt.date(2024, 1, 1),
    "an enum member": _Colour.RED,
    "a complex number": 1j,
    "an object": object(),
    "a class": int,
}


@prop("payloads.refused", decided="Payloads")
async def refused(case: Case) -> None:
    """What JSON cannot carry unchanged is `CodecError` at every call, before a row is written."""
    store = await case.store()
    queue, stream, outbox = store.queue("work"), store.stream("log"), store.outbox("mail")
    given = [
        *_REFUSED.items(),
        *((f"{what} inside", {"x": [bad]}) for what, bad in _REFUSED.items()),
    ]
    for what, value in given:
        calls = {
            "enqueue": queue.enqueue(value),
            "enqueue_many": queue.enqueue_many([1, value, 3]),
            "outbox.enqueue": outbox.enqueue(value),
            "publish": stream.publish(value),
            "publish_with_key": stream.publish_with_key("key", value),
            "publish_many": stream.publish_many([1, value, 3]),
            "notify": store.notify("channel", value),
            "schedule": store.schedule("tick", "@every 1s", "work", value),
        }
        for name, call in calls.items():
            with expect_raises(CodecError, f"{name} of {what}"):
                await call
    expect_equal(await store.queues(), [], "the queues")
    expect_equal(await store.streams(), [], "the streams")
    expect_equal(await store.outboxes(), [], "the outboxes")
    expect_equal(await store.schedules(), [], "the schedules")


@prop("payloads.refused_tx", decided="Errors", cases=("NaN", "a lone surrogate", "a tuple"))
async def refused_tx(case: Case, what: str) -> None:
    """Every `_tx` call refuses what is not JSON; the transaction stays usable and whole."""
    value = _REFUSED[what]
    store = await case.store()
    async with store.transaction() as tx:
        first = await tx.enqueue_tx("work", "first")
        calls = {
            "enqueue_tx": tx.enqueue_tx("work", value),
            "enqueue_many_tx": tx.enqueue_many_tx("work", [1, value]),
            "outbox_enqueue_tx": tx.outbox_enqueue_tx("mail", value),
            "publish_tx": tx.publish_tx("log", value),
            "publish_with_key_tx": tx.publish_with_key_tx("log", "key", value),
            "publish_many_tx": tx.publish_many_tx("log", [1, value]),
            "notify_tx": tx.notify_tx("channel", value),
        }
        for name, call in calls.items():
            with expect_raises(CodecError, f"{name} of {what}"):
                await call
        second = await tx.enqueue_tx("work", "second")
    jobs = await store.queue("work").jobs()
    expect_equal([job.id for job in jobs], [first, second], "the committed jobs")
    expect_equal(await store.streams(), [], "the streams")
    expect_equal(await store.outboxes(), [], "the outboxes")


@prop("payloads.discretion", decided="Errors")
async def discretion(case: Case) -> None:
    """The error of a refused payload names the place, never a value that is in it."""
    store = await case.store()
    queue = store.queue("work")
    for value in ({"token": ["s3cr3t", {"s3cr3t"}]}, {"token": "s3cr3t\ud800"}):
        with expect_raises(CodecError) as raised:
            await queue.enqueue(value)
        expect("s3cr3t" not in str(raised.error), "the message holds a value of the payload")
        expect("token" in str(raised.error), f"the message names no place: {raised.error}")
    job = await job_of(queue, await queue.enqueue({"token": "s3cr3t"}))
    with expect_raises(CodecError) as raised:
        job.payload_as(list[int])
    expect("s3cr3t" not in str(raised.error), "the message of payload_as holds the payload")
