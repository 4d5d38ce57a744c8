"""The owner of a state directory: creating, serving, revoking and deleting queues."""

import asyncio
import errno
import os
import stat
from pathlib import Path

import pytest
from conftest import Served, runners

from alkstore_localstores import LocalStoreError
from alkstore_localstores.messages import QueueStats
from alkstore_localstores.owner.admin import ask, carry_out
from alkstore_localstores.owner.owner import QueueOwner
from alkstore_localstores.owner.server import serving
from alkstore_localstores.owner.state import OwnerLock, StateDirectory
from alkstore_localstores.owner.tokens import Tokens
from alkstore_localstores.queue import LocalQueue

TEXT = {"type": "text", "data": "x"}


async def code_of(awaitable):
    """The code of the error it must end with."""
    with pytest.raises(LocalStoreError) as caught:
        await awaitable
    return caught.value.code


async def turns() -> None:
    """Let every task come as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_every_operation_answers_as_documented(served, clock):
    """The very JSON of the protocol."""
    assert (200, None) == await served.ask("send", message={"type": "json", "data": {"b": 1}})
    sent = await served.ask("sendBatch", messages=[TEXT, {"type": "text", "data": ""}])
    assert 200 == sent[0]
    assert {"status": "sent"} == sent[1][0]
    assert ("rejected", "QUEUE_MESSAGE_SIZE_INVALID") == (sent[1][1]["status"], sent[1][1]["code"])
    status, (first, second) = await served.ask("receive", maxMessages=3)
    assert 200 == status
    assert {"payload", "receiptHandle", "attempt"} == set(first)
    assert ({"type": "json", "data": {"b": 1}}, 1) == (first["payload"], first["attempt"])
    assert TEXT == second["payload"]
    assert (200, []) == await served.ask("receive", maxMessages=10)
    assert (200, {"total": 2, "visible": 0, "inFlight": 2, "delayed": 0}) == await served.ask(
        "stats"
    )
    receipt = first["receiptHandle"]
    assert (200, None) == await served.ask("renew", receipt=receipt, durationSeconds=60)
    assert (200, None) == await served.ask("nack", receipt=receipt)
    (again,) = (await served.ask("receive", maxMessages=1))[1]
    assert 2 == again["attempt"]
    status, stale = await served.ask("ack", receipt=receipt)
    assert (502, "QUEUE_OPERATION_FAILED") == (status, stale["code"])
    status, outcomes = await served.ask("ackBatch", receipts=[receipt, second["receiptHandle"]])
    assert ["failed", "acknowledged"] == [outcome["status"] for outcome in outcomes]
    assert (200, None) == await served.ask("ack", receipt=again["receiptHandle"])
    assert (200, None) == await served.ask("purge")
    assert (200, []) == await served.ask("sendBatch", messages=[])
    assert (200, []) == await served.ask("ackBatch", receipts=[])


async def test_a_queue_lies_under_its_resource(owner, tmp_path):
    """`queue-owned/<resource>`, beside a token that is for its owner's eyes alone."""
    token = await owner.create("jobs-1_A")
    assert (tmp_path / "state" / "queue-owned" / "jobs-1_A" / "localqueue.sqlite").is_file()
    file = tmp_path / "state" / "queue-tokens" / "jobs-1_A"
    assert f"{token}\n" == file.read_text()
    assert 0o600 == stat.S_IMODE(file.stat().st_mode)
    assert 0o700 == stat.S_IMODE(file.parent.stat().st_mode)
    assert ["jobs-1_A"] == owner.resources


@pytest.mark.parametrize(
    "resource", ["", ".", "..", "a/b", "../x", "a" * 65, "é", "a b", "a\x00", "a\n", None, 1]
)
async def test_a_resource_id_is_a_plain_name(owner, tmp_path, snapshot, resource):
    """Whatever else it might mean to a file system, it is refused."""
    before = snapshot(tmp_path)
    assert "INVALID_INPUT" == await code_of(owner.create(resource))
    assert "INVALID_INPUT" == await code_of(owner.delete(resource))
    assert before.keys() == snapshot(tmp_path).keys()
    assert [] == owner.resources


async def test_a_token_survives_restarts(tmp_path, driver):
    """Bindings that were handed out stay good, and messages where they were."""
    async with QueueOwner(tmp_path, driver=driver) as owner:
        token = await owner.create("jobs")
        async with owner.use("jobs") as queue:
            await queue.send("x")
        assert token == await owner.create("jobs")
    async with QueueOwner(tmp_path, driver=driver) as owner:
        assert owner.tokens.accepts("jobs", token.encode())
        assert token == await owner.create("jobs")
        assert QueueStats(1, 1, 0, 0) == await owner.stats("jobs")


async def test_tokens_are_their_queues_alone(owner):
    """No two are alike, and none opens another queue."""
    first, second = await owner.create("a"), await owner.create("b")
    assert first != second
    assert 43 == len(first)
    accepts = owner.tokens.accepts
    assert accepts("a", first.encode())
    assert not accepts("a", second.encode())
    assert not accepts("b", first.encode())
    assert not accepts("c", first.encode())
    assert not accepts("a", first[:-1].encode())
    assert owner.tokens.accepts_any(second.encode())
    assert not owner.tokens.accepts_any(b"")


@pytest.mark.parametrize("content", ["", "short\n", "x" * 200, "\x00" * 43])
def test_a_damaged_token_file_is_an_error(tmp_path, content):
    """An empty token would let everybody in."""
    path = tmp_path / "jobs"
    path.touch(0o600)
    path.write_text(content)
    with pytest.raises(LocalStoreError, match="no token") as caught:
        Tokens(tmp_path).issue("jobs")
    assert "LOCAL_FILESYSTEM_ERROR" == caught.value.code


def test_a_token_file_that_others_can_read_is_an_error(tmp_path):
    """It may have been read; and the error does not repeat it."""
    token = Tokens(tmp_path).issue("jobs")
    (tmp_path / "jobs").chmod(0o640)
    with pytest.raises(LocalStoreError, match="640") as caught:
        Tokens(tmp_path).issue("jobs")
    assert token not in str(caught.value)


def test_a_token_file_that_leads_elsewhere_is_an_error(tmp_path):
    """No link decides which file is read."""
    Tokens(tmp_path).issue("jobs")
    (tmp_path / "other").symlink_to(tmp_path / "jobs")
    with pytest.raises(LocalStoreError):
        Tokens(tmp_path).issue("other")


async def test_one_queue_without_a_usable_token_keeps_no_other_away(tmp_path, caplog):
    """Nobody gets in over HTTP and the log says why; its messages are still counted."""
    async with QueueOwner(tmp_path) as owner:
        await owner.create("good")
        token = await owner.create("open")
        async with owner.use("open") as queue:
            await queue.send("x")
    path = tmp_path / "queue-tokens" / "open"
    path.chmod(0o644)
    async with QueueOwner(tmp_path) as owner:
        assert ["good", "open"] == owner.resources
        assert QueueStats(1, 1, 0, 0) == await owner.stats("open")
        rows = await carry_out(owner, None, {"command": "stats"})
        assert [("good", 0), ("open", 1)] == [(row["resource"], row["total"]) for row in rows]
        assert "LOCAL_FILESYSTEM_ERROR" == await code_of(owner.create("open"))
        async with serving(owner, request_seconds=1) as address:
            for shown in (token, ""):
                served = Served(owner, address, shown, "open")
                status, envelope = await served.ask("stats")
                assert (401, "LOCAL_QUEUE_UNAUTHORIZED") == (status, envelope["code"])
            path.chmod(0o600)
            assert token == await owner.create("open")
            assert 200 == (await Served(owner, address, token, "open").ask("stats"))[0]
    assert "'open' is not served over HTTP" in caplog.text


async def test_a_queue_without_a_token_gets_one(tmp_path):
    """As one that was moved here from an older release."""
    async with LocalQueue(tmp_path / "queue-owned" / "moved") as queue:
        await queue.send("kept")
    async with QueueOwner(tmp_path) as owner:
        assert ["moved"] == owner.resources
        assert owner.tokens.accepts("moved", (await owner.create("moved")).encode())
        assert 1 == (await owner.stats("moved")).total


async def test_a_directory_of_an_older_release_blocks(tmp_path, driver, snapshot):
    """Whether there is an owned one or not; nothing is made or changed."""
    (tmp_path / "queue" / "new").mkdir(parents=True)
    async with QueueOwner(tmp_path, driver=driver) as owner:
        await owner.create("old")
    (tmp_path / "queue" / "old").mkdir()
    before = snapshot(tmp_path / "queue-owned")
    async with QueueOwner(tmp_path, driver=driver) as owner:
        for resource in ("new", "old"):
            with pytest.raises(LocalStoreError, match="migrate-legacy") as caught:
                await owner.create(resource)
            assert "BINDING_SETUP_FAILED" == caught.value.code
        assert "LOCAL_QUEUE_OWNER_NOT_READY" == await code_of(owner.stats("old"))
        assert "INVALID_INPUT" == await code_of(owner.stats("new"))
    assert before == snapshot(tmp_path / "queue-owned")
    assert not (tmp_path / "queue-owned" / "new").exists()


async def test_a_link_of_an_older_release_blocks_as_well(tmp_path):
    """Even one that leads nowhere now."""
    (tmp_path / "queue").mkdir()
    (tmp_path / "queue" / "jobs").symlink_to(tmp_path / "gone")
    async with QueueOwner(tmp_path) as owner:
        assert "BINDING_SETUP_FAILED" == await code_of(owner.create("jobs"))


async def test_a_state_directory_has_one_owner(tmp_path):
    """A second one is told which process it is, and everything is as before."""
    async with QueueOwner(tmp_path) as owner:
        await owner.create("jobs")
        with pytest.raises(LocalStoreError, match=str(os.getpid())) as caught:
            await QueueOwner(tmp_path).start()
        assert "BINDING_SETUP_FAILED" == caught.value.code
        assert "stop that process" in str(caught.value)
        assert 0 == (await owner.stats("jobs")).total
    async with QueueOwner(tmp_path) as owner:
        assert ["jobs"] == owner.resources


async def test_a_state_directory_that_cannot_be_used_says_so(tmp_path):
    """A file is none."""
    (tmp_path / "file").touch()
    assert "LOCAL_FILESYSTEM_ERROR" == await code_of(QueueOwner(tmp_path / "file" / "x").start())


async def test_a_deleted_queue_is_gone(owner, tmp_path):
    """With its token and its directory; another of its name is another."""
    token = await owner.create("jobs")
    async with owner.use("jobs") as queue:
        await queue.send("x")
    await owner.delete("jobs")
    assert not owner.tokens.accepts("jobs", token.encode())
    assert [] == list((tmp_path / "state" / "queue-owned").iterdir())
    assert [] == list((tmp_path / "state" / "queue-tokens").iterdir())
    assert "INVALID_INPUT" == await code_of(owner.stats("jobs"))
    assert "INVALID_INPUT" == await code_of(owner.delete("jobs"))
    assert "QUEUE_OPERATION_FAILED" == await code_of(queue.send("to a revoked handle"))
    assert token != await owner.create("jobs")
    assert 0 == (await owner.stats("jobs")).total


async def test_a_deletion_waits_for_what_is_running(owner, tmp_path):
    """Who is inside ends as usual; who comes later finds nothing."""
    token = await owner.create("jobs")
    async with owner.use("jobs") as queue:
        deletion = asyncio.create_task(owner.delete("jobs"))
        await turns()
        assert not owner.tokens.accepts("jobs", token.encode())
        assert "INVALID_INPUT" == await code_of(owner.stats("jobs"))
        await queue.send("still there")
        assert 1 == (await queue.stats()).total
        assert not deletion.done()
        assert (tmp_path / "state" / "queue-owned" / "jobs").is_dir()
    await deletion
    assert not (tmp_path / "state" / "queue-owned" / "jobs").exists()


async def test_a_queue_that_is_being_deleted_answers_as_an_unknown_one(served):
    """401, with its own token."""
    async with served.owner.use("jobs"):
        deletion = asyncio.create_task(served.owner.delete("jobs"))
        await turns()
        assert [] == served.owner.resources
        status, envelope = await served.ask("stats")
        assert (401, "LOCAL_QUEUE_UNAUTHORIZED") == (status, envelope["code"])
    await deletion
    assert 401 == (await served.ask("stats"))[0]


async def test_a_deletion_that_was_cut_short_is_finished(tmp_path):
    """At the next start: neither half a directory nor a token without a queue is left."""
    async with QueueOwner(tmp_path) as owner:
        await owner.create("jobs")
        await owner.create("kept")
    owned = tmp_path / "queue-owned"
    (owned / "jobs").rename(owned / ".deleted-jobs-0123456789abcdef")
    async with QueueOwner(tmp_path) as owner:
        assert ["kept"] == owner.resources
    assert ["kept"] == [path.name for path in owned.iterdir()]
    assert ["kept"] == [path.name for path in (tmp_path / "queue-tokens").iterdir()]


async def test_a_directory_that_cannot_be_deleted_is_no_queue_any_more(tmp_path, monkeypatch):
    """Its token is revoked all the same, and the rest goes at the next start."""

    def refuse(path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    async with QueueOwner(tmp_path) as owner:
        token = await owner.create("jobs")
        with monkeypatch.context() as patch:
            patch.setattr("shutil.rmtree", refuse)
            assert "LOCAL_FILESYSTEM_ERROR" == await code_of(owner.delete("jobs"))
        assert [] == owner.resources
        assert [] == list((tmp_path / "queue-tokens").iterdir())
        assert token != await owner.create("jobs")
    async with QueueOwner(tmp_path) as owner:
        assert ["jobs"] == owner.resources
        assert ["jobs"] == [path.name for path in (tmp_path / "queue-owned").iterdir()]
        assert ["jobs"] == [path.name for path in (tmp_path / "queue-tokens").iterdir()]


async def test_a_token_that_was_not_revoked_opens_no_new_queue(tmp_path, monkeypatch):
    """Neither while revoking fails nor after it, and not after a restart between the two."""

    def refuse(_, resource) -> None:
        raise LocalStoreError("LOCAL_FILESYSTEM_ERROR", f"{resource} stays")

    async with QueueOwner(tmp_path) as owner:
        token = await owner.create("jobs")
        other = await owner.create("other")
        with monkeypatch.context() as patch:
            patch.setattr(Tokens, "revoke", refuse)
            assert await code_of(owner.delete("jobs")) == "LOCAL_FILESYSTEM_ERROR"
            assert await code_of(owner.create("jobs")) == "LOCAL_FILESYSTEM_ERROR"
        assert [path.name for path in (tmp_path / "queue-owned").glob("jobs")] == []
        with monkeypatch.context() as patch:
            patch.setattr(Tokens, "issue", refuse)
            assert await code_of(owner.create("jobs")) == "LOCAL_FILESYSTEM_ERROR"
        assert owner.resources == ["other"]
    async with QueueOwner(tmp_path) as owner:
        assert not owner.tokens.accepts("jobs", token.encode())
        new = await owner.create("jobs")
        assert new != token
        assert new == await owner.create("jobs")
        assert other == await owner.create("other")


async def test_a_new_queue_after_a_failed_revocation_has_a_new_token(tmp_path, monkeypatch):
    """In the same process."""

    def refuse(*_) -> None:
        raise LocalStoreError("LOCAL_FILESYSTEM_ERROR", "it stays")

    async with QueueOwner(tmp_path) as owner:
        token = await owner.create("jobs")
        with monkeypatch.context() as patch:
            patch.setattr(Tokens, "revoke", refuse)
            assert await code_of(owner.delete("jobs")) == "LOCAL_FILESYSTEM_ERROR"
        new = await owner.create("jobs")
        assert new != token
        assert not owner.tokens.accepts("jobs", token.encode())
        assert new == await owner.create("jobs")


async def test_a_link_is_deleted_and_not_what_it_leads_to(tmp_path):
    """Whoever put it there has the directory elsewhere, for reasons of their own."""
    elsewhere = tmp_path / "elsewhere"
    async with LocalQueue(elsewhere) as queue:
        await queue.send("kept")
    (tmp_path / "state" / "queue-owned").mkdir(parents=True)
    (tmp_path / "state" / "queue-owned" / "jobs").symlink_to(elsewhere)
    async with QueueOwner(tmp_path / "state") as owner:
        assert 1 == (await owner.stats("jobs")).total
        await owner.delete("jobs")
        assert [] == owner.resources
    assert [] == list((tmp_path / "state" / "queue-owned").iterdir())
    assert (elsewhere / "localqueue.sqlite").is_file()


async def test_a_token_outlives_the_absence_of_its_directory(tmp_path):
    """A disk that was not mounted at one start takes no credential away."""
    async with QueueOwner(tmp_path) as owner:
        token = await owner.create("jobs")
    (tmp_path / "queue-owned").rename(tmp_path / "unmounted")
    async with QueueOwner(tmp_path) as owner:
        assert [] == owner.resources
        assert not owner.tokens.accepts("jobs", token.encode())
    (tmp_path / "unmounted").rename(tmp_path / "queue-owned")
    async with QueueOwner(tmp_path) as owner:
        assert owner.tokens.accepts("jobs", token.encode())


async def test_closing_waits_for_what_is_running(tmp_path, driver):
    """And nobody gets in any more."""
    owner = QueueOwner(tmp_path, driver=driver)
    await owner.start()
    await owner.create("jobs")
    async with owner.use("jobs") as queue:
        closing = asyncio.create_task(owner.close())
        await asyncio.sleep(0)
        assert "LOCAL_QUEUE_OWNER_NOT_READY" == await code_of(owner.stats("jobs"))
        await queue.send("x")
        assert not closing.done()
    await closing
    await owner.close()
    with OwnerLock(StateDirectory(tmp_path)):
        pass


async def test_concurrent_creations_make_one_queue(owner):
    """With one token for all."""
    tokens = await asyncio.gather(*(owner.create("jobs") for _ in range(10)))
    assert 1 == len(set(tokens))


async def test_the_command_line_asks_the_running_owner(tmp_path, driver):
    """Over a socket for its user alone; without one it is the owner for a moment."""
    state = tmp_path / "state"
    made = await asyncio.to_thread(ask, state, {"command": "create", "resource": "before"})
    assert made["endpoint"] is None
    async with QueueOwner(state, driver=driver) as owner, serving(owner) as address:
        assert 0o600 == stat.S_IMODE((state / "owner.sock").stat().st_mode)
        made = await asyncio.to_thread(ask, state, {"command": "create", "resource": "jobs"})
        assert f"{address}/queues/jobs" == made["endpoint"]
        assert owner.tokens.accepts("jobs", made["token"].encode())
        async with owner.use("jobs") as queue:
            await queue.send("x")
        found = await asyncio.to_thread(ask, state, {"command": "stats"})
        assert [("before", 0), ("jobs", 1)] == [(row["resource"], row["total"]) for row in found]
        await asyncio.to_thread(ask, state, {"command": "delete", "resource": "jobs"})
        for request in ({"command": "delete", "resource": "jobs"}, {"command": "reboot"}, []):
            with pytest.raises(LocalStoreError) as caught:
                await asyncio.to_thread(ask, state, request)
            assert "INVALID_INPUT" == caught.value.code
    assert not (state / "owner.sock").exists()
    found = await asyncio.to_thread(ask, state, {"command": "stats"})
    assert ["before"] == [row["resource"] for row in found]


async def test_endpoints_are_where_clients_find_them(tmp_path):
    """Not always where the owner listens."""
    async with (
        QueueOwner(tmp_path) as owner,
        serving(owner, url="http://queues.internal:8071/") as address,
    ):
        made = await asyncio.to_thread(ask, tmp_path, {"command": "create", "resource": "jobs"})
    assert "http://queues.internal:8071" == address
    assert "http://queues.internal:8071/queues/jobs" == made["endpoint"]


async def test_a_long_path_of_the_socket_works(tmp_path):
    """The system's limit for it is shorter than that of directories."""
    state = tmp_path / ("d" * 100) / ("e" * 100)
    async with QueueOwner(state) as owner, serving(owner):
        made = await asyncio.to_thread(ask, state, {"command": "create", "resource": "jobs"})
        assert made["endpoint"]


async def test_a_socket_that_a_killed_owner_left_is_no_obstacle(tmp_path):
    """Neither for the command line nor for the next owner."""
    async with QueueOwner(tmp_path) as owner, serving(owner):
        os.link(tmp_path / "owner.sock", tmp_path / "left")
    (tmp_path / "left").rename(tmp_path / "owner.sock")
    made = await asyncio.to_thread(ask, tmp_path, {"command": "create", "resource": "jobs"})
    assert made["endpoint"] is None
    async with QueueOwner(tmp_path) as owner, serving(owner):
        made = await asyncio.to_thread(ask, tmp_path, {"command": "create", "resource": "jobs"})
        assert made["endpoint"]


async def test_a_missing_state_directory_is_not_made_by_asking(tmp_path):
    """A typing error must not look like an empty owner."""
    for request in ({"command": "stats"}, {"command": "delete", "resource": "jobs"}):
        with pytest.raises(LocalStoreError, match="no state directory"):
            await asyncio.to_thread(ask, tmp_path / "typo", request)
    assert not (tmp_path / "typo").exists()


async def test_a_port_in_use_is_an_error(served, tmp_path):
    """And its owner lets the directory go."""
    async with QueueOwner(tmp_path / "other") as other:
        with pytest.raises(LocalStoreError, match=str(served.port)) as caught:
            async with serving(other, port=served.port):
                pass
    assert "LOCAL_FILESYSTEM_ERROR" == caught.value.code


def descriptors() -> int:
    """How many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_queue_without_a_usable_token_is_not_left_open(owner):
    """Each try would leave a thread and its files behind."""
    owner.state.tokens.mkdir(mode=0o700, exist_ok=True)
    token = owner.state.tokens / "jobs"
    token.mkdir()
    before = descriptors()
    for _ in range(3):
        assert await code_of(owner.create("jobs")) == "LOCAL_FILESYSTEM_ERROR"
    assert descriptors() == before
    token.rmdir()
    assert await owner.create("jobs")


async def test_bytes_in_place_of_a_token_stop_nobody_else(tmp_path, driver):
    """What is no text is no token, and one queue's matter."""
    async with QueueOwner(tmp_path, driver=driver) as owner:
        token = await owner.create("good")
        await owner.create("odd")
    (tmp_path / "queue-tokens" / "odd").write_bytes(b"\xff\xfe")
    async with QueueOwner(tmp_path, driver=driver) as owner:
        assert owner.resources == ["good", "odd"]
        assert owner.tokens.accepts("good", token.encode())
        assert await code_of(owner.create("odd")) == "LOCAL_FILESYSTEM_ERROR"


async def cancel_twice(task, reached) -> None:
    """Cancel it where it is held, and see that it waits for its end."""
    await reached.wait()
    for _ in range(2):
        task.cancel()
        await turns()
        assert not task.done()


async def test_a_cancelled_deletion_is_not_left_half_done(tmp_path):
    """It ends, then the cancellation goes on, and the owner's end waits for both."""
    before = runners()
    owner = QueueOwner(tmp_path)
    await owner.start()
    await owner.create("jobs")
    reached = asyncio.Event()
    async with owner.use("jobs"):
        deletion = asyncio.create_task(owner.delete("jobs"))
        asyncio.get_running_loop().call_soon(reached.set)
        await cancel_twice(deletion, reached)
        closing = asyncio.create_task(owner.close())
        await asyncio.sleep(0)
    await closing
    with pytest.raises(asyncio.CancelledError):
        await deletion
    assert list((tmp_path / "queue-owned").iterdir()) == []
    assert list((tmp_path / "queue-tokens").iterdir()) == []
    assert runners() == before


async def test_a_cancelled_creation_is_not_left_half_done(owner, monkeypatch):
    """There is one queue on the file, and whoever asks again gets it."""
    opened = []
    reached, go_on = asyncio.Event(), asyncio.Event()
    open_ = LocalQueue.open

    async def slow(queue):
        opened.append(queue)
        await open_(queue)
        reached.set()
        await go_on.wait()

    monkeypatch.setattr(LocalQueue, "open", slow)
    creation = asyncio.create_task(owner.create("jobs"))
    try:
        await cancel_twice(creation, reached)
    finally:
        go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await creation
    assert owner.resources == ["jobs"]
    assert owner.tokens.accepts("jobs", (await owner.create("jobs")).encode())
    assert len(opened) == 1


async def test_a_cancelled_end_closes_every_queue(tmp_path):
    """Only then does it let another owner in."""
    before = runners()
    owner = QueueOwner(tmp_path)
    await owner.start()
    for resource in ("a", "b"):
        await owner.create(resource)
    reached = asyncio.Event()
    async with owner.use("a"):
        closing = asyncio.create_task(owner.close())
        asyncio.get_running_loop().call_soon(reached.set)
        await cancel_twice(closing, reached)
        assert await code_of(QueueOwner(tmp_path).start()) == "BINDING_SETUP_FAILED"
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert runners() == before
    async with QueueOwner(tmp_path) as again:
        assert again.resources == ["a", "b"]


@pytest.mark.parametrize("late", [False, True])
async def test_a_cancelled_start_gives_the_directory_up(tmp_path, monkeypatch, late):
    """Whether it is cancelled at its beginning or as it opens queues, another owner can start."""
    async with QueueOwner(tmp_path) as owner:
        await owner.create("jobs")
    opening = asyncio.Event()

    async def stuck(_):
        opening.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(LocalQueue, "open", stuck)
    starting = asyncio.create_task(QueueOwner(tmp_path).start())
    await (opening.wait() if late else asyncio.sleep(0))
    assert starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    monkeypatch.undo()
    async with QueueOwner(tmp_path) as owner:
        assert owner.resources == ["jobs"]


async def test_a_full_disk_lets_an_owner_start(tmp_path, monkeypatch):
    """The note of who it is takes room, and is not needed."""

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    async with QueueOwner(tmp_path):
        assert await code_of(QueueOwner(tmp_path).start()) == "BINDING_SETUP_FAILED"
    monkeypatch.undo()
    async with QueueOwner(tmp_path):
        pass


async def test_a_directory_of_queues_that_cannot_be_read_says_so(tmp_path, monkeypatch):
    """When an owner starts and when a queue is deleted: never as if there were none."""

    def refuse(path):
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    async with QueueOwner(tmp_path) as owner:
        await owner.create("jobs")
        with monkeypatch.context() as patch:
            patch.setattr(Path, "iterdir", refuse)
            for again in (owner.delete("unknown"), owner.create("new")):
                assert await code_of(again) == "LOCAL_FILESYSTEM_ERROR"
        await owner.delete("jobs")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "iterdir", refuse)
        assert await code_of(QueueOwner(tmp_path).start()) == "LOCAL_FILESYSTEM_ERROR"
    (tmp_path / "queue-owned").rmdir()
    (tmp_path / "queue-owned").touch()
    assert await code_of(QueueOwner(tmp_path).start()) == "LOCAL_FILESYSTEM_ERROR"


async def test_the_socket_answers_when_the_owner_fails(served, monkeypatch, caplog):
    """With what it was, and the connection ends; the next command is carried out."""

    async def fail(*_):
        raise RuntimeError("a defect")

    state = served.owner.state.path
    with monkeypatch.context() as patch:
        patch.setattr(QueueOwner, "create", fail)
        with pytest.raises(LocalStoreError, match=r"a defect.*unknown") as caught:
            await asyncio.to_thread(ask, state, {"command": "create", "resource": "new"})
    assert (caught.value.code, caught.value.internal) == ("QUEUE_OPERATION_FAILED", True)
    assert "a command failed" in caplog.text
    assert await asyncio.to_thread(ask, state, {"command": "create", "resource": "new"})


@pytest.mark.parametrize("path", ["a\0b", 5, None])
def test_a_state_directory_is_a_path(path):
    """Else the error is ours."""
    with pytest.raises(LocalStoreError) as caught:
        QueueOwner(path)
    assert caught.value.code == "INVALID_INPUT"


@pytest.mark.parametrize("line", [b"[" * 100_000, b"\xff", b"{"], ids=["deep", "bytes", "half"])
async def test_the_socket_answers_whatever_is_said(served, line):
    """An error, not silence."""
    reader, writer = await asyncio.open_unix_connection(str(served.owner.state.socket))
    writer.write(line + b"\n")
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert b"INVALID_INPUT" in answer
