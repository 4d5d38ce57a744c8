"""A small manifest and a table with every mistake in it, to try the matrix on."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Any

from sabotage import (
    SabotagedHarness,
    Saboteur,
    constant,
    core,
    facts,
    harness,
    nothing,
    primitive,
    result,
    sabotage_for_good,
)

from alkstore_contract.expect import expect, expect_equal
from alkstore_contract.properties import Property

if TYPE_CHECKING:
    from collections.abc import Callable

    from alkstore_contract.case import Case
    from alkstore_contract.harness import Harness

_manifest: dict[str, Property] = {}


def fake(id_: str, group: Any = "quick") -> Callable[[Any], Any]:
    """Into this manifest, not into the kit's."""

    def register(function: Any) -> Any:
        _manifest[id_] = Property(
            id=id_,
            sentence="It is fake.",
            decided="Queues",
            since="0.1",
            group=group,
            cases=(),
            seconds=20.0,
            function=function,
        )
        return function

    return register


def manifest() -> dict[str, Property]:
    """The fake properties."""
    return dict(sorted(_manifest.items()))


@fake("claims.order")
async def order(case: Case) -> None:
    """Two claimed jobs come in order."""
    queue = (await case.store()).queue("work")
    ids = await queue.enqueue_many([1, 2])
    expect_equal([handle.job.id for handle in await queue.claim_batch("w", 2)], ids)


@fake("claims.count")
async def count(case: Case) -> None:
    """Of three jobs two are claimed."""
    queue = (await case.store()).queue("work")
    await queue.enqueue_many([1, 2, 3])
    expect_equal(len(await queue.claim_batch("w", 2)), 2)


@fake("streams.order")
async def events(case: Case) -> None:
    """Events come in order."""
    stream = (await case.store()).stream("log")
    offsets = await stream.publish_many([1, 2])
    expect_equal([event.offset for event in await stream.read_since(0, 10)], offsets)


@fake("streams.claims")
async def elsewhere(case: Case) -> None:
    """A property of another family claims as well."""
    queue = (await case.store()).queue("work")
    ids = await queue.enqueue_many([1, 2])
    expect_equal([handle.job.id for handle in await queue.claim_batch("w", 2)], ids)


@fake("streams.broken")
async def broken(case: Case) -> None:
    """It fails whatever the engine does."""
    expect(case.facts is None, "it is broken")


@fake("locks.taken")
async def taken(case: Case) -> None:
    """A free lock is given."""
    expect(await (await case.store()).try_lock("door", "me", 5), "the lock is free")


@fake("locks.fenced")
async def fenced(case: Case) -> None:
    """A lock has a token."""
    lock = await (await case.store()).try_lock("door", "me", 5)
    expect(lock is not None and lock.token > 0, "the lock has a token")


@fake("locks.renewed")
async def renewed(case: Case) -> None:
    """A lock is renewed."""
    lock = await (await case.store()).try_lock("door", "me", 5)
    expect(lock is not None and await lock.renew(5), "the lease is live")


@fake("locks.forgotten")
async def forgotten(case: Case) -> None:
    """Nobody wrote a saboteur for this one."""
    await case.store()


@fake("places.reached")
async def reached(case: Case) -> None:
    """A fact says from where stores are reached."""
    expect(case.facts.reach != "cluster", "one host holds it all")


@fake("places.committed", "process")
async def committed(case: Case) -> None:
    """What another process enqueues is there."""
    store = await case.store(wall_clock=True)
    other = await case.spawn("fake_subject:enqueue")
    expect_equal(await other.hear(), 1)
    expect_equal((await store.queue("work").stats()).ready, 1)


async def enqueue(store: Any, line: Any) -> None:
    """The other process's part."""
    line.say(await store.queue("work").enqueue("x"))


@fake("places.clock")
async def clock(case: Case) -> None:
    """Stores live on the case's clock."""
    queue = (await case.store()).queue("work")
    job = await queue.get_job(await queue.enqueue("x"))
    expect_equal(job and job.created_at, 1_700_000_000)


@fake("places.patience")
async def patience(case: Case) -> None:
    """Names may be long."""
    (await case.store()).queue("n" * 255)


@fake("model.claims", "model")
def claims(harness: Harness) -> None:
    """A model that knows of nothing but claims."""

    async def play() -> None:
        async with harness.home() as address, harness.store(address, None) as store:
            queue = store.queue("work")
            ids = await queue.enqueue_many([1, 2])
            expect_equal([handle.job.id for handle in await queue.claim_batch("w", 2)], ids)

    asyncio.run(play())


async def _forever(*_: Any, **__: Any) -> None:
    await asyncio.get_running_loop().create_future()


def _busy(*_: Any, **__: Any) -> None:
    while True:
        time.sleep(0.01)


def table() -> dict[str, Saboteur]:
    """The saboteurs."""
    return dict(sorted(SABOTEURS.items()))


def __getattr__(name: str) -> SabotagedHarness:
    return sabotage_for_good(__name__, name)


SABOTEURS = {
    # Right, but that another family's property fails as well only shows in the full matrix.
    "claims.order": Saboteur(result("claim", lambda jobs: jobs[::-1]), stateful=True),
    # Right, with what it takes along.
    "claims.count": Saboteur(
        nothing("claim", []),
        also={
            "claims.order": "nothing comes, in no order",
            "streams.claims": "nor does it there",
        },
        stateful=True,
    ),
    # Does nothing.
    "streams.order": Saboteur(primitive("read", lambda real, *args: real.read(*args))),
    # Lists what holds.
    "streams.claims": Saboteur(
        core("queues:Queue.claim_batch", _forever), also={"streams.order": "it is said to"}
    ),
    "streams.broken": Saboteur(nothing("trim", 0)),
    # These hang, never come back to the loop, and take the process with them.
    "locks.taken": Saboteur(
        primitive("acquire", _forever),
        also={"locks.fenced": "it needs a lock", "locks.renewed": "this one too"},
        stateful=True,
    ),
    "locks.fenced": Saboteur(core("locks:Lock.token", _busy), stateful=True),
    "locks.renewed": Saboteur(primitive("renew", lambda *_: os._exit(3)), stateful=True),
    "places.reached": Saboteur(facts(reach="cluster"), stateful=True),
    "places.committed": Saboteur(
        primitive(
            "insert_jobs",
            lambda real, queue, payloads, spec, **wake: (
                [1] if payloads == (b'"x"',) else real.insert_jobs(queue, payloads, spec, **wake)
            ),
        ),
        also={"places.clock": "there is no job with a time"},
        stateful=True,
        base="sqlite",
    ),
    "places.clock": Saboteur(harness("store", lambda real, address, clock: real(address, None))),
    "places.patience": Saboteur(constant("names:MAX_NAME_BYTES", 254)),
}
