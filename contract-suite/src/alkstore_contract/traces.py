"""One of everything that can ride in a transaction, and what is to be seen of it afterwards."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

from alkstore_contract.expect import expect_equal

if TYPE_CHECKING:
    from alkstore_core import Store

CHANNEL: Final = "news"
EVERYTHING: Final = {"jobs": 1, "events": 1, "messages": 1, "offset": 7}
NOTHING: Final = {"jobs": 0, "events": 0, "messages": 0, "offset": 0}


async def write_everything(tx: Any) -> None:
    """A job, a keyed event, a message, an offset and a signal; `tx` may be a blocking one."""
    await done(tx.enqueue_tx("work", 1))
    await done(tx.publish_with_key_tx("log", "key", 2))
    await done(tx.outbox_enqueue_tx("letters", 3))
    await done(tx.save_offset_tx("log", "reader", 7))
    await done(tx.notify_tx(CHANNEL, 4))


async def traces(store: Store) -> dict[str, int]:
    """What a client sees of it; `NOTHING` or `EVERYTHING`, if all is well."""
    return {
        "jobs": len(await store.queue("work").jobs()),
        "events": len(await store.stream("log").read_since(0, 10)),
        "messages": len(await store.outbox("letters").backing.jobs()),
        "offset": await store.stream("log").get_offset("reader"),
    }


async def expect_nothing(store: Store, what: str) -> None:
    """None of it is to be seen."""
    expect_equal(await traces(store), NOTHING, what)


async def expect_everything(store: Store, what: str) -> None:
    """All of it is."""
    expect_equal(await traces(store), EVERYTHING, what)


async def done(call: Any) -> Any:
    """The value of a call, awaited where it is a coroutine."""
    return await call if inspect.isawaitable(call) else call
