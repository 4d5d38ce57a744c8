"""What a queue promises, on both drivers."""

import asyncio
import json
import logging
import uuid

import pytest
import pytest_asyncio
from sqlalchemy import text

from alkstore_core.sql.op import Mode
from alkstore_localstores import LocalStoreError, queue_ops
from alkstore_localstores.messages import QueueMessage, QueueStats
from alkstore_localstores.queue import LocalQueue

LEASE = 30_000


@pytest_asyncio.fixture
async def queue(tmp_path, driver, clock):
    """An open queue whose time stands still."""
    async with LocalQueue(tmp_path / "queue", driver=driver, clock=clock) as queue:
        yield queue


async def rows(queue, sql, **parameters):
    """What a statement gives, in a transaction of the queue's own connection."""

    def op():
        return (yield text(sql), parameters).rows

    return await queue._file.run(Mode.WRITE, op)


async def change(queue, sql, **parameters):
    """Execute a statement as a foreign writer would."""

    def op():
        return (yield text(sql), parameters).count

    return await queue._file.run(Mode.WRITE, op)


async def code_of(awaitable):
    """The code of the error it must end with."""
    with pytest.raises(LocalStoreError) as caught:
        await awaitable
    return caught.value.code


def payloads(messages):
    """What was sent."""
    return [message.payload for message in messages]


async def test_a_value_comes_back_as_it_was_sent(queue):
    """JSON and text keep their kinds, and the first delivery is attempt 1."""
    value = {"b": [1, 2.5, None, True], "a": "é\x00😀"}
    await queue.send(value)
    await queue.send_text("null")
    first, second = await queue.receive(10)
    assert ("json", value, 1) == (first.payload_type, first.payload, first.attempt)
    assert ("text", "null", 1) == (second.payload_type, second.payload, second.attempt)


async def test_stored_text_is_canonical(queue):
    """Compact, keys in order, non-ASCII raw; a text is stored as it is."""
    await queue.send({"b": 1e-6, "a": ["é", 0.00001, 2**64]})
    await queue.send_text(' {"x" : 1} ')
    found = await rows(queue, "SELECT payload_type, payload_data FROM messages ORDER BY id")
    assert [
        ("json", '{"a":["é",0.00001,1.8446744073709552e+19],"b":1e-6}'),
        ("text", ' {"x" : 1} '),
    ] == [tuple(row) for row in found]


async def test_a_sent_row_is_due_at_once(queue, clock):
    """Both times are now, in milliseconds; no attempt and no receipt yet."""
    await queue.send(1)
    found = await rows(
        queue, "SELECT enqueued_at, visible_at, attempt, receipt_handle FROM messages"
    )
    assert [(clock.now, clock.now, 0, None)] == [tuple(row) for row in found]


async def test_messages_come_in_the_order_they_were_sent(queue, clock):
    """By the time they were sent, and within a millisecond by their ids."""
    for step in range(3):
        await asyncio.gather(*(queue.send([step, n]) for n in range(4)))
        clock.now += 1
    assert [[step, n] for step in range(3) for n in range(4)][:10] == payloads(
        await queue.receive(10)
    )
    assert [[2, 2], [2, 3]] == payloads(await queue.receive(10))


async def test_what_was_sent_earlier_comes_first_whatever_its_id(queue, clock):
    """A clock that was set back reorders by time."""
    await queue.send("later")
    clock.now -= 1000
    await queue.send("earlier")
    clock.now += 1000
    assert ["earlier", "later"] == payloads(await queue.receive(10))


async def test_a_redelivered_message_keeps_its_place(queue, clock):
    """It goes before what was sent after it."""
    await queue.send("first")
    (first,) = await queue.receive()
    clock.now += 1
    await queue.send("second")
    await queue.nack(first.receipt_handle)
    assert ["first", "second"] == payloads(await queue.receive(10))


async def test_a_leased_message_is_hidden_for_thirty_seconds(queue, clock):
    """Not a millisecond less, and then it is delivered again with a new receipt."""
    await queue.send("x")
    (first,) = await queue.receive()
    clock.now += LEASE - 1
    assert [] == await queue.receive()
    clock.now += 1
    (second,) = await queue.receive()
    assert 2 == second.attempt
    assert first.receipt_handle != second.receipt_handle


async def test_a_receipt_is_the_id_and_the_uuid_of_the_row(queue):
    """Other readers of the file correlate them so."""
    await queue.send("x")
    (message,) = await queue.receive()
    ((id_, stored),) = await rows(queue, "SELECT id, receipt_handle FROM messages")
    assert f"{id_}:{stored}" == message.receipt_handle
    assert str(uuid.UUID(stored)) == stored


async def test_receive_takes_one_to_ten(queue):
    """Anything else is refused before a message is touched."""
    for n in range(12):
        await queue.send(n)
    for count in (0, 11, -1, 1.0, True, "1", None):
        assert "BINDING_SETUP_FAILED" == await code_of(queue.receive(count))
    assert [0] == payloads(await queue.receive())
    assert 10 == len(await queue.receive(10))
    assert [11] == payloads(await queue.receive(10))
    assert [] == await queue.receive(10)


async def test_ack_deletes(queue, clock):
    """Nobody is given it again."""
    await queue.send("x")
    (message,) = await queue.receive()
    await queue.ack(message.receipt_handle)
    clock.now += LEASE
    assert [] == await queue.receive()
    assert QueueStats(0, 0, 0, 0) == await queue.stats()


async def test_ack_is_idempotent(queue):
    """Who acknowledges again, for want of an answer, is told that it is done."""
    await queue.send("x")
    (message,) = await queue.receive()
    await queue.ack(message.receipt_handle)
    await queue.ack(message.receipt_handle)
    await queue.nack(message.receipt_handle)


async def test_ack_after_the_lease_succeeds_when_nobody_took_it(queue, clock):
    """The receipt counts, not the time; unlike the claims of job queues."""
    await queue.send("x")
    (message,) = await queue.receive()
    clock.now += 10 * LEASE
    await queue.ack(message.receipt_handle)
    assert [] == await queue.receive()


@pytest.mark.parametrize("operation", ["ack", "nack"])
async def test_a_stale_receipt_is_refused(queue, clock, operation):
    """A slow consumer cannot take away what another one has now."""
    await queue.send("x")
    (old,) = await queue.receive()
    clock.now += LEASE
    (new,) = await queue.receive()
    assert "QUEUE_OPERATION_FAILED" == await code_of(getattr(queue, operation)(old.receipt_handle))
    assert QueueStats(1, 0, 1, 0) == await queue.stats()
    await queue.ack(new.receipt_handle)


@pytest.mark.parametrize("operation", ["ack", "nack"])
async def test_a_foreign_uuid_on_an_existing_row_is_refused(queue, operation):
    """Also when the row was never delivered."""
    await queue.send("x")
    handle = f"1:{uuid.uuid4()}"
    assert "QUEUE_OPERATION_FAILED" == await code_of(getattr(queue, operation)(handle))
    (message,) = await queue.receive()
    assert "QUEUE_OPERATION_FAILED" == await code_of(getattr(queue, operation)(handle))
    await queue.ack(message.receipt_handle)


# Random ones would give each worker of xdist other cases.
SOME_UUID = "6b8f2c52-8f0e-4a58-9d0e-0a6c4c1f7a11"


@pytest.mark.parametrize(
    "handle",
    [
        "",
        ":",
        "1",
        "1:",
        "1:not-a-uuid",
        f"x:{SOME_UUID}",
        f"1:{SOME_UUID}:1",
        f" 1:{SOME_UUID}",
        f"99999999999999999999:{SOME_UUID}",
        f"9223372036854775808:{SOME_UUID}",
        f"1:{SOME_UUID}\n",
        "\x00",
        "é",
    ],
)
async def test_what_no_queue_has_issued_is_nothing_to_do(queue, handle):
    """It names no message, so there is none left of it."""
    await queue.send("x")
    await queue.ack(handle)
    await queue.nack(handle)
    assert ["acknowledged"] == [outcome.status for outcome in await queue.ack_batch([handle])]
    assert "QUEUE_OPERATION_FAILED" == await code_of(queue.renew(handle, 1))
    assert QueueStats(1, 1, 0, 0) == await queue.stats()


async def test_a_receipt_is_text(queue):
    """Anything else is the caller's mistake."""
    for handle in (None, 1, b"1:x"):
        assert "INVALID_INPUT" == await code_of(queue.ack(handle))
        assert "INVALID_INPUT" == await code_of(queue.nack(handle))
        assert "INVALID_INPUT" == await code_of(queue.renew(handle, 1))


async def test_nack_makes_due_now(queue):
    """With the attempts it has, and under the receipt it has until the next delivery."""
    await queue.send("x")
    (first,) = await queue.receive()
    await queue.nack(first.receipt_handle)
    assert QueueStats(1, 1, 0, 0) == await queue.stats()
    (second,) = await queue.receive()
    assert 2 == second.attempt
    await queue.nack(second.receipt_handle)
    await queue.ack(second.receipt_handle)
    assert [] == await queue.receive()


async def test_renew_counts_from_now(queue, clock):
    """It may lengthen a lease, and shorten it as well."""
    await queue.send("x")
    (message,) = await queue.receive()
    clock.now += LEASE - 1
    await queue.renew(message.receipt_handle, 600)
    clock.now += 599_999
    assert [] == await queue.receive()
    await queue.renew(message.receipt_handle, 1)
    clock.now += 999
    assert [] == await queue.receive()
    clock.now += 1
    assert 2 == (await queue.receive())[0].attempt


async def test_renew_needs_a_lease(queue, clock):
    """An ended one, an old one and none at all are refused."""
    await queue.send("x")
    assert "QUEUE_OPERATION_FAILED" == await code_of(queue.renew(f"1:{uuid.uuid4()}", 1))
    (old,) = await queue.receive()
    clock.now += LEASE
    assert "QUEUE_OPERATION_FAILED" == await code_of(queue.renew(old.receipt_handle, 1))
    (new,) = await queue.receive()
    assert "QUEUE_OPERATION_FAILED" == await code_of(queue.renew(old.receipt_handle, 1))
    await queue.nack(new.receipt_handle)
    assert "QUEUE_OPERATION_FAILED" == await code_of(queue.renew(new.receipt_handle, 1))
    (new,) = await queue.receive()
    await queue.ack(new.receipt_handle)
    assert "QUEUE_OPERATION_FAILED" == await code_of(queue.renew(new.receipt_handle, 1))


async def test_renewals_are_one_to_six_hundred_seconds(queue, clock):
    """Whole ones."""
    await queue.send("x")
    (message,) = await queue.receive()
    for seconds in (0, 601, -1, 1.5, True, "1", None):
        assert "INVALID_INPUT" == await code_of(queue.renew(message.receipt_handle, seconds))
    clock.now += LEASE - 1
    assert QueueStats(1, 0, 1, 0) == await queue.stats()


async def test_purge_deletes_all(queue):
    """Leased messages too, and their receipts are nothing to do afterwards."""
    for n in range(3):
        await queue.send(n)
    (message,) = await queue.receive()
    await queue.purge()
    assert QueueStats(0, 0, 0, 0) == await queue.stats()
    await queue.ack(message.receipt_handle)


async def test_ids_are_never_used_again(queue):
    """A receipt of before a purge cannot hit a message of after it."""
    await queue.send("before")
    (message,) = await queue.receive()
    await queue.purge()
    await queue.send("after")
    await queue.ack(message.receipt_handle)
    (after,) = await queue.receive()
    assert int(message.receipt_handle.split(":")[0]) < int(after.receipt_handle.split(":")[0])


async def test_stats_tell_states_apart(queue, clock):
    """Due, leased, and put off by a foreign writer."""
    for n in range(3):
        await queue.send(n)
    await queue.receive()
    await change(
        queue,
        "INSERT INTO messages (payload_type, payload_data, enqueued_at, visible_at)"
        " VALUES ('text', 'x', :now, :later)",
        later=clock.now + 1,
    )
    assert QueueStats(total=4, visible=2, in_flight=1, delayed=1) == await queue.stats()
    clock.now += LEASE
    assert QueueStats(total=4, visible=4, in_flight=0, delayed=0) == await queue.stats()


async def test_the_largest_message_fits(queue):
    """65,536 bytes of stored text, counted in UTF-8, and not one more."""
    await queue.send("x" * 65_534)
    await queue.send_text("é" * 32_768)
    assert "BINDING_SETUP_FAILED" == await code_of(queue.send("x" * 65_535))
    assert "BINDING_SETUP_FAILED" == await code_of(queue.send_text("é" * 32_768 + "x"))
    assert "BINDING_SETUP_FAILED" == await code_of(queue.send("\x00" * 10_923))
    assert ["x" * 65_534, "é" * 32_768] == payloads(await queue.receive(10))


async def test_what_cannot_be_stored_is_refused(queue):
    """Nothing of it is stored."""
    for value in (float("nan"), object(), {1: 2}, "\ud800"):
        assert "INVALID_INPUT" == await code_of(queue.send(value))
    for value in (1, None, b"x", "\ud800"):
        assert "INVALID_INPUT" == await code_of(queue.send_text(value))
    assert QueueStats(0, 0, 0, 0) == await queue.stats()


async def test_an_empty_text_can_be_sent_alone(queue):
    """Batches refuse it, single sends do not."""
    await queue.send_text("")
    assert [""] == payloads(await queue.receive())


async def test_a_batch_has_an_outcome_for_each_input(queue):
    """In their order, whatever the length; what is rejected is surely not stored."""
    values = [*range(23), float("nan"), "x" * 70_000, 23]
    outcomes = await queue.send_batch(iter(values))
    assert ["sent"] * 23 + ["rejected"] * 2 + ["sent"] == [outcome.status for outcome in outcomes]
    assert ["INVALID_INPUT", "QUEUE_MESSAGE_SIZE_INVALID"] == [o.code for o in outcomes[23:25]]
    assert {"status": "sent"} == outcomes[0].as_json()
    assert {"status", "code", "message"} == set(outcomes[23].as_json())
    found = []
    while messages := await queue.receive(10):
        found += payloads(messages)
    assert list(range(24)) == found


async def test_batches_of_texts_take_one_byte_to_the_limit(queue):
    """An empty text is of the wrong size there."""
    outcomes = await queue.send_batch_text(["", "x", "x" * 65_536, "x" * 65_537])
    assert ["rejected", "sent", "sent", "rejected"] == [outcome.status for outcome in outcomes]
    assert "QUEUE_MESSAGE_SIZE_INVALID" == outcomes[0].code == outcomes[3].code


async def test_an_empty_batch_is_nothing(queue):
    """No outcome, and nothing stored."""
    assert [] == await queue.send_batch([])
    assert [] == await queue.send_batch_text([])
    assert [] == await queue.ack_batch([])


async def test_receipts_of_a_batch_fail_one_by_one(queue, clock):
    """Stale ones fail; acknowledged, unknown and repeated ones do not."""
    await queue.send_batch(range(12))
    stale = (await queue.receive())[0].receipt_handle
    clock.now += LEASE
    current = [m.receipt_handle for m in await queue.receive(10)]
    current += [m.receipt_handle for m in await queue.receive(10)]
    assert 12 == len(current)
    outcomes = await queue.ack_batch([*current[1:], current[1], stale, "unknown"])
    assert ["acknowledged"] * 12 + ["failed", "acknowledged"] == [o.status for o in outcomes]
    assert "QUEUE_OPERATION_FAILED" == outcomes[12].code
    assert {"status": "acknowledged"} == outcomes[0].as_json()
    assert QueueStats(1, 0, 1, 0) == await queue.stats()


FOREIGN = [
    ("protobuf", "x"),
    ("JSON", "1"),
    ("json", "{"),
    ("json", "NaN"),
    ("json", ""),
    ("json", '"\\ud800"'),
    ("json", "[" * 128 + "]" * 128),
    ("json", "9" * 400),
]


@pytest.mark.parametrize(("kind", "data"), FOREIGN)
async def test_a_row_that_cannot_be_decoded_blocks_nothing(queue, caplog, kind, data):
    """It is stepped over, stays as it is, and is logged once; others are delivered."""
    insert = (
        "INSERT INTO messages (payload_type, payload_data, enqueued_at, visible_at)"
        " VALUES (:kind, :data, 0, 0)"
    )
    for _ in range(3):
        await change(queue, insert, kind=kind, data=data)
    await queue.send("good")
    await queue.send("also good")
    with caplog.at_level(logging.WARNING):
        assert ["good"] == payloads(await queue.receive())
        assert ["also good"] == payloads(await queue.receive(10))
        assert [] == await queue.receive(10)
    assert 3 == len([r for r in caplog.records if "cannot be decoded" in r.getMessage()])
    found = await rows(queue, "SELECT visible_at, attempt, receipt_handle FROM messages LIMIT 3")
    assert [(0, 0, None)] * 3 == [tuple(row) for row in found]
    assert QueueStats(5, 3, 2, 0) == await queue.stats()
    await queue.purge()
    await queue.send("after")
    assert ["after"] == payloads(await queue.receive(10))


@pytest.mark.parametrize("attempt", [1.5, "many", -1, 2**63 - 1])
async def test_a_row_whose_attempts_cannot_be_counted_blocks_nothing(queue, attempt):
    """It is as broken as one without a payload."""
    await change(
        queue,
        "INSERT INTO messages (payload_type, payload_data, enqueued_at, visible_at, attempt)"
        " VALUES ('text', 'x', 0, 0, :attempt)",
        attempt=attempt,
    )
    await queue.send("good")
    assert ["good"] == payloads(await queue.receive(10))
    assert QueueStats(2, 1, 1, 0) == await queue.stats()


async def test_many_broken_rows_leave_room_for_a_full_receive(queue):
    """However many of them are in front."""
    insert = (
        "INSERT INTO messages (payload_type, payload_data, enqueued_at, visible_at)"
        " VALUES ('json', '?', 0, 0)"
    )
    for _ in range(35):
        await change(queue, insert)
    await queue.send_batch(range(25))
    for expected in (range(10), range(10, 20), range(20, 25)):
        assert list(expected) == payloads(await queue.receive(10))


async def test_text_that_is_no_utf8_blocks_nothing(tmp_path, clock):
    """A row whose text no driver can decode is a broken row like others."""
    async with LocalQueue(tmp_path, clock=clock) as queue:
        columns = "payload_type, payload_data, enqueued_at, visible_at, attempt"
        for values in (
            "'text', CAST(x'80' AS TEXT), 0, 0, 0",
            "CAST(x'ff' AS TEXT), 'x', 0, 0, 0",
            "'text', 'x', 0, 0, CAST(x'80' AS TEXT)",
        ):
            sql = f"INSERT INTO messages ({columns}) VALUES ({values})"
            await change(queue, sql)
        await queue.send("good")
        assert ["good"] == payloads(await queue.receive(10))


async def test_json_of_others_is_read_as_json(queue):
    """However it is written."""
    await change(
        queue,
        "INSERT INTO messages (payload_type, payload_data, enqueued_at, visible_at)"
        " VALUES ('json', :data, 0, 0)",
        data=' {"b": 1, "a" : [1E2]} ',
    )
    (message,) = await queue.receive()
    assert {"b": 1, "a": [100.0]} == message.payload


async def test_a_failed_receive_leases_nothing(queue):
    """All or none of a receive's claims."""
    await queue.send_batch(range(3))
    await change(
        queue,
        "CREATE TRIGGER refuse BEFORE UPDATE ON messages WHEN old.id = 2"
        " BEGIN SELECT RAISE(ABORT, 'no'); END",
    )
    assert "QUEUE_OPERATION_FAILED" == await code_of(queue.receive(10))
    assert QueueStats(3, 3, 0, 0) == await queue.stats()
    await change(queue, "DROP TRIGGER refuse")
    assert [0, 1, 2] == payloads(await queue.receive(10))


async def test_one_refused_send_does_not_take_others_along(queue):
    """Those that share its turn, and so its transaction, are stored."""
    await change(
        queue,
        "CREATE TRIGGER refuse BEFORE INSERT ON messages WHEN new.payload_data = '3'"
        " BEGIN SELECT RAISE(ABORT, 'no'); END",
    )
    results = await asyncio.gather(*(queue.send(n) for n in range(6)), return_exceptions=True)
    assert [False, False, False, True, False, False] == [
        isinstance(result, LocalStoreError) for result in results
    ]
    assert [0, 1, 2, 4, 5] == payloads(await queue.receive(10))


async def test_a_batch_request_that_fails_is_unknown_alone(queue):
    """The other requests of the batch are sent, those after it as well."""
    await change(
        queue,
        "CREATE TRIGGER refuse BEFORE INSERT ON messages WHEN new.payload_data = '15'"
        " BEGIN SELECT RAISE(ABORT, 'no'); END",
    )
    outcomes = await queue.send_batch(range(25))
    assert ["sent"] * 10 + ["unknown"] * 10 + ["sent"] * 5 == [o.status for o in outcomes]
    assert "QUEUE_OPERATION_FAILED" == outcomes[15].code
    assert QueueStats(15, 15, 0, 0) == await queue.stats()


async def test_everything_is_there_after_reopening(tmp_path, driver, clock):
    """Leases, attempts and ids as well."""
    async with LocalQueue(tmp_path, driver=driver, clock=clock) as queue:
        await queue.send_batch(["a", "b"])
        (leased,) = await queue.receive()
    async with LocalQueue(tmp_path, driver=driver, clock=clock) as queue:
        assert QueueStats(2, 1, 1, 0) == await queue.stats()
        clock.now += LEASE
        first, _ = await queue.receive(10)
        assert ("a", 2) == (first.payload, first.attempt)
        assert "QUEUE_OPERATION_FAILED" == await code_of(queue.ack(leased.receipt_handle))


async def test_the_other_driver_goes_on_with_the_file(tmp_path, driver, clock):
    """Messages, leases, receipts and ids are the same to both."""
    other = {"sqlite3": "turso", "turso": "sqlite3"}[driver]
    async with LocalQueue(tmp_path, driver=driver, clock=clock) as queue:
        await queue.send({"a": "é\x00😀"})
        await queue.send_batch_text(["b", "c"])
        first, second = await queue.receive(2)
    async with LocalQueue(tmp_path, driver=other, clock=clock) as queue:
        await queue.ack(first.receipt_handle)
        await queue.renew(second.receipt_handle, 1)
        (third,) = await queue.receive(10)
        assert ("c", 1) == (third.payload, third.attempt)
        await queue.purge()
        await queue.send({"a": "é\x00😀"})
    async with LocalQueue(tmp_path, driver=driver, clock=clock) as queue:
        (last,) = await queue.receive(10)
        assert first.payload == last.payload
        assert "4" == last.receipt_handle.split(":")[0]


async def test_a_closed_queue_says_so(tmp_path, driver):
    """And closing it again is nothing."""
    queue = LocalQueue(tmp_path, driver=driver)
    async with queue:
        await queue.send(1)
    await queue.close()
    for call in (queue.send(1), queue.receive(), queue.ack(f"1:{uuid.uuid4()}"), queue.stats()):
        with pytest.raises(LocalStoreError, match="closed") as caught:
            await call
        assert "QUEUE_OPERATION_FAILED" == caught.value.code


async def test_each_message_goes_to_one_of_many_handles(tmp_path, driver, clock):
    """Ten handles, and tasks of each, take all messages, each of them once."""
    handles = [LocalQueue(tmp_path, driver=driver, clock=clock) for _ in range(10)]
    for handle in handles:
        await handle.open()
    try:
        await asyncio.gather(*(h.send_batch(range(20)) for h in handles))

        async def take(handle):
            taken = []
            while messages := await handle.receive(3):
                taken += [message.receipt_handle for message in messages]
                assert {1} == {message.attempt for message in messages}
            return taken

        taken = await asyncio.gather(*(take(h) for h in handles for _ in range(3)))
        found = [receipt for each in taken for receipt in each]
        assert 200 == len(found) == len({receipt.split(":")[0] for receipt in found})
        outcomes = await handles[0].ack_batch(found)
        assert {"acknowledged"} == {outcome.status for outcome in outcomes}
    finally:
        for handle in handles:
            await handle.close()


async def test_an_abandoned_receive_leases_all_or_nothing(queue, clock):
    """A cancelled call that had started runs to its end: its messages come back after the lease."""
    await queue.send_batch(range(5))
    task = asyncio.create_task(queue.receive(5))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    stats = await queue.stats()
    assert (stats.visible, stats.in_flight) in {(5, 0), (0, 5)}
    clock.now += LEASE
    assert list(range(5)) == payloads(await queue.receive(10))


async def test_messages_are_plain_values(queue):
    """They compare by what they hold, and print as that."""
    await queue.send({"a": 1})
    (message,) = await queue.receive()
    assert QueueMessage("json", {"a": 1}, message.receipt_handle, 1) == message
    assert json.dumps({"a": 1}) in repr(message).replace("'", '"')


class Growing(set):
    """Known ids that become more after they have been counted."""

    def __len__(self) -> int:
        found = super().__len__()
        self.update(range(1, 6))
        return found


async def test_rows_found_broken_meanwhile_hide_nothing(queue):
    """A receive may begin before it is known what another has just found."""
    await queue.send_batch(range(6))
    await change(queue, "UPDATE messages SET payload_type = 'odd' WHERE id < 6")
    found = await queue._file.run(Mode.WRITE, queue_ops.receive, 1, Growing())
    assert [message.payload for message in found.messages] == [5]


@pytest.mark.parametrize("huge", [10**5000, -(10**5000)], ids=["above", "below"])
async def test_huge_numbers_are_refused_as_others(queue, huge):
    """Python does not even write them."""
    assert await code_of(queue.receive(huge)) == "BINDING_SETUP_FAILED"
    assert await code_of(queue.renew("1:x", huge)) == "INVALID_INPUT"
