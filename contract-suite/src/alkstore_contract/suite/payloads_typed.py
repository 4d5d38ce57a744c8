"""Payloads of typed objects, and headers."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from typing import TYPE_CHECKING, Any

import attrs

from alkstore_contract.expect import expect_equal, expect_raises
from alkstore_contract.properties import prop
from alkstore_contract.suite._steps import claim, job_of
from alkstore_core import CodecError, EnqueueOpts, ScheduleOpts

if TYPE_CHECKING:
    from alkstore_contract.case import Case


class Colour(enum.Enum):
    """An enum inside a payload."""

    RED = "red"


@attrs.frozen
class Item:
    """An attrs class inside another."""

    name: str
    count: int = 1


@attrs.define
class Order:
    """An attrs payload."""

    id: int
    items: list[Item]
    note: str | None = None


@dataclasses.dataclass
class Mail:
    """A data class payload."""

    to: str
    tags: tuple[str, ...]
    when: dt.datetime
    colour: Colour
    raw: bytes = b""


_ORDER = Order(7, [Item("pen", 2), Item("ink")], "soon")
_MAIL = Mail(
    "a@b.c",
    ("x", "y"),
    dt.datetime(2024, 5, 6, 7, 8, 9, tzinfo=dt.UTC),
    Colour.RED,
    b"\x00\xff",
)


@prop("payloads.attrs", decided="Payloads")
async def attrs_payload(case: Case) -> None:
    """An attrs instance is stored as an object of its fields and built again by `payload_as`."""
    store = await case.store()
    queue = store.queue("work")
    job = await job_of(queue, await queue.enqueue(_ORDER))
    stored = b'{"id":7,"items":[{"name":"pen","count":2},{"name":"ink","count":1}],"note":"soon"}'
    expect_equal(job.payload, stored, "the payload")
    expect_equal(job.payload_as(Order), _ORDER, "payload_as(Order)")


@prop("payloads.dataclass", decided="Payloads")
async def dataclass_payload(case: Case) -> None:
    """A data class instance comes back, with enum, datetime, tuple and bytes among its fields."""
    store = await case.store()
    stream = store.stream("log")
    await stream.publish(_MAIL)
    (event,) = await stream.read_since(0, 10)
    expect_equal(event.payload_as(Mail), _MAIL, "payload_as(Mail)")
    told = event.payload_as(dict[str, Any])
    expect_equal(told["when"], "2024-05-06T07:08:09+00:00", "the stored time")
    expect_equal(told["colour"], "red", "the stored enum member")
    expect_equal(told["tags"], ["x", "y"], "the stored tuple")


@prop("payloads.nested", decided="Payloads")
async def nested(case: Case) -> None:
    """Instances may stand anywhere in a payload."""
    store = await case.store()
    queue = store.queue("work")
    await queue.enqueue({"items": [Item("pen"), [Item("ink", 3)]]})
    stored = b'{"items":[{"name":"pen","count":1},[{"name":"ink","count":3}]]}'
    expect_equal((await claim(queue)).job.payload, stored, "the payload")


@prop("payloads.as_types", decided="Payloads")
async def as_types(case: Case) -> None:
    """`payload_as` builds JSON's own types and typed collections."""
    store = await case.store()
    queue = store.queue("work")
    ids = await queue.enqueue_many([5, "x", None, [1, 2], {"a": [1.5]}, True])
    jobs = [await job_of(queue, job_id) for job_id in ids]
    expect_equal(jobs[0].payload_as(int), 5, "int")
    expect_equal(jobs[1].payload_as(str), "x", "str")
    expect_equal(jobs[2].payload_as(int | None), None, "int | None")
    expect_equal(jobs[3].payload_as(list[int]), [1, 2], "list[int]")
    expect_equal(jobs[4].payload_as(dict[str, list[float]]), {"a": [1.5]}, "dict")
    expect_equal(jobs[5].payload_as(bool), True, "bool")


@prop("payloads.as_mismatch", decided="Payloads")
async def as_mismatch(case: Case) -> None:
    """`payload_as` of another type is `CodecError`: nothing is converted silently."""
    store = await case.store()
    queue = store.queue("work")
    mismatches: tuple[tuple[Any, Any], ...] = (
        ("1", int),
        (1, str),
        (1, bool),
        (True, int),
        (1.5, int),
        (None, str),
        ({"a": 1}, list),
        (["1"], list[int]),
        ({"id": "7", "items": []}, Order),
        ({"items": []}, Order),
        ({"id": 7, "items": [{"name": 1}]}, Order),
    )
    for value, kind in mismatches:
        job = await job_of(queue, await queue.enqueue(value))
        with expect_raises(CodecError, f"{value!r} as {kind!r}"):
            job.payload_as(kind)


_HEADERS: tuple[dict[str, str], ...] = (
    {},
    {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
    {"": "", "é": "語😀", "n": "\0\n\"\\'", "z": "1", "a": "2"},
    {"k": "v" * 4088},
    {"k": "é" * 2044},
)


@prop("payloads.headers.kept", decided="Payloads", cases=_HEADERS)
async def headers_kept(case: Case, headers: dict[str, str]) -> None:
    """Headers of up to 4 KiB come back as they were: on jobs, events and schedules."""
    store = await case.store()
    opts = EnqueueOpts(headers=headers)
    queue, stream = store.queue("work"), store.stream("log")
    await queue.enqueue(None, opts)
    await queue.enqueue_many([1, 2], opts)
    await store.outbox("mail").enqueue(None, opts)
    await stream.publish(None, headers)
    await stream.publish_with_key("key", None, headers)
    async with store.transaction() as tx:
        await tx.enqueue_tx("work", None, opts)
        await tx.publish_tx("log", None, headers)
    await store.schedule("tick", "@every 1s", "work", None, ScheduleOpts(headers=headers))
    for handle in await queue.claim_batch("worker", 10):
        expect_equal(handle.job.headers, headers, "the claimed job's headers")
    for job in (*await queue.jobs(), *await store.outbox("mail").backing.jobs()):
        expect_equal(job.headers, headers, "the stored job's headers")
        expect_equal(list(job.headers or {}), list(headers), "the order of the headers")
    for event in await stream.read_since(0, 10):
        expect_equal(event.headers, headers, "the event's headers")
    expect_equal((await store.schedules())[0].headers, headers, "the schedule's headers")


@prop("payloads.headers.refused", decided="Payloads")
async def headers_refused(case: Case) -> None:
    """Headers that are not `str` to `str`, or take over 4 KiB, are refused with `CodecError`."""
    store = await case.store()
    queue, stream = store.queue("work"), store.stream("log")
    bad: tuple[Any, ...] = (
        {"k": 1},
        {"k": None},
        {1: "v"},
        {"k": b"v"},
        [("k", "v")],
        "k=v",
        {"k": "\ud800"},
        {"k": "v" * 4089},
        {"k": "é" * 2045},
    )
    for number, headers in enumerate(bad):
        opts = EnqueueOpts(headers=headers)
        calls = {
            "enqueue": queue.enqueue(None, opts),
            "enqueue_many": queue.enqueue_many([None], opts),
            "outbox.enqueue": store.outbox("mail").enqueue(None, opts),
            "publish": stream.publish(None, headers),
            "publish_with_key": stream.publish_with_key("key", None, headers),
            "schedule": store.schedule(
                "tick", "@every 1s", "work", None, ScheduleOpts(headers=headers)
            ),
        }
        for name, call in calls.items():
            with expect_raises(CodecError, f"{name} with bad headers number {number}"):
                await call
    expect_equal(await store.queues(), [], "the queues")
    expect_equal(await store.streams(), [], "the streams")
    expect_equal(await store.schedules(), [], "the schedules")


@prop("payloads.carried", decided="Payloads")
async def carried(case: Case) -> None:
    """Retry, lapse, death and redrive keep payload and headers byte by byte."""
    store = await case.store()
    queue = store.queue("work")
    headers = {"z": "\0", "a": "é"}
    job_id = await queue.enqueue({"z": "\0", "a": 1.0}, EnqueueOpts(headers=headers))
    await (await claim(queue)).retry("again", 0)
    expect_equal((await job_of(queue, job_id)).headers, headers, "the retried job's headers")
    await claim(queue)
    await case.advance(301)
    handle = await claim(queue)
    expect_equal(handle.job.headers, headers, "the reclaimed job's headers")
    await handle.fail("broken")
    dead = await job_of(queue, job_id)
    expect_equal((dead.payload, dead.headers), (handle.job.payload, headers), "the dead job")
    await queue.redrive(job_id)
    job = (await claim(queue)).job
    expect_equal(job.payload, b'{"z":"\\u0000","a":1.0}', "the redriven job's payload")
    expect_equal(job.headers, headers, "the redriven job's headers")
