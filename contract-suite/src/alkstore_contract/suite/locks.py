"""Locks: who gets the lease, and for how long."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from alkstore_contract.expect import expect, expect_equal
from alkstore_contract.properties import prop
from alkstore_contract.suite._steps import lock
from alkstore_core import LockInfo

if TYPE_CHECKING:
    from alkstore_contract.case import Case


@prop("locks.acquire.free", decided="Locks")
async def free(case: Case) -> None:
    """A free lock is acquired, and the lock says its name and owner."""
    store = await case.store()
    held = await store.try_lock("lock", "owner", 60)
    expect(held is not None, "try_lock of a free lock gave None")
    expect_equal(held and (held.name, held.owner), ("lock", "owner"), "name and owner")


@prop("locks.acquire.held", decided="Locks")
async def held_by_another(case: Case) -> None:
    """`try_lock` gives `None`, at once, while another owner's lease lives, and changes nothing."""
    store, other = await case.store(), await case.store()
    mine = await lock(store, "lock", "owner", 60)
    await case.advance(60)
    expect_equal(await other.try_lock("lock", "other", 60), None, "try_lock in the last second")
    told = [(info.owner, info.token, info.expires_at) for info in await other.locks()]
    expect_equal(told, [("owner", mine.token, 1_700_000_060)], "the lease after that")
    expect_equal(await mine.release(), True, "release in the last second")


@prop("locks.acquire.lapsed", decided="Locks")
async def acquire_lapsed(case: Case) -> None:
    """Once its deadline has passed anybody acquires a lock; nobody has to release it."""
    store, other = await case.store(), await case.store()
    await lock(store, "lock", "owner", 60)
    await case.advance(61)
    taken = await lock(other, "lock", "other", 30)
    told = [(info.owner, info.token, info.expires_at) for info in await store.locks()]
    expect_equal(told, [("other", taken.token, 1_700_000_091)], "the new lease")


@prop("locks.acquire.lapsed_again", decided="Locks")
async def acquire_lapsed_again(case: Case) -> None:
    """The owner of a lapsed lease gets a new lease with a new token."""
    store = await case.store()
    old = await lock(store, "lock", "owner", 60)
    await case.advance(61)
    new = await lock(store, "lock", "owner", 60)
    expect(new.token > old.token, f"the new token {new.token} is not above {old.token}")
    expect_equal([info.expires_at for info in await store.locks()], [1_700_000_121], "expires_at")


@prop("locks.acquire.one_winner", decided="Locks")
async def one_winner(case: Case) -> None:
    """Of many owners who try at once exactly one wins; the others get `None`, not an error."""
    stores = [await case.store() for _ in range(3)]
    for round_ in range(3):
        tries = [stores[n % 3].try_lock("lock", f"owner {n}", 60) for n in range(24)]
        winners = [held for held in await asyncio.gather(*tries) if held is not None]
        expect_equal(len(winners), 1, f"the winners of round {round_}")
        owners = [info.owner for info in await stores[0].locks()]
        expect_equal(owners, [winners[0].owner], "the listed owner")
        await case.advance(61)


@prop("locks.acquire.apart", decided="Locks")
async def apart(case: Case) -> None:
    """Locks of different names know nothing of each other."""
    store = await case.store()
    names = ("a", "b", "A", "a ")
    held = [await lock(store, name, f"owner of {name}") for name in names]
    expect_equal(await held[0].release(), True, "release")
    expect_equal([info.name for info in await store.locks()], sorted(names[1:]), "the locks left")


@prop("locks.same_owner.handle", decided="Locks")
async def same_owner(case: Case) -> None:
    """The owner of the live lease gets a handle to it, from any client, with the same token."""
    store, other = await case.store(), await case.store()
    first = await lock(store, "lock", "owner", 60)
    again = await lock(other, "lock", "owner", 60)
    expect_equal(again.token, first.token, "the token")
    expect_equal(await again.renew(90), True, "renew by the second handle")
    expect_equal(await first.release(), True, "release by the first handle")
    expect_equal(await again.release(), False, "release by the second handle after that")


@prop("locks.same_owner.unmoved", decided="Locks", cases=(1, 60, 5000))
async def unmoved(case: Case, ttl: int) -> None:
    """Trying again as the owner does not move the deadline, whatever the new ttl."""
    store = await case.store()
    await lock(store, "lock", "owner", 60)
    await case.advance(30)
    await lock(store, "lock", "owner", ttl)
    expect_equal([info.expires_at for info in await store.locks()], [1_700_000_060], "expires_at")
    await case.advance(31)
    await lock(store, "lock", "other", 60)


@prop("locks.same_owner.together", decided="Locks")
async def together(case: Case) -> None:
    """One owner who tries many times at once gets one lease: every handle has its token."""
    stores = [await case.store() for _ in range(2)]
    held = await asyncio.gather(*(stores[n % 2].try_lock("lock", "owner", 60) for n in range(12)))
    tokens = {None if each is None else each.token for each in held}
    expect_equal(len(tokens), 1, f"the number of different tokens in {tokens}")
    expect(None not in tokens, "the owner was refused its own lock")


@prop("locks.same_owner.exact", decided="Names")
async def exact_owner(case: Case) -> None:
    """Owners are compared exactly: case, space and accents make another owner."""
    store = await case.store()
    await lock(store, "lock", "ow\u00e9r", 60)
    for other in ("Ow\u00e9r", "ow\u00e9r ", " ow\u00e9r", "owe\u0301r", "ower"):
        expect_equal(await store.try_lock("lock", other, 60), None, f"try_lock of {other!r}")


@prop("locks.token.grows", decided="Locks")
async def token_grows(case: Case) -> None:
    """Each new lease has a greater token, of whatever name, in one sequence for the database."""
    store, other = await case.store(), await case.store()
    tokens: list[int] = []
    for number in range(4):
        held = await lock(store, "lock", "owner", 60)
        tokens.append(held.token)
        await held.release()
        tokens.append((await lock(other, f"lock {number}", "owner", 60)).token)
        tokens.append((await lock(store, "lock", "other", 60)).token)
        await case.advance(61)
    expect_equal(tokens, sorted(set(tokens)), "the tokens, each above the one before")


@prop("locks.token.reopened", decided="Locks")
async def token_reopened(case: Case) -> None:
    """Tokens go on growing after every store was closed."""
    async with case.unopened() as store:
        before = await lock(store, "lock", "owner", 60)
        await before.release()
    async with case.unopened() as store:
        expect_equal(await store.locks(), [], "the locks after the reopening")
        after = await lock(store, "lock", "owner", 60)
        expect(after.token > before.token, f"token {after.token} after {before.token}")


@prop("locks.lease.reopened", decided="Guarantees in one table")
async def lease_reopened(case: Case) -> None:
    """A lease outlives the store it was taken from."""
    async with case.unopened() as store:
        await lock(store, "lock", "owner", 60)
    async with case.unopened() as store:
        taken = await store.try_lock("lock", "other", 60)
        expect_equal(taken, None, "try_lock of the lease that outlived its store")


@prop("locks.list.live", decided="Store/Inspection")
async def list_live(case: Case) -> None:
    """`locks()` lists every live lease by name, with owner, token and deadline."""
    store, other = await case.store(), await case.store()
    late = await lock(store, "b", "owner b", 60)
    early = await lock(other, "a", "owner a", 10)
    released = await lock(store, "c", "owner c", 60)
    await released.release()
    await case.advance(10)
    expected = [
        LockInfo(name="a", owner="owner a", token=early.token, expires_at=1_700_000_010),
        LockInfo(name="b", owner="owner b", token=late.token, expires_at=1_700_000_060),
    ]
    expect_equal(await store.locks(), expected, "the locks in the shorter one's last second")
    await case.advance(1)
    expect_equal(await store.locks(), expected[1:], "the locks a second later")


@prop("locks.rollback", decided="Locks")
async def survives_rollback(case: Case) -> None:
    """Rolling back a transaction neither releases a lock nor undoes a release."""
    store = await case.store()
    held = await lock(store, "lock", "owner", 60)
    async with store.begin_tx() as tx:
        await tx.enqueue_tx("work", None)
        await tx.rollback()
    expect_equal([info.token for info in await store.locks()], [held.token], "the live tokens")
    expect_equal(await held.release(), True, "release after the rollback")
