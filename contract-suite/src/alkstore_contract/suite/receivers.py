"""What the receivers of channels, queues and streams have in common."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from alkstore_contract.expect import expect, expect_equal
from alkstore_contract.pending import end, expect_waiting, turns
from alkstore_contract.properties import prop
from alkstore_core import DatabaseError, StopToken, Wake

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from alkstore_contract.case import Case
    from alkstore_core import EventReceiver, Store, WakeReceiver

KINDS: Final = ("listen", "wakes", "subscribe")
HANDFUL: Final = 10
RECONNECTED: Final = "__alkstore_listener_reconnected__"


async def attach(
    store: Store, kind: str, stop: StopToken | None = None
) -> WakeReceiver | EventReceiver:
    """A receiver of the channel, the queue or the stream `x`."""
    if kind == "listen":
        return await store.listen("x", stop)
    if kind == "wakes":
        return await store.queue("x").wakes(stop)
    return await store.stream("x").subscribe("reader", stop)


async def cause(store: Store, kind: str) -> None:
    """Commit something that such a receiver gives."""
    if kind == "listen":
        await store.notify("x")
    elif kind == "wakes":
        await store.queue("x").enqueue("job")
    else:
        await store.stream("x").publish("event")


@prop("receivers.attached", decided="Store/Receivers", cases=KINDS)
async def attached(case: Case, kind: str) -> None:
    """From the moment in which a receiver is returned no commit of any client is missed."""
    store, other = await case.store(), await case.store()
    for writer in (store, other, store, other):
        receiver = await attach(store, kind)
        await cause(writer, kind)
        expect(await receiver.recv() is not None, "the receiver ended")
        await receiver.close()


@prop("receivers.several", decided="Store/Receivers", cases=KINDS)
async def several(case: Case, kind: str) -> None:
    """All receivers of one thing are given something, however many and of whichever client."""
    store, other = await case.store(), await case.store()
    receivers = [await attach(client, kind) for client in (store, other, store, other)]
    waiting = [asyncio.ensure_future(receiver.recv()) for receiver in receivers]
    await cause(store, kind)
    for task in waiting:
        expect(await task is not None, "a receiver ended")


@prop("receivers.close", decided="Store/Receivers", cases=KINDS)
async def close(case: Case, kind: str) -> None:
    """`close` ends a receiver: a pending `recv` gives `None`, and so does every later one."""
    store = await case.store()
    receiver = await attach(store, kind)
    waiting = asyncio.ensure_future(receiver.recv())
    await expect_waiting(waiting, "nothing has happened yet")
    await receiver.close()
    expect_equal(await waiting, None, "the recv that was pending")
    await receiver.close()
    expect_equal(await receiver.recv(), None, "a later recv")


@prop("receivers.block", decided="Store/Receivers", cases=KINDS)
async def block(case: Case, kind: str) -> None:
    """`async with` attaches before its block and closes after it."""
    store = await case.store()
    coming: dict[str, AbstractAsyncContextManager[WakeReceiver | EventReceiver]] = {
        "listen": store.listen("x"),
        "wakes": store.queue("x").wakes(),
        "subscribe": store.stream("x").subscribe("reader"),
    }
    async with coming[kind] as receiver:
        await cause(store, kind)
        expect(await receiver.recv() is not None, "the receiver ended inside its block")
    expect_equal(await receiver.recv(), None, "recv after the block")


@prop("receivers.final", decided="Store/Receivers", cases=KINDS)
async def final(case: Case, kind: str) -> None:
    """An ended receiver stays ended, whatever is committed; a new one takes its place."""
    store = await case.store()
    receiver = await attach(store, kind)
    await receiver.close()
    await cause(store, kind)
    expect_equal(await receiver.recv(), None, "recv of an ended receiver")
    fresh = await attach(store, kind)
    await cause(store, kind)
    expect(await fresh.recv() is not None, "the new receiver ended")
    expect_equal(await receiver.recv(), None, "recv of the old one, once more")


@prop("receivers.stop", decided="Store/Receivers", cases=KINDS)
async def stop(case: Case, kind: str) -> None:
    """A receiver that was made with a stop token ends when the token is stopped."""
    store = await case.store()
    token = StopToken()
    receiver = await attach(store, kind, token)
    await cause(store, kind)
    expect(await receiver.recv() is not None, "the receiver ended before the stop")
    waiting = asyncio.ensure_future(receiver.recv())
    await turns()
    token.stop()
    if await waiting is not None:
        # A wake may come twice, and just before the stop.
        waiting = asyncio.ensure_future(receiver.recv())
    expect_equal(await waiting, None, "the recv that was pending")
    expect_equal(await receiver.recv(), None, "a later recv")


@prop("receivers.stop.before", decided="Store/Receivers", cases=KINDS)
async def stop_before(case: Case, kind: str) -> None:
    """A receiver that is made with a stopped token has ended."""
    store = await case.store()
    token = StopToken()
    token.stop()
    receiver = await attach(store, kind, token)
    await cause(store, kind)
    expect_equal(await receiver.recv(), None, "recv with a token that was stopped before")


@prop("receivers.stop.thread", decided="Store/Receivers", cases=KINDS)
async def stop_thread(case: Case, kind: str) -> None:
    """A stop token ends every receiver that was made with it, stopped from whichever thread."""
    store, other = await case.store(), await case.store()
    token = StopToken()
    receivers = [await attach(client, kind, token) for client in (store, other)]
    unrelated = await attach(store, kind)
    waiting = [asyncio.ensure_future(receiver.recv()) for receiver in receivers]
    await turns()
    await asyncio.to_thread(token.stop)
    for task in waiting:
        expect_equal(await task, None, "a recv that was pending")
    await cause(store, kind)
    expect(await unrelated.recv() is not None, "a receiver without the token ended")


@prop("receivers.iteration", decided="Store/Receivers", cases=KINDS)
async def iteration(case: Case, kind: str) -> None:
    """`async for` gives what `recv` gives and is over when the receiver ends."""
    store = await case.store()
    token = StopToken()
    receiver = await attach(store, kind, token)
    count, wanted = 0, 3
    await cause(store, kind)
    async for item in receiver:
        expect(item is not None, "None came out of the iteration")
        count += 1
        if count < wanted:
            await cause(store, kind)
        else:
            token.stop()
            await turns()
            await receiver.close()
    expect_equal(count, wanted, "turns of the iteration")


@prop("receivers.cancelled", decided="Store/Cancellation", cases=KINDS)
async def cancelled(case: Case, kind: str) -> None:
    """A cancelled `recv` loses nothing: what it would have given comes at the next one."""
    store = await case.store()
    receiver = await attach(store, kind)
    for started in (0, 1, 2, 3, 5, 8):
        waiting = asyncio.ensure_future(receiver.recv())
        await cause(store, kind)
        for _ in range(started):
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait((waiting,))
        given = await receiver.recv() if waiting.cancelled() else waiting.result()
        expect(given is not None, "the receiver ended")


@prop("receivers.level", decided="Store/Receivers", cases=("listen", "wakes"))
async def level(case: Case, kind: str) -> None:
    """What a receiver has not read is a level and not a list: many commits, a handful of wakes."""
    store, other = await case.store(), await case.store()
    receiver = await attach(other, kind)
    for _ in range(60):
        await cause(store, kind)
    async with other.listen("marker") as marker:
        await store.notify("marker")
        await marker.recv()
    count = 0
    while True:
        waiting = asyncio.ensure_future(receiver.recv())
        await turns()
        if not waiting.done():
            await end(waiting)
            break
        expect(await waiting is not None, "the receiver ended")
        count += 1
    expect(
        1 <= count < HANDFUL, f"{count} wakes were kept of 60 commits that nobody had waited for"
    )


@prop("receivers.neighbours", decided="Store/Receivers", cases=KINDS)
async def neighbours(case: Case, kind: str) -> None:
    """A receiver lives on while other clients open and close, and while its neighbours end."""
    store = await case.store()
    receiver = await attach(store, kind)
    gone = await attach(store, kind)
    await gone.close()
    other = case.unopened()
    async with other:
        theirs = await attach(other, kind)
    expect_equal(await theirs.recv(), None, "the receiver of the client that closed")
    waiting = asyncio.ensure_future(receiver.recv())
    await expect_waiting(waiting, "the receiver of an open client ended")
    await cause(store, kind)
    expect(await waiting is not None, "the receiver of an open client ended")


@prop("receivers.sever", decided="Notify", cases=KINDS)
async def sever(case: Case, kind: str) -> None:
    """Receivers never fall silent when what they live on is taken away.

    They end when the engine can no longer tell what is committed; where it connects anew they
    live on and are told to read again; an engine of one process has nothing to lose.
    """
    store = await case.store()
    receiver = await attach(store, kind)
    waiting = asyncio.ensure_future(receiver.recv())
    await turns()
    await case.harness.sever(case.address)
    if case.facts.receiver_closes_on == "loss":
        await _expect_end(waiting, receiver)
        return
    if case.facts.reach != "process" and kind != "subscribe":
        expect_equal(await waiting, Wake(channel=RECONNECTED), "recv after the outage")
        waiting = asyncio.ensure_future(receiver.recv())
    await cause(await case.store(), kind)
    expect(await waiting is not None, "the receiver ended, although its store is open")


async def _expect_end(waiting: asyncio.Future[Any], receiver: WakeReceiver | EventReceiver) -> None:
    while True:
        try:
            given = await waiting
        except DatabaseError:
            # A subscriber that was just reading is told so before its end.
            waiting = asyncio.ensure_future(receiver.recv())
        else:
            expect_equal(given, None, "recv after the loss")
            expect_equal(await receiver.recv(), None, "recv after the end")
            return
