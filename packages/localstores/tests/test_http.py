"""The owner's HTTP surface: what it answers, and to whom."""

import asyncio
import json
import logging
import socket

import aiohttp
import pytest

from alkstore_localstores.client import LocalHttpQueue
from alkstore_localstores.messages import text_payload
from alkstore_localstores.owner.app import create_app
from alkstore_localstores.owner.owner import QueueOwner
from alkstore_localstores.owner.server import serving
from alkstore_localstores.protocol import BODY_LIMIT, write_request

TEXT = {"type": "text", "data": "x"}


@pytest.fixture
def driver():
    """One will do: what is asked over HTTP is the same on both."""
    return "sqlite3"


BAD = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff",
    b"[" * 100_000,
    b'{"operation":"sell"}',
    b'{"operation":["send"]}',
    b'{"message":{"type":"text","data":"x"}}',
    b'{"operation":"send"}',
    b'{"operation":"send","message":"x"}',
    b'{"operation":"send","message":{"type":"text"}}',
    b'{"operation":"send","message":{"type":"text","data":1}}',
    b'{"operation":"send","message":{"type":"xml","data":"x"}}',
    b'{"operation":"send","message":{"type":"json","data":NaN}}',
    b'{"operation":"send","message":{"type":"json","data":1e999}}',
    b'{"operation":"send","message":{"type":"json","data":"\\ud800"}}',
    b'{"operation":"send","message":{"type":"json","data":1,"more":1}}',
    b'{"operation":"send","message":{"type":"json","data":1},"delaySeconds":1}',
    b'{"operation":"sendBatch","messages":{}}',
    b'{"operation":"sendBatch","messages":[1]}',
    b'{"operation":"receive","maxMessages":0}',
    b'{"operation":"receive","maxMessages":11}',
    b'{"operation":"receive","maxMessages":1.5}',
    b'{"operation":"receive","maxMessages":true}',
    b'{"operation":"receive","maxMessages":"1"}',
    b'{"operation":"ack","receipt":1}',
    b'{"operation":"ackBatch","receipts":[1]}',
    b'{"operation":"renew","receipt":"x","durationSeconds":0}',
    b'{"operation":"renew","receipt":"x","durationSeconds":601}',
    b'{"operation":"renew","receipt":1,"durationSeconds":60}',
    b'{"operation":"purge","really":true}',
    write_request("sendBatch", messages=[TEXT] * 11),
    write_request("ackBatch", receipts=["x"] * 11),
    write_request("send", message={"type": "text", "data": "x" * 65_537}),
]


@pytest.mark.parametrize("body", BAD, ids=lambda body: repr(body[:60]))
async def test_a_bad_request_is_told_so(served, body):
    """400 with the library's code; nothing is done."""
    reply = await served.talk(served.head(len(body), "Connection: close") + body)
    head, _, content = reply.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    envelope = json.loads(content)
    assert envelope["code"] in {"INVALID_INPUT", "BINDING_SETUP_FAILED"}
    assert 400 == envelope["httpStatusCode"]
    assert 0 == (await served.ask("stats"))[1]["total"]


async def test_limits_keep_their_codes(served):
    """Too large a message and too many at once are what they are in the library."""
    large = {"type": "json", "data": "x" * 65_535}
    assert "BINDING_SETUP_FAILED" == (await served.ask("send", message=large))[1]["code"]
    assert "BINDING_SETUP_FAILED" == (await served.ask("receive", maxMessages=11))[1]["code"]


async def test_ten_of_the_largest_messages_fit_in_one_request(served):
    """Also when each of their bytes takes six in JSON."""
    messages = [{"type": "text", "data": "\x01" * 65_536}] * 10
    body = json.dumps({"operation": "sendBatch", "messages": messages}).encode()
    assert 3_900_000 < len(body) < BODY_LIMIT
    status, outcomes = await served.ask("sendBatch", messages=messages)
    assert (200, [{"status": "sent"}] * 10) == (status, outcomes)
    status, received = await served.ask("receive", maxMessages=10)
    assert messages == [message["payload"] for message in received]


async def unauthorized(served, headers, endpoint=None, body=b'{"operation":"stats"}'):
    """The answer to these headers, which must be a refusal; without what varies."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(endpoint or served.endpoint, data=body, headers=headers) as answer,
    ):
        content = await answer.read()
        assert 401 == answer.status
        assert "Bearer" == answer.headers["WWW-Authenticate"]
        assert "LOCAL_QUEUE_UNAUTHORIZED" == json.loads(content)["code"]
        return content, {k: v for k, v in answer.headers.items() if k != "Date"}


async def test_only_the_queues_own_token_is_accepted(served):
    """Wrong, missing, another queue's, truncated, lengthened: one and the same answer."""
    other = await served.owner.create("other")
    tokens = ["", "x", other, served.token[:-1], served.token + "x", served.token.swapcase(), "é"]
    headers = [{"Authorization": f"Bearer {token}"} for token in tokens]
    headers += [{}, {"Authorization": served.token}, {"Authorization": f"Basic {served.token}"}]
    answers = [await unauthorized(served, each) for each in headers]
    missing = f"{served.address}/queues/missing"
    answers.append(await unauthorized(served, {"Authorization": f"Bearer {served.token}"}, missing))
    answers.append(await unauthorized(served, headers[0], body=b"no JSON"))
    assert all(answer == answers[0] for answer in answers)


async def test_two_tokens_are_none(served):
    """Whoever looks at the first of them, or the last, cannot be played off against each other."""
    extra = f"Authorization: Bearer {served.token}"
    reply = await served.talk(served.head(2, extra, "Connection: close") + b"{}")
    assert reply.startswith(b"HTTP/1.1 401 ")


async def test_the_scheme_may_be_spelled_as_one_likes(served):
    """As HTTP has it."""
    async with aiohttp.ClientSession() as session:
        headers = {"Authorization": f"bEARER  {served.token} "}
        async with session.post(
            served.endpoint, data=b'{"operation":"stats"}', headers=headers
        ) as answer:
            assert 200 == answer.status


@pytest.mark.parametrize(
    "path",
    [
        "/queues/",
        "/queues/jobs/",
        "/queues//jobs",
        "/queues/../queues/jobs",
        "/queues/%2e%2e",
        "/queues/..%2fstate",
        "/queues/jobs%2f..%2fjobs",
        "/queues/jobs%00",
        "/queues/j%6Fbs%20",
        "/queues/" + "a" * 65,
        "/queues/%C3%A9",
        "/queues/.deleted-jobs",
        "//queues/jobs",
        "/",
        "/openapi.json/",
        "/docs",
        "/queues/jobs;x",
    ],
)
async def test_no_other_path_leads_anywhere(served, tmp_path, path, snapshot):
    """Not found, or unknown as a queue; nothing is made of a name."""
    before = snapshot(tmp_path)
    body = b'{"operation":"stats"}'
    request = served.head(len(body), "Connection: close", path=path) + body
    reply = await served.talk(request)
    status = int(reply.split()[1])
    assert status in {401, 404}
    json.loads(reply.partition(b"\r\n\r\n")[2])
    assert before.keys() == snapshot(tmp_path).keys()


async def test_a_path_may_be_percent_encoded(served):
    """It names the same queue."""
    body = b'{"operation":"stats"}'
    request = served.head(len(body), "Connection: close", path="/queues/%6aobs") + body
    assert (await served.talk(request)).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE"])
async def test_queues_take_post_alone(served, method):
    """405, which says so; no redirect and no page."""
    request = served.head(0, "Connection: close", method=method)
    reply = await served.talk(request)
    assert reply.startswith(b"HTTP/1.1 405 ")
    assert b"\r\nallow: post\r\n" in reply.lower()


async def test_a_body_over_the_cap_is_refused(served):
    """With its length told or not, and its sender gets to read why."""
    for size in (BODY_LIMIT + 1, 2 * BODY_LIMIT):
        body = b"x" * size
        reply = await served.talk(served.head(size), body)
        assert reply.startswith(b"HTTP/1.1 413 ")
        assert b"connection: close" in reply.lower()
        chunked = (
            f"POST {served.path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {served.token}\r\n"
            f"Transfer-Encoding: chunked\r\n\r\n{size:x}\r\n"
        ).encode()
        reply = await served.talk(chunked, body, b"\r\n0\r\n\r\n")
        assert reply.startswith(b"HTTP/1.1 413 ")


async def test_a_huge_body_is_refused_unread(served):
    """By what it says of itself."""
    reply = await served.talk(served.head(10**12))
    assert reply.startswith(b"HTTP/1.1 413 ")
    assert "INVALID_INPUT" == json.loads(reply.partition(b"\r\n\r\n")[2])["code"]


async def test_a_body_at_the_cap_is_read(served):
    """It is JSON that is too much space, and fine."""
    body = b'{"operation":"stats"}'.ljust(BODY_LIMIT)
    reply = await served.talk(served.head(len(body), "Connection: close"), body)
    assert reply.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("part", [b"P", b"POST /queues/jobs HTTP/1.1\r\nHost: x\r\n", None])
async def test_a_slow_request_is_given_up(served, part):
    """408, and the connection with it: whoever sends a byte in a while holds none for ever."""
    reply = await served.talk(served.head(100) + b"{" if part is None else part)
    assert reply.startswith(b"HTTP/1.1 408 ")
    head, _, content = reply.partition(b"\r\n\r\n")
    assert b"connection: close" in head.lower()
    assert "INVALID_INPUT" == json.loads(content)["code"]


async def test_a_slow_second_request_is_given_up(served):
    """Its beginning does not get away with the end of the first."""
    reply = await served.talk(served.head(2) + b"{}" + b"POST /")
    assert [b"400", b"408"] == [part[:3] for part in reply.split(b"HTTP/1.1 ")[1:]]


async def test_a_request_behind_a_long_one_is_not_answered_before_it(served, monkeypatch):
    """Being late does not take the other one's answer away."""
    going = asyncio.Event()

    async def wait(*_):
        await going.wait()
        return '"done"'

    monkeypatch.setitem(create_app.__globals__["_OPERATIONS"], "stats", (wait, str))
    body = b'{"operation":"stats"}'
    talk = asyncio.create_task(served.talk(served.head(len(body)) + body + b"POST /"))
    # Longer than a request may take to arrive.
    await asyncio.sleep(1.3)
    going.set()
    reply = await talk
    assert [b"200", b"408"] == [part[:3] for part in reply.split(b"HTTP/1.1 ")[1:]]
    assert b'"done"' in reply


async def test_a_silent_connection_is_closed(served):
    """Without a word."""
    assert b"" == await served.talk()


async def test_an_idle_connection_is_kept(served):
    """Waiting between two requests is not being late."""
    body = b'{"operation":"stats"}'
    request = served.head(len(body)) + body
    reader, writer = await asyncio.open_connection(served.host, served.port)
    for _ in range(2):
        writer.write(request)
        assert b"200 OK" in await reader.readuntil(b"}")
        # Longer than a request may take.
        await asyncio.sleep(1.3)
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("endless", [b"x" * 70_000, b"X: y\r\n" * 12_000], ids=["one", "many"])
async def test_an_endless_head_is_cut_off(served, endless):
    """Before anybody has shown a token, little is kept of what they send."""
    start = served.head(0)[:-2]
    reply = await served.talk(start, endless, endless, endless)
    assert reply.startswith(b"HTTP/1.1 431 ")
    assert "INVALID_INPUT" == json.loads(reply.partition(b"\r\n\r\n")[2])["code"]


async def test_who_asks_before_sending_a_body_is_told_to(served):
    """And is refused without one where the token is wrong."""
    body = b'{"operation":"stats"}'
    head = served.head(len(body), "Expect: 100-continue", "Connection: close")
    reader, writer = await asyncio.open_connection(served.host, served.port)
    writer.write(head)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
    writer.write(body)
    assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
    writer.close()
    await writer.wait_closed()
    reply = await served.talk(head.replace(served.token.encode(), b"wrong"))
    assert reply.startswith(b"HTTP/1.1 401 ")


async def test_a_request_that_is_cut_off_does_nothing(served):
    """It is no request before its last byte."""
    body = write_request("send", message=TEXT)
    for cut in (0, 1, len(body) // 2, len(body) - 1):
        assert b"" == await served.talk(served.head(len(body)) + body[:cut], end=True)
    head = served.head(len(body))
    assert b"" == await served.talk(head[: len(head) // 2], end=True)
    assert 0 == (await served.ask("stats"))[1]["total"]


async def test_a_sender_who_does_not_wait_has_sent(served):
    """Who leaves after the last byte has a message in the queue, or would have been told."""
    body = write_request("send", message=TEXT)
    _, writer = await asyncio.open_connection(served.host, served.port)
    writer.write(served.head(len(body)) + body)
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    while not (await served.ask("stats"))[1]["total"]:
        pass


@pytest.mark.parametrize(
    "junk",
    [
        b"\x16\x03\x01\x02\x00\x01",
        b"GET\r\n\r\n",
        b"POST /queues/jobs HTTP/9.9\r\n\r\n",
        b"POST \xff HTTP/1.1\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"POST /queues/jobs HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /queues/jobs HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        b"POST /x HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
    ids=lambda junk: repr(junk[:40]),
)
async def test_what_is_no_request_is_refused_in_json(served, junk):
    """Like everything else that cannot be read; and the next one is served."""
    reply = await served.talk(junk)
    head, _, content = reply.partition(b"\r\n\r\n")
    assert int(head.split()[1]) in {400, 401, 404}
    assert b"application/json" in head
    assert json.loads(content)["code"] in {"INVALID_INPUT", "LOCAL_QUEUE_UNAUTHORIZED"}
    assert 200 == (await served.ask("stats"))[0]


async def test_an_upgrade_is_not_taken_up(served):
    """The request is answered as if nothing had been offered."""
    body = b'{"operation":"stats"}'
    offer = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: x")
    reply = await served.talk(served.head(len(body), *offer) + body)
    assert int(reply.split()[1]) in {200, 400}


async def test_requests_on_one_connection_are_answered_in_order(served):
    """Also when they do not wait for each other."""
    bodies = [write_request("send", message={"type": "json", "data": n}) for n in range(20)]
    bodies.append(write_request("receive", maxMessages=10))
    requests = [served.head(len(body)) + body for body in bodies[:-1]]
    requests.append(served.head(len(bodies[-1]), "Connection: close") + bodies[-1])
    reply = await served.talk(b"".join(requests))
    assert 21 == reply.count(b"HTTP/1.1 200 ")
    received = json.loads(reply.rpartition(b"\r\n\r\n")[2])
    assert list(range(10)) == [message["payload"]["data"] for message in received]


async def test_two_hundred_clients_at_once(served):
    """Each is served; each message goes to one of them."""

    async def work(n):
        async with LocalHttpQueue(served.endpoint, served.token) as queue:
            for part in range(3):
                await queue.send([n, part])
            taken = []
            while messages := await queue.receive(5):
                taken += [tuple(message.payload) for message in messages]
                outcomes = await queue.ack_batch([m.receipt_handle for m in messages])
                assert {"acknowledged"} == {outcome.status for outcome in outcomes}
            return taken

    found = await asyncio.gather(*(work(n) for n in range(200)))
    taken = [each for part in found for each in part]
    assert 600 == len(taken) == len(set(taken))
    assert 0 == (await served.ask("stats"))[1]["total"]


async def test_no_token_is_logged(served, caplog):
    """Whatever goes wrong, at whatever level."""
    with caplog.at_level(logging.DEBUG):
        await served.ask("stats")
        await served.ask("stats", token="other-secret")
        await served.ask("ack", receipt="1:x")
        await served.talk(served.head(5)[:-4] + b"\x00\r\n\r\n")
        await served.talk(served.head(10**12))
        async with LocalHttpQueue(served.endpoint, served.token) as queue:
            await queue.send(1)
            assert served.token not in repr(queue)
    assert caplog.records
    for record in caplog.records:
        text = f"{record.getMessage()} {record.args} {record.exc_text}"
        assert served.token not in text
        assert "other-secret" not in text


async def test_the_document_is_for_holders_of_a_token(served):
    """Any queue's; nobody else learns what is served here."""
    url = f"{served.address}/openapi.json"
    async with aiohttp.ClientSession() as session:
        async with session.get(url) as answer:
            assert 401 == answer.status
        headers = {"Authorization": f"Bearer {served.token}"}
        async with session.get(url, headers=headers) as answer:
            assert 200 == answer.status
            document = await answer.json()
    assert {"/queues/{resource}", "/openapi.json"} == set(document["paths"])


async def test_a_defect_is_told_without_its_text(served, monkeypatch, caplog):
    """What it was is in the log; the caller learns that the outcome is unknown."""

    async def fail(*_):
        raise ZeroDivisionError("secrets of the house")

    monkeypatch.setitem(create_app.__globals__["_OPERATIONS"], "stats", (fail, str))
    status, envelope = await served.ask("stats")
    assert (500, True) == (status, envelope["internal"])
    assert "secrets" not in json.dumps(envelope)
    assert "secrets of the house" in caplog.text


async def test_a_queue_that_cannot_be_opened_is_not_ready(tmp_path, served):
    """503 with the reason, until it can be; other queues are served meanwhile."""
    await served.owner.close()
    legacy = tmp_path / "state" / "queue" / "jobs"
    legacy.mkdir(parents=True)
    await served.owner.start()
    status, envelope = await served.ask("stats")
    assert (503, "LOCAL_QUEUE_OWNER_NOT_READY") == (status, envelope["code"])
    assert str(legacy) in envelope["message"]
    assert "BINDING_SETUP_FAILED" == envelope["source"]["code"]
    legacy.rmdir()
    assert 200 == (await served.ask("stats"))[0]


async def test_a_length_with_many_zeros_is_a_length(served):
    """More digits than Python turns into an integer are still no defect of ours."""
    body = b'{"operation":"stats"}'
    lines = f"Content-Length: {'0' * 5000}{len(body)}"
    head = served.head(0, "Connection: close").replace(b"Content-Length: 0", lines.encode())
    assert (await served.talk(head + body)).startswith(b"HTTP/1.1 200 ")


async def test_a_token_ends_with_its_queue_even_in_the_middle_of_a_request(served):
    """What began before a deletion does nothing to the queue that has the name afterwards."""
    body = write_request("purge")
    reader, writer = await asyncio.open_connection(served.host, served.port)
    writer.write(served.head(len(body), "Connection: close") + body[:-1])
    await writer.drain()
    await served.ask("stats")
    await served.owner.delete("jobs")
    assert served.token != await served.owner.create("jobs")
    async with served.owner.use("jobs") as queue:
        await queue.send(1)
    writer.write(body[-1:])
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert (await served.owner.stats("jobs")).total == 1


async def test_who_takes_no_answer_does_not_keep_the_owner_from_ending(tmp_path):
    """Its connection is cut off, like one that sends no request."""
    async with QueueOwner(tmp_path / "state") as owner:
        token = await owner.create("jobs")
        async with owner.use("jobs") as queue:
            await queue.send_batch_text(["x" * 65_536] * 100)
        body = write_request("receive", maxMessages=10)
        head = f"POST /queues/jobs HTTP/1.1\r\nAuthorization: Bearer {token}\r\n"
        request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            async with asyncio.timeout(30), serving(owner, request_seconds=0.2) as address:
                host, port = address.removeprefix("http://").split(":")
                client.connect((host, int(port)))
                client.sendall(request * 10)
                client.setblocking(False)
                assert await asyncio.get_running_loop().sock_recv(client, 1) == b"H"


@pytest.mark.parametrize("line", [b"X: y\r\n", b"yyyyyy"])
async def test_what_follows_a_body_has_an_end(served, line):
    """Trailers are kept by nobody, whether as lines or as one that does not end."""
    head = served.head(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    with pytest.raises(ConnectionError):
        await served.talk(head, b"0\r\nX: ", *[line * 100_000] * 60)


async def test_what_follows_a_body_lets_nobody_in(served):
    """A token in a trailer is none, and one there takes nothing from that in the head."""
    body = b'{"operation":"stats"}'
    chunks = b"%x\r\n%s\r\n0\r\nAuthorization: Bearer %s\r\n\r\n"
    chunks = chunks % (len(body), body, served.token.encode())
    head = served.head(0, "Connection: close")
    head = head.replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    assert (await served.talk(head + chunks)).startswith(b"HTTP/1.1 200 ")
    head = head.replace(f"Authorization: Bearer {served.token}\r\n".encode(), b"")
    assert (await served.talk(head + chunks)).startswith(b"HTTP/1.1 401 ")


async def test_a_request_for_another_protocol_is_told_so(served):
    """Its body cannot be read, and what comes after it neither."""
    body = write_request("purge")
    upgrade = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
    answer = await served.talk(served.head(len(body), *upgrade) + body)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"without Upgrade" in answer


async def test_what_cannot_be_read_takes_no_other_requests_answer(served):
    """Behind a request that is carried out, garbage is not answered in its place."""
    body = write_request("send", message=text_payload("x"))
    answer = await served.talk(served.head(len(body)) + body + b"\x00\x01\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.count(b"HTTP/1.1") == 1
    assert (await served.owner.stats("jobs")).total == 1
