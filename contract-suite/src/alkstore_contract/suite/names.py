"""Names of channels, streams, queues, outboxes, locks and schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alkstore_contract.expect import expect_raises
from alkstore_contract.properties import prop
from alkstore_core import InvalidName

if TYPE_CHECKING:
    from alkstore_contract.case import Case


@prop("names.empty", decided="core contract, naming", cases=("", " ", "\t\n"))
async def empty(case: Case, name: str) -> None:
    """A name that is empty or only whitespace is refused with `InvalidName`, whatever it names."""
    store = await case.store()
    for give in (store.queue, store.stream, store.outbox):
        with expect_raises(InvalidName, give.__name__):
            give(name)
    with expect_raises(InvalidName, "notify"):
        await store.notify(name, None)
    with expect_raises(InvalidName, "listen"):
        await store.listen(name)
    with expect_raises(InvalidName, "lock"):
        await store.try_lock(name, "owner", 10)
    with expect_raises(InvalidName, "schedule"):
        await store.schedule(name, "@every 1s", "work", None)
    with expect_raises(InvalidName, "schedule's queue"):
        await store.schedule("tick", "@every 1s", name, None)
