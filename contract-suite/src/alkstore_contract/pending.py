"""What is under way: letting it run, and showing that it still waits."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from alkstore_contract.expect import expect

if TYPE_CHECKING:
    from alkstore_core import EventReceiver, Store, WakeReceiver

_WITNESS = "the kit's witness"


async def turns() -> None:
    """Whatever can go on without the database has gone on."""
    for _ in range(10):
        await asyncio.sleep(0)


async def expect_waiting(task: asyncio.Future[Any], what: str) -> None:
    """`task` has not ended, although it could have; `what` is broken when it has."""
    await turns()
    expect(not task.done(), what)


async def end(task: asyncio.Future[Any]) -> None:
    """`task` is cancelled and over."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def expect_no_wake(
    receiver: WakeReceiver | EventReceiver, store: Store, writer: Store, what: str
) -> None:
    """Nothing that `writer` committed up to now woke `receiver`, which belongs to `store`.

    A later signal of the same writer arrives: were there an earlier one, it would be there too.
    """
    waiting = asyncio.ensure_future(receiver.recv())
    async with store.listen(_WITNESS) as witness:
        await turns()
        await writer.notify(_WITNESS)
        await witness.recv()
    await expect_waiting(waiting, what)
    await end(waiting)
