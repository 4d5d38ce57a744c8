"""Assertions on what was sent: what is alike is found, and a failure shows what is there."""

import datetime as dt
import enum
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path

import attrs
import pytest

from alkstore_core import CodecError, EnqueueOpts
from alkstore_core.sync import SyncStore
from alkstore_mem import MemStore
from alkstore_mem.testing import ANYTHING, assert_enqueued, assert_published


class Kind(enum.Enum):
    """Stored by its value."""

    SMALL = "small"


class Level(enum.IntEnum):
    """A priority by name."""

    LOW = 0


@dataclass
class Mail:
    """A typed payload."""

    to: str


async def failure(work):
    """What a failing assertion says."""
    with pytest.raises(AssertionError) as caught:
        await work
    return str(caught.value).splitlines()


async def test_what_is_alike_is_returned(store):
    """All jobs with the payload and options that were asked for, in order."""
    queue = store.queue("mails")
    first = await queue.enqueue({"to": "ada"}, EnqueueOpts(priority=5, headers={"h": "1"}))
    await queue.enqueue({"to": "bob"})
    last = await queue.enqueue({"to": "ada"}, EnqueueOpts(delay=60, max_attempts=7, expires=90))

    assert 3 == len(await assert_enqueued(store, "mails"))
    assert [first, last] == [j.id for j in await assert_enqueued(store, "mails", {"to": "ada"})]
    for job_id, wanted in [
        (first, {"priority": 5}),
        (first, {"headers": {"h": "1"}, "expires": None, "delay": 0}),
        (last, {"delay": 60}),
        (last, {"run_at": 1_060, "max_attempts": 7, "expires": 90}),
    ]:
        [job] = await assert_enqueued(store, "mails", {"to": "ada"}, **wanted)
        assert job_id == job.id


async def test_payloads_are_compared_as_json_has_them(store):
    """Dataclasses are like what is made of them, and a part may be left open."""
    await store.queue("mails").enqueue(Mail("ada"))

    await assert_enqueued(store, "mails", Mail("ada"))
    await assert_enqueued(store, "mails", {"to": ANYTHING})
    await assert_enqueued(store, "mails", Mail("bob"), count=0)
    await store.queue("none").enqueue(None)
    await assert_enqueued(store, "none", None, count=1)


@dataclass
class Parcel:
    """A typed payload whose fields are converted."""

    id: uuid.UUID | None
    sent: dt.datetime
    label: Path
    sizes: tuple[int, ...]
    to: list[Mail]
    kind: Kind = Kind.SMALL
    made: int = field(default=0, init=False)


PARCEL = Parcel(None, dt.datetime(2026, 1, 2, tzinfo=dt.UTC), Path("a/b"), (1, 2), [Mail("ada")])


@attrs.frozen
class Letter:
    """A typed payload of attrs."""

    to: Mail
    lines: list[str]
    _stamp: int = 1


@pytest.mark.parametrize("part", ["id", "sent", "label", "sizes", "to", "kind"])
async def test_a_field_may_be_left_open(store, part):
    """Whatever its type is; the others are compared, converted as they are."""
    await store.queue("parcels").enqueue(PARCEL)

    await assert_enqueued(store, "parcels", replace(PARCEL, **{part: ANYTHING}), count=1)
    await assert_enqueued(store, "parcels", {"a": ANYTHING}, count=0)
    other = {"label": Path("c")} if part != "label" else {"sizes": (1, 3)}
    await assert_enqueued(store, "parcels", replace(PARCEL, **{part: ANYTHING}, **other), count=0)


async def test_a_field_within_may_be_left_open(store):
    """In a list, in a dict, in a field, of data classes and attrs."""
    await store.queue("q").enqueue([Letter(Mail("ada"), ["dear"]), {"m": Mail("bob")}, PARCEL])

    for letter in (Letter(Mail(ANYTHING), ["dear"]), Letter(Mail("ada"), [ANYTHING]), ANYTHING):
        parcel = replace(PARCEL, to=[Mail(ANYTHING)], sent=ANYTHING)
        await assert_enqueued(store, "q", [letter, {"m": Mail(ANYTHING)}, parcel], count=1)
        await assert_enqueued(store, "q", [letter, {"m": Mail("eve")}, parcel], count=0)
    open_stamp = Letter(Mail("ada"), ["dear"], ANYTHING)
    await assert_enqueued(store, "q", [open_stamp, ANYTHING, ANYTHING], count=1)


@pytest.mark.parametrize(
    "other", [{"paid": 1}, {"paid": 1.0}, {"paid": True, "x": 1}, {"paid": "true"}, [True], {}]
)
async def test_values_are_alike_if_their_json_is(store, other):
    """Python's `True == 1 == 1.0` does not make one of three different texts."""
    await store.queue("q").enqueue({"paid": True})

    await assert_enqueued(store, "q", {"paid": True}, count=1)
    await assert_enqueued(store, "q", other, count=0)


async def test_numbers_are_alike_if_their_json_is(store):
    """1 and 1.0 are two texts, as are 0.0 and -0.0; the order of keys means nothing."""
    await store.queue("q").enqueue({"a": 1, "b": [1.0, -0.0]})

    await assert_enqueued(store, "q", {"b": [1.0, -0.0], "a": 1}, count=1)
    for other in (
        {"a": 1.0, "b": [1.0, -0.0]},
        {"a": 1, "b": [1, -0.0]},
        {"a": 1, "b": [1.0, 0.0]},
    ):
        await assert_enqueued(store, "q", other, count=0)


async def test_options_are_compared_as_strictly(store):
    """`False` is no priority; a number of an enum is one."""
    await store.queue("q").enqueue(1, EnqueueOpts(headers={"tenant": "17", "at": "now"}))

    await assert_enqueued(store, "q", priority=False, count=0)
    await assert_enqueued(store, "q", priority=Level.LOW, count=1)
    await assert_enqueued(store, "q", headers={"tenant": "17", "at": ANYTHING}, count=1)


async def test_a_deep_payload_is_compared(store):
    """As deep as one may be."""
    deep = []
    for _ in range(499):
        deep = [deep]
    await store.queue("q").enqueue(deep)

    await assert_enqueued(store, "q", deep, count=1)
    await assert_enqueued(store, "q", deep[0], count=0)


def cyclic():
    """A list that holds itself."""
    found = [ANYTHING]
    found.append(found)
    return found


@pytest.mark.parametrize(
    ("payload", "what"),
    [
        ({"a": {1}}, r"type set, found at \$\.a"),
        ({"b": ANYTHING, "a": {1}}, r"type set, found at \$\.a"),
        ((1, ANYTHING), "type tuple"),
        (cyclic(), "cycle|nested|type Anything"),
    ],
)
async def test_what_nothing_can_be_like_is_refused(store, payload, what):
    """That none is there would be true of whatever is."""
    with pytest.raises(CodecError, match=what):
        await assert_enqueued(store, "q", payload, count=0)
    with pytest.raises(CodecError, match=what):
        await assert_published(store, "s", payload, count=0)


async def test_the_delay_is_known_until_the_first_attempt_has_ended(store, clock):
    """A claim moves nothing, nor does a release."""
    queue = store.queue("q")
    await queue.enqueue("tea", EnqueueOpts(delay=60))
    await clock.advance(60)

    handle = await queue.claim_one("w")
    await assert_enqueued(store, "q", "tea", delay=60, run_at=1_060, count=1)
    await handle.release()
    await assert_enqueued(store, "q", "tea", delay=60, run_at=1_060, count=1)


@pytest.mark.parametrize("delay", [60, 160, 100])
async def test_a_delay_that_a_retry_has_set_is_told_apart(store, clock, delay):
    """Nobody can tell then what it was, so neither that there is one nor that there is none."""
    queue = store.queue("q")
    await queue.enqueue("tea", EnqueueOpts(delay=60))
    await clock.advance(60)
    await (await queue.claim_one("w")).retry("busy", 100)

    doubt = "of 1 it cannot be known: a retry sets delay and run_at anew"
    there = (
        "  payload 'tea', priority 0, delay unknown since it was tried, run_at unknown since it "
        "was tried, max_attempts 3, expires None, headers None"
    )
    asked = f"in queue 'q' with payload 'tea', delay {delay}"
    assert [f"no job {asked}", doubt, "there is:", there] == await failure(
        assert_enqueued(store, "q", "tea", delay=delay)
    )
    assert [f"no job {asked}, expected 0", doubt, "there is:", there] == await failure(
        assert_enqueued(store, "q", "tea", delay=delay, count=0)
    )
    await assert_enqueued(store, "q", "milk", delay=delay, count=0)
    await assert_enqueued(store, "q", "tea", count=1)
    await queue.enqueue("tea", EnqueueOpts(delay=delay))
    assert [2] == [job.id for job in await assert_enqueued(store, "q", "tea", delay=delay)]
    assert [f"1 job {asked}, expected 1", doubt] == (
        await failure(assert_enqueued(store, "q", "tea", delay=delay, count=1))
    )[:2]


async def test_a_failure_lists_what_is_there(store):
    """The message shows what was asked for and each job with all that could have been asked."""
    await store.queue("mails").enqueue({"to": "ada"})

    assert [
        "no job in queue 'mails' with payload {'to': 'bob'}, priority 5",
        "there is:",
        (
            "  payload {'to': 'ada'}, priority 0, delay 0, run_at 1000, max_attempts 3, "
            "expires None, headers None"
        ),
    ] == await failure(assert_enqueued(store, "mails", {"to": "bob"}, priority=5))


async def test_a_failure_on_an_empty_queue_names_those_that_are_not(store):
    """A misspelt queue shows at once."""
    await store.queue("mails").enqueue(1)
    await store.outbox("hooks").enqueue(1)

    assert [
        "no job in queue 'mail'",
        "it is empty; what is not: queue 'mails'",
    ] == await failure(assert_enqueued(store, "mail"))
    assert [
        "no job in outbox 'hook'",
        "it is empty; what is not: outbox 'hooks'",
    ] == await failure(assert_enqueued(store, outbox="hook"))


async def test_a_wrong_number_is_a_failure(store):
    """`count` is exact, also where it is none."""
    await store.queue("mails").enqueue_many([1] * 25)

    lines = await failure(assert_enqueued(store, "mails", 1, count=2))
    assert "25 jobs in queue 'mails' with payload 1, expected 2" == lines[0]
    assert "  and 5 more" == lines[-1]
    assert 23 == len(lines)
    lines = await failure(assert_enqueued(store, "mails", count=0))
    assert "25 jobs in queue 'mails', expected 0" == lines[0]


async def test_jobs_of_many_pages_are_looked_at(store):
    """The last of more than a thousand is found."""
    await store.queue("q").enqueue_many(range(1_001))
    await store.stream("s").publish_many(range(1_001))

    assert 1 == len(await assert_enqueued(store, "q", 1_000))
    assert 1 == len(await assert_published(store, "s", 1_000))


async def test_dead_jobs_do_not_count(store):
    """What has failed for good is not what was to be done."""
    await store.queue("q").enqueue(1)
    await (await store.queue("q").claim_one("w")).fail()

    await assert_enqueued(store, "q", count=0)


async def test_an_outbox_is_looked_into(store):
    """Messages are found by the outbox's name."""
    await store.outbox("hooks").enqueue({"url": "/"})

    assert 1 == len(await assert_enqueued(store, outbox="hooks", payload={"url": "/"}))


@pytest.mark.parametrize("how", [{}, {"queue": "q", "outbox": "o"}, {"queue": "q", "prio": 1}])
def test_a_question_that_is_none_is_refused(store, how):
    """Neither or both, or an option that does not exist, is an error of the test."""
    with pytest.raises(TypeError, match=r"takes the name of a queue or outbox=.*priority, delay"):
        assert_enqueued(store, **how)


@pytest.mark.parametrize("look", [assert_enqueued, assert_published])
@pytest.mark.parametrize(
    ("count", "error"), [(True, TypeError), ("1", TypeError), (1.0, TypeError), (-1, ValueError)]
)
def test_a_count_that_is_none_is_refused(store, look, count, error):
    """It would be found wrong whatever is there, or right by chance."""
    with pytest.raises(error, match=f"count takes an int, 0 or more, not {count!r}"):
        look(store, "q", count=count)


async def test_events_are_found(store):
    """By payload, key and headers, in the order of the stream."""
    stream = store.stream("orders")
    await stream.publish({"placed": "tea"}, {"h": "1"})
    await stream.publish_with_key("k", {"placed": "milk"})

    assert [1, 2] == [event.offset for event in await assert_published(store, "orders")]
    [event] = await assert_published(store, "orders", key="k")
    assert {"placed": "milk"} == event.payload_as(dict)
    await assert_published(store, "orders", {"placed": "tea"}, headers={"h": "1"}, count=1)
    assert [
        "no event in stream 'orders' with payload {'placed': 'salt'}, key 'k'",
        "there are:",
        "  payload {'placed': 'tea'}, key None, headers {'h': '1'}",
        "  payload {'placed': 'milk'}, key 'k', headers None",
    ] == await failure(assert_published(store, "orders", {"placed": "salt"}, key="k"))
    assert "it is empty; what is not: stream 'orders'" in await failure(
        assert_published(store, "order")
    )


def test_they_block_for_a_blocking_store():
    """Without await they return the jobs and events, and raise themselves."""
    with SyncStore(MemStore()) as store:
        store.queue("q").enqueue(1)
        store.stream("s").publish(2)

        assert [1] == [job.payload_as(int) for job in assert_enqueued(store, "q")]
        assert [2] == [event.payload_as(int) for event in assert_published(store, "s")]
        with pytest.raises(AssertionError, match="no job in queue 'q' with payload 3"):
            assert_enqueued(store, "q", 3)
