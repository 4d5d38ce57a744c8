"""Names of channels, streams, queues, outboxes, locks and schedules: what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alkstore_contract.expect import expect_equal, expect_raises
from alkstore_contract.properties import prop
from alkstore_contract.suite._steps import claim
from alkstore_core import InvalidName, ReservedName

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from alkstore_contract.case import Case
    from alkstore_core import Store, TxHandle

_RESERVED = ("__alkstore_", "__alkstore_x", "__alkstore_listener_reconnected__")

Calls = dict[str, "Callable[[], Awaitable[Any]]"]


def _calls(store: Store, name: Any) -> Calls:
    return {
        "notify": lambda: store.notify(name, None),
        "listen": lambda: store.listen(name),
        "try_lock": lambda: store.try_lock(name, "owner", 10),
        "schedule": lambda: store.schedule(name, "@every 1s", "work", None),
        "unschedule": lambda: store.unschedule(name),
    }


def _tx_calls(tx: TxHandle, name: Any) -> Calls:
    return {
        "enqueue_tx": lambda: tx.enqueue_tx(name, None),
        "enqueue_many_tx": lambda: tx.enqueue_many_tx(name, [None]),
        "outbox_enqueue_tx": lambda: tx.outbox_enqueue_tx(name, None),
        "publish_tx": lambda: tx.publish_tx(name, None),
        "publish_with_key_tx": lambda: tx.publish_with_key_tx(name, "key", None),
        "publish_many_tx": lambda: tx.publish_many_tx(name, [None]),
        "notify_tx": lambda: tx.notify_tx(name, None),
        "save_offset_tx": lambda: tx.save_offset_tx(name, "consumer", 1),
        "get_job_tx": lambda: tx.get_job_tx(name, 1),
        "get_offset_tx": lambda: tx.get_offset_tx(name, "consumer"),
        "read_since_tx": lambda: tx.read_since_tx(name, 0, 1),
        "read_from_consumer_tx": lambda: tx.read_from_consumer_tx(name, "consumer", 1),
    }


async def _refused(error: type[Exception], store: Store, name: Any) -> None:
    for give in (store.queue, store.stream, store.outbox):
        with expect_raises(error, f"{give.__name__}({name!r})"):
            give(name)
    for what, call in _calls(store, name).items():
        with expect_raises(error, f"{what} of {name!r}"):
            await call()


async def _refused_tx(error: type[Exception], store: Store, name: Any) -> None:
    async with store.begin_tx() as tx:
        for what, call in _tx_calls(tx, name).items():
            with expect_raises(error, f"{what} of {name!r}"):
                await call()


@prop("names.empty", decided="Names", cases=("", " ", "\t\n"))
async def empty(case: Case, name: str) -> None:
    """A name that is empty or only whitespace is refused with `InvalidName`, whatever it names."""
    await _refused(InvalidName, await case.store(), name)


@prop("names.empty_tx", decided="Names", cases=("", " ", "\t\n"))
async def empty_tx(case: Case, name: str) -> None:
    """Every `_tx` call refuses an empty or blank name with `InvalidName`."""
    await _refused_tx(InvalidName, await case.store(), name)


@prop("names.reserved", decided="Names", cases=_RESERVED)
async def reserved(case: Case, name: str) -> None:
    """A name under `__alkstore_` is refused with `ReservedName`, whatever it names."""
    await _refused(ReservedName, await case.store(), name)


@prop("names.reserved_tx", decided="Names", cases=_RESERVED)
async def reserved_tx(case: Case, name: str) -> None:
    """Every `_tx` call refuses a name under `__alkstore_` with `ReservedName`."""
    await _refused_tx(ReservedName, await case.store(), name)


@prop("names.reserved_exactly", decided="Names")
async def reserved_exactly(case: Case) -> None:
    """Only the very prefix is reserved: names that resemble it are anybody's."""
    store = await case.store()
    for name in ("__alkstore", "_alkstore_x", "__ALKSTORE_x", " __alkstore_x", "x__alkstore_"):
        queue = store.queue(name)
        await queue.enqueue(name)
        expect_equal((await claim(queue)).job.queue, name, "the claimed job's queue")


@prop("names.nul", decided="Names", cases=("\0", "a\0", "\0a", "a\0b"))
async def nul(case: Case, name: str) -> None:
    """A name with a NUL character is refused with `InvalidName`, whatever it names."""
    store = await case.store()
    await _refused(InvalidName, store, name)
    await _refused_tx(InvalidName, store, name)


@prop("names.surrogate", decided="Names", cases=("\ud800", "a\udfffb"))
async def surrogate(case: Case, name: str) -> None:
    """A name with a lone surrogate is refused with `InvalidName`, whatever it names."""
    store = await case.store()
    await _refused(InvalidName, store, name)
    await _refused_tx(InvalidName, store, name)


@prop("names.too_long", decided="Names", cases=("a" * 256, "é" * 128, "語" * 86, "😀" * 64))
async def too_long(case: Case, name: str) -> None:
    """A name of more than 255 bytes of UTF-8 is refused with `InvalidName`, whatever it names."""
    store = await case.store()
    await _refused(InvalidName, store, name)
    await _refused_tx(InvalidName, store, name)


@prop("names.no_text", decided="Names", cases=(None, 7, b"bytes", True))
async def no_text(case: Case, name: Any) -> None:
    """A name that is no `str` is refused with `InvalidName`, whatever it names."""
    store = await case.store()
    await _refused(InvalidName, store, name)
    await _refused_tx(InvalidName, store, name)


@prop("names.at_once", decided="Store/Shape")
async def at_once(case: Case) -> None:
    """`queue`, `stream` and `outbox` check their name at once, also on a store not yet open."""
    store = case.unopened()
    for give in (store.queue, store.stream, store.outbox):
        with expect_raises(InvalidName, give.__name__):
            give(" ")
        with expect_raises(ReservedName, give.__name__):
            give("__alkstore_x")


@prop(
    "names.target",
    decided="Scheduler/Schedules",
    cases=(
        ("", InvalidName),
        (" ", InvalidName),
        ("a\0b", InvalidName),
        ("q" * 256, InvalidName),
        ("__alkstore_x", ReservedName),
        ("__alkstore_outbox:mail", ReservedName),
    ),
)
async def target(case: Case, given: tuple[str, type[Exception]]) -> None:
    """The queue a schedule aims at is checked like every name, and nothing is stored."""
    name, error = given
    store = await case.store()
    with expect_raises(error, f"a schedule into the queue {name!r}"):
        await store.schedule("tick", "@every 1s", name, None)
    expect_equal(await store.schedules(), [], "the stored schedules")


@prop("names.derived", decided="Names")
async def derived(case: Case) -> None:
    """No caller can name the queue behind an outbox."""
    store = await case.store()
    outbox = store.outbox("mail")
    await outbox.enqueue("letter")
    handle = await claim(outbox.backing)
    hidden = handle.job.queue
    expect_equal(hidden[:11], "__alkstore_", f"the start of the backing queue's name {hidden!r}")
    with expect_raises(ReservedName, "queue"):
        store.queue(hidden)
    async with store.begin_tx() as tx:
        with expect_raises(ReservedName, "enqueue_tx"):
            await tx.enqueue_tx(hidden, "forged")


@prop("names.usable_tx", decided="Errors")
async def usable_tx(case: Case) -> None:
    """A transaction that was given a bad name stays usable, and nothing else of it is lost."""
    store = await case.store()
    async with store.transaction() as tx:
        first = await tx.enqueue_tx("work", "first")
        with expect_raises(InvalidName):
            await tx.enqueue_tx("", "bad")
        with expect_raises(ReservedName):
            await tx.publish_tx("__alkstore_x", "bad")
        second = await tx.enqueue_tx("work", "second")
    jobs = await store.queue("work").jobs()
    expect_equal([job.id for job in jobs], [first, second], "the committed jobs")
