"""`LocalHttpQueue`: one request for each call, whatever happens to it."""

import asyncio
import contextlib
import json
import socket
import struct

import pytest
import pytest_asyncio

from alkstore_localstores import LocalStoreError
from alkstore_localstores.client import LocalHttpQueue
from alkstore_localstores.messages import QueueMessage, QueueStats

TOKEN = "secret-token"


@pytest.fixture
def driver():
    """One will do: the client does not know of them."""
    return "sqlite3"


class Wire:
    """A TCP server that counts requests and does with each what a test says."""

    def __init__(self) -> None:
        self.requests = []
        self.connections = 0
        self.script = []
        self.address = None

    async def talk(self, reader, writer) -> None:
        """Serve a connection."""
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                self.requests.append((head, await reader.readexactly(length)))
                if not await self.script.pop(0)(writer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def reply(body=b"null", status="200 OK", head=b"", length=None):
    """A whole answer, or one that says it is longer than it is."""

    async def send(writer) -> bool:
        size = len(body) if length is None else length
        writer.write(
            f"HTTP/1.1 {status}\r\nContent-Length: {size}\r\n".encode() + head + b"\r\n" + body
        )
        await writer.drain()
        return True

    return send


def then(first, last):
    """One thing after the other, and the end of the connection."""

    async def both(writer) -> bool:
        if first is not None:
            await first(writer)
        await last(writer)
        return False

    return both


async def _reset(writer) -> None:
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _close(writer) -> None:
    writer.close()


def raw(content):
    """These bytes."""

    async def send(writer) -> bool:
        writer.write(content)
        await writer.drain()
        return True

    return send


FAULTS = {
    "reset before the reply": then(None, _reset),
    "closed before the reply": then(None, _close),
    "reset in the head": then(raw(b"HTTP/1.1 200 OK\r\nContent-"), _reset),
    "closed in the head": then(raw(b"HTTP/1.1 200 OK\r\nContent-"), _close),
    "reset in the body": then(reply(b"nu", length=4), _reset),
    "half a body": then(reply(b"nu", length=4), _close),
    "half a chunk": then(
        raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nnu"), _close
    ),
    "no HTTP": then(raw(b"hello\r\n\r\n"), _close),
    "no JSON": reply(b"oops"),
    "nothing": reply(b""),
    "another value": reply(b'"done"'),
    "no content": reply(b"", status="204 No Content"),
    "a redirect": reply(status="307 Temporary Redirect", head=b"Location: /elsewhere\r\n"),
    "a permanent redirect": reply(status="308 Permanent Redirect", head=b"Location: /other\r\n"),
    "somebody else's error": reply(b'{"detail": "x"}', status="500 Internal Server Error"),
    "somebody else's page": reply(b"<html>", status="502 Bad Gateway"),
    "a proxy's refusal": reply(b'"slow down"', status="503 Service Unavailable"),
    "a wish to retry": reply(b"[]", status="429 Too Many Requests", head=b"Retry-After: 0\r\n"),
}


@pytest_asyncio.fixture
async def wire():
    """A server whose answers the test decides."""
    wire = Wire()
    server = await asyncio.start_server(wire.talk, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    wire.address = f"http://{host}:{port}/queues/jobs"
    yield wire
    server.close()


@pytest_asyncio.fixture
async def queue(wire):
    """A client of that server."""
    async with LocalHttpQueue(wire.address, TOKEN) as queue:
        yield queue


@pytest.mark.parametrize("fresh", [True, False], ids=["new connection", "kept connection"])
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_one_request_and_an_unknown_outcome(wire, queue, fault, fresh):
    """Never a second try: the message may be there already."""
    if not fresh:
        wire.script.append(reply())
        await queue.send("first")
    # Anything sent again would find this answer, and be taken for the truth.
    wire.script += [FAULTS[fault], reply()]
    before = len(wire.requests)
    with pytest.raises(LocalStoreError, match="unknown") as caught:
        await queue.send("x")
    error = caught.value
    assert ("QUEUE_OPERATION_FAILED", "unknown") == (error.code, error.context["acceptance"])
    assert 1 == len(wire.requests) - before
    causes = f"{error.__cause__!r} {error.__context__!r}"
    assert TOKEN not in f"{error!r} {error} {error.envelope()} {causes}"


@pytest.mark.parametrize("fault", FAULTS)
async def test_every_operation_asks_once(wire, queue, fault):
    """Those that could be repeated without harm as well."""
    calls = (
        queue.receive,
        lambda: queue.ack("1:x"),
        lambda: queue.nack("1:x"),
        lambda: queue.renew("1:x", 60),
        queue.purge,
        queue.stats,
    )
    for call in calls:
        wire.script[:] = [FAULTS[fault], reply()]
        before = len(wire.requests)
        with pytest.raises(LocalStoreError, match="unknown"):
            await call()
        assert 1 == len(wire.requests) - before


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_failed_request_of_a_batch_marks_its_own_items(wire, queue, fault):
    """Unknown or failed, and the requests after it go out."""
    ten, five = (b"[%s]" % b",".join([b'{"status":"sent"}'] * count) for count in (10, 5))
    wire.script += [reply(ten), FAULTS[fault], reply(five)]
    outcomes = await queue.send_batch(range(25))
    assert ["sent"] * 10 + ["unknown"] * 10 + ["sent"] * 5 == [o.status for o in outcomes]
    assert 3 == len(wire.requests)
    acked = b'[{"status":"acknowledged"}]'
    wire.script[:] = [FAULTS[fault], reply(acked)]
    receipts = [f"{n}:x" for n in range(11)]
    outcomes = await queue.ack_batch(receipts)
    assert ["failed"] * 10 + ["acknowledged"] == [outcome.status for outcome in outcomes]
    assert 5 == len(wire.requests)


@pytest.mark.parametrize(
    "answer",
    [
        b"[]",
        b'[{"status":"sent"}]',
        b'[{"status":"sent"},{"status":"sent"},{"status":"sent"}]',
        b'[{"status":"sent"},{"status":"great"}]',
        b'[{"status":"sent"},{"status":"rejected"}]',
        b'[{"status":"acknowledged"},{"status":"acknowledged"}]',
        b"[1,2]",
        b"null",
        b'{"status":"sent"}',
    ],
)
async def test_a_batch_answer_that_does_not_fit_says_nothing(wire, queue, answer):
    """Nobody can tell which outcome is whose."""
    wire.script.append(reply(answer))
    outcomes = await queue.send_batch([1, 2])
    assert [("unknown", "QUEUE_BATCH_RESPONSE_INVALID")] * 2 == [
        (outcome.status, outcome.code) for outcome in outcomes
    ]
    wire.script.append(reply(answer.replace(b"acknowledged", b"sent")))
    outcomes = await queue.ack_batch(["1:x", "2:x"])
    assert [("failed", "QUEUE_BATCH_RESPONSE_INVALID")] * 2 == [
        (outcome.status, outcome.code) for outcome in outcomes
    ]


async def test_a_reset_after_the_reply_is_no_reason_to_ask_again(wire):
    """The reply is read, or lost with the connection; there is one request either way."""
    for number in range(10):
        wire.script[:] = [then(reply(), _reset), reply()]
        async with LocalHttpQueue(wire.address, TOKEN) as queue:
            with contextlib.suppress(LocalStoreError):
                await queue.send(number)
        assert number + 1 == len(wire.requests)


async def test_a_call_that_was_cancelled_leaves_no_answer_behind(wire, queue):
    """The next call does not take the answer that was meant for it."""
    asked = asyncio.Event()

    async def late(writer) -> bool:
        asked.set()
        await asyncio.sleep(0.05)
        return await reply(b'"for another"')(writer)

    wire.script += [late, reply()]
    call = asyncio.create_task(queue.send("x"))
    await asked.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await queue.send("y")
    assert 2 == len(wire.requests)


async def test_a_silent_owner_is_given_up(wire):
    """After the whole time, which a drip of bytes does not prolong."""
    async with LocalHttpQueue(wire.address, TOKEN, timeout=0.3) as queue:

        async def drip(writer) -> bool:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            while not writer.is_closing():
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.01)
            return False

        wire.script += [drip, reply()]
        with pytest.raises(LocalStoreError, match=r"no answer within 0\.3 s") as caught:
            await queue.send("x")
        assert "unknown" == caught.value.context["acceptance"]
        assert 1 == len(wire.requests)


async def test_nobody_there_is_an_unknown_outcome_too(unused_tcp_port):
    """The caller cannot tell this from a proxy that has taken it."""
    async with LocalHttpQueue(f"http://127.0.0.1:{unused_tcp_port}/queues/x", TOKEN) as queue:
        with pytest.raises(LocalStoreError, match="unknown") as caught:
            await queue.send("x")
    assert "QUEUE_OPERATION_FAILED" == caught.value.code
    assert "whether the owner is running" in str(caught.value)


async def test_a_connection_that_was_closed_while_idle_is_not_used(wire, queue):
    """The next call opens another, and nothing is lost or sent twice."""
    wire.script += [then(reply(), _close), reply()]
    await queue.send("x")
    await asyncio.sleep(0.05)
    await queue.send("y")
    assert (2, 2) == (len(wire.requests), wire.connections)


async def test_a_connection_is_kept(wire, queue):
    """Calls one after the other share it."""
    wire.script += [reply()] * 5
    for n in range(5):
        await queue.send(n)
    assert (5, 1) == (len(wire.requests), wire.connections)


async def test_a_request_is_as_documented(wire, queue):
    """To the endpoint as it was given, with the token and JSON."""
    wire.script += [reply()] * 2
    await queue.send({"b": 1, "a": "é"})
    await queue.send_text('"')
    (head, body), (_, text) = wire.requests
    assert head.startswith(b"POST /queues/jobs HTTP/1.1\r\n")
    assert f"\r\nAuthorization: Bearer {TOKEN}\r\n".encode() in head
    assert b"\r\nContent-Type: application/json\r\n" in head
    assert '{"operation":"send","message":{"type":"json","data":{"a":"é","b":1}}}' == body.decode()
    assert {"operation": "send", "message": {"type": "text", "data": '"'}} == json.loads(text)


async def test_an_endpoint_is_used_as_it_is(wire):
    """No slash is added, and no escape is changed."""
    endpoint = wire.address.replace("/queues/jobs", "/a%2Fb/%7e//c/?x=%20")
    async with LocalHttpQueue(endpoint, TOKEN) as queue:
        wire.script.append(reply())
        await queue.send(1)
    assert wire.requests[0][0].startswith(b"POST /a%2Fb/%7e//c/?x=%20 HTTP/1.1\r\n")


async def test_the_environment_has_no_say(wire, monkeypatch, tmp_path):
    """Neither proxies nor stored logins: the binding says all."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password other\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    async with LocalHttpQueue(wire.address, TOKEN) as queue:
        wire.script.append(reply())
        await queue.send(1)
    assert f"Bearer {TOKEN}".encode() in wire.requests[0][0]


async def test_what_cannot_be_sent_is_not(wire, queue):
    """The owner's limits are told without asking it."""
    for call, code in (
        (queue.send("x" * 65_535), "BINDING_SETUP_FAILED"),
        (queue.send(float("nan")), "INVALID_INPUT"),
        (queue.send_text(1), "INVALID_INPUT"),
        (queue.receive(11), "BINDING_SETUP_FAILED"),
        (queue.renew("x", 601), "INVALID_INPUT"),
        (queue.ack(None), "INVALID_INPUT"),
    ):
        with pytest.raises(LocalStoreError) as caught:
            await call
        assert code == caught.value.code
    assert ["rejected"] == [o.status for o in await queue.send_batch_text([""])]
    assert [] == await queue.send_batch([])
    assert [] == wire.requests


async def test_an_owners_error_arrives_as_it_is(wire, queue):
    """With all its fields."""
    sent = LocalStoreError(
        "QUEUE_OPERATION_FAILED", "stale", hint="h", context={"a": 1}, retryable=False
    )
    wire.script.append(reply(json.dumps(sent.envelope()).encode(), status="502 Bad Gateway"))
    with pytest.raises(LocalStoreError) as caught:
        await queue.ack("1:x")
    assert sent.envelope() == caught.value.envelope()


async def test_a_closed_client_sends_nothing(wire):
    """And says so."""
    queue = LocalHttpQueue(wire.address, TOKEN)
    with pytest.raises(LocalStoreError, match="nothing was sent"):
        await queue.send(1)
    async with queue:
        pass
    await queue.close()
    with pytest.raises(LocalStoreError, match="nothing was sent"):
        await queue.send(1)
    assert 0 == wire.connections


async def test_it_is_a_queue_like_the_local_one(served, clock):
    """Everything the owner says arrives as values."""
    async with LocalHttpQueue(served.endpoint, served.token) as queue:
        await queue.send({"a": [1, "é"]})
        await queue.send_text("x")
        assert ["sent"] * 12 == [o.status for o in await queue.send_batch(range(12))]
        assert ["sent", "rejected"] == [o.status for o in await queue.send_batch_text(["t", ""])]
        assert QueueStats(15, 15, 0, 0) == await queue.stats()
        first, second = await queue.receive(2)
        assert QueueMessage("json", {"a": [1, "é"]}, first.receipt_handle, 1) == first
        assert ("text", "x") == (second.payload_type, second.payload)
        await queue.renew(first.receipt_handle, 60)
        clock.now += 30_000
        (again,) = await queue.receive()
        assert ("x", 2) == (again.payload, again.attempt)
        outcomes = await queue.ack_batch([second.receipt_handle, again.receipt_handle])
        assert ["failed", "acknowledged"] == [outcome.status for outcome in outcomes]
        await queue.nack(first.receipt_handle)
        with pytest.raises(LocalStoreError) as caught:
            await queue.renew(first.receipt_handle, 60)
        assert ("QUEUE_OPERATION_FAILED", 502) == (caught.value.code, caught.value.http_status_code)
        await queue.purge()
        assert QueueStats(0, 0, 0, 0) == await queue.stats()
        big = ["\x01" * 65_536] * 10
        assert ["sent"] * 10 == [o.status for o in await queue.send_batch_text(big)]
        assert big == [message.payload for message in await queue.receive(10)]
    async with LocalHttpQueue(served.endpoint, "other") as queue:
        with pytest.raises(LocalStoreError) as caught:
            await queue.stats()
        assert "LOCAL_QUEUE_UNAUTHORIZED" == caught.value.code


@pytest.mark.parametrize("endpoint", ["http://[::1]x/", "http://h\\x/"])
def test_an_address_that_cannot_be_taken_apart_is_refused(endpoint):
    """Whoever notices, the error is ours."""
    with pytest.raises(LocalStoreError) as caught:
        LocalHttpQueue(endpoint, TOKEN)
    assert caught.value.code == "BINDING_CONFIG_INVALID"


async def test_closing_cancels_nobody(wire):
    """Who waits for a connection then hears it by an error, as a cancellation would be lost."""
    queue = LocalHttpQueue(wire.address, TOKEN)
    await queue.open()
    asked = asyncio.Event()

    async def hold(_) -> bool:
        asked.set()
        await asyncio.Event().wait()

    wire.script = [hold] * 200
    calls = [asyncio.create_task(queue.purge()) for _ in range(150)]
    await asked.wait()
    await queue.close()
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(outcome, LocalStoreError)
        assert outcome.context == {"operation": "purge", "acceptance": "unknown"}


async def test_a_cancelled_call_is_cancelled(wire, queue):
    """Our own cancellation is not taken for that of the connection."""
    asked = asyncio.Event()

    async def hold(_) -> bool:
        asked.set()
        await asyncio.Event().wait()

    wire.script = [hold]
    call = asyncio.create_task(queue.purge())
    await asked.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_another_loop_is_told_so(wire, queue):
    """And nothing is sent."""

    async def purge():
        await queue.purge()

    with pytest.raises(LocalStoreError, match="another event loop") as caught:
        await asyncio.to_thread(asyncio.run, purge())
    assert caught.value.code == "QUEUE_OPERATION_FAILED"
    assert wire.requests == []
