"""Locks: renewing and releasing, in time and too late."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from alkstore_contract.expect import expect, expect_equal, expect_raises
from alkstore_contract.properties import prop
from alkstore_contract.suite._steps import lock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from alkstore_contract.case import Case
    from alkstore_core import Lock, Store

    Act = Callable[[Lock], Awaitable[bool]]


async def _renew(held: Lock) -> bool:
    return await held.renew(60)


async def _release(held: Lock) -> bool:
    return await held.release()


async def _leases(store: Store) -> list[tuple[str, int, int]]:
    return [(info.owner, info.token, info.expires_at) for info in await store.locks()]


async def _broken() -> None:
    raise ZeroDivisionError


@prop("locks.renew.extends", decided="Locks")
async def renew_extends(case: Case) -> None:
    """`renew(ttl)` lets the lease live through `ttl` seconds from now."""
    store = await case.store()
    held = await lock(store, "lock", "owner", 60)
    await case.advance(50)
    expect_equal(await held.renew(100), True, "renew")
    expect_equal(await _leases(store), [("owner", held.token, 1_700_000_150)], "the lease")
    await case.advance(100)
    expect_equal(await store.try_lock("lock", "other", 60), None, "try_lock in the last second")
    await case.advance(1)
    await lock(store, "lock", "other", 60)


@prop("locks.renew.resets", decided="Locks")
async def renew_resets(case: Case) -> None:
    """A renewal sets the deadline anew: what was left is not added, and less is legal."""
    store = await case.store()
    held = await lock(store, "lock", "owner", 600)
    expect_equal(await held.renew(10), True, "renew")
    expect_equal(await _leases(store), [("owner", held.token, 1_700_000_010)], "the lease")


@prop("locks.renew.repeats", decided="Locks")
async def renew_repeats(case: Case) -> None:
    """A lock that is renewed in time is held for ever, under one token."""
    store = await case.store()
    held = await lock(store, "lock", "owner", 60)
    for _ in range(10):
        await case.advance(60)
        expect_equal(await held.renew(60), True, "renew in the last second")
        expect_equal(await store.try_lock("lock", "other", 60), None, "try_lock by another owner")
    leases = [(owner, token) for owner, token, _ in await _leases(store)]
    expect_equal(leases, [("owner", held.token)], "the lease's owner and token")


@prop("locks.release.frees", decided="Locks")
async def release_frees(case: Case) -> None:
    """`release` ends the lease: anybody acquires at once."""
    store, other = await case.store(), await case.store()
    held = await lock(store, "lock", "owner", 600)
    expect_equal(await held.release(), True, "release")
    expect_equal(await _leases(other), [], "the leases")
    await lock(other, "lock", "other", 60)


@prop("locks.release.once", decided="Locks")
async def release_once(case: Case) -> None:
    """A second `release`, and a `renew` after it, give `False`, whoever holds the lock by then."""
    store = await case.store()
    held = await lock(store, "lock", "owner", 60)
    expect_equal(await held.release(), True, "the first release")
    expect_equal(await held.release(), False, "the second release")
    expect_equal(await held.renew(60), False, "renew of a free lock")
    again = await lock(store, "lock", "owner", 60)
    expect_equal(await held.renew(999), False, "renew when the same owner holds a newer lease")
    expect_equal(await held.release(), False, "release when the same owner holds a newer lease")
    expect_equal(await _leases(store), [("owner", again.token, 1_700_000_060)], "the lease")


async def _lapsed(case: Case, act: Act) -> None:
    """In the deadline's second the call still counts, a second later it does nothing."""
    store = await case.store()
    first, second = await lock(store, "a", "owner", 60), await lock(store, "b", "owner", 60)
    await case.advance(60)
    expect_equal(await act(first), True, "the call in the deadline's second")
    await case.advance(1)
    expect_equal(await act(second), False, "the call a second after the deadline")
    await lock(store, "b", "other", 60)


async def _superseded(case: Case, act: Act, owner: str) -> None:
    """After a lapse a new lease was given; the old handle does not touch it."""
    store, other = await case.store(), await case.store()
    old = await lock(store, "lock", "owner", 60)
    await case.advance(61)
    new = await lock(other, "lock", owner, 30)
    before = [(owner, new.token, 1_700_000_091)]
    expect_equal(await act(old), False, f"the old handle's call while {owner!r} holds the lock")
    expect_equal(await _leases(store), before, "the newer lease")
    expect_equal(await new.release(), True, "release of the newer lease")


@prop("locks.renew.lapsed", decided="Locks")
async def renew_lapsed(case: Case) -> None:
    """`renew` counts through the second of the deadline; after it, it gives `False`."""
    await _lapsed(case, _renew)


@prop("locks.release.lapsed", decided="Locks")
async def release_lapsed(case: Case) -> None:
    """`release` counts through the second of the deadline; after it, it gives `False`."""
    await _lapsed(case, _release)


@prop("locks.renew.superseded", decided="Locks")
async def renew_superseded(case: Case) -> None:
    """`renew` of a lapsed lease leaves another owner's newer one alone."""
    await _superseded(case, _renew, "other")


@prop("locks.release.superseded", decided="Locks")
async def release_superseded(case: Case) -> None:
    """`release` of a lapsed lease leaves another owner's newer one alone."""
    await _superseded(case, _release, "other")


@prop("locks.renew.fenced", decided="Locks")
async def renew_fenced(case: Case) -> None:
    """`renew` of a lapsed lease gives `False` also when the same owner holds a newer one."""
    await _superseded(case, _renew, "owner")


@prop("locks.release.fenced", decided="Locks")
async def release_fenced(case: Case) -> None:
    """`release` of a lapsed lease gives `False` also when the same owner holds a newer one."""
    await _superseded(case, _release, "owner")


@prop("locks.race", decided="Locks")
async def race(case: Case) -> None:
    """Of a renewal and another's attempt at the same time just one gets the lock."""
    store, other = await case.store(), await case.store()
    held = await lock(store, "lock", "owner", 60)
    await case.advance(60)
    renewed, taken = await asyncio.gather(held.renew(60), other.try_lock("lock", "other", 60))
    expect_equal((renewed, taken), (True, None), "the renewal and the attempt in time")
    await case.advance(61)
    renewed, taken = await asyncio.gather(held.renew(60), other.try_lock("lock", "other", 60))
    expect_equal(renewed, False, "the renewal too late")
    expect(taken is not None, "the attempt after the lapse gave None")


@prop("locks.block.releases", decided="Locks")
async def block_releases(case: Case) -> None:
    """Leaving `async with lock` releases it, also when the block raises."""
    store = await case.store()
    async with await lock(store, "lock", "owner", 600) as held:
        expect_equal(await _leases(store), [("owner", held.token, 1_700_000_600)], "the lease")
    expect_equal(await _leases(store), [], "the leases after the block")
    with expect_raises(ZeroDivisionError, "the block's own error"):
        async with await lock(store, "lock", "owner", 600):
            await _broken()
    expect_equal(await _leases(store), [], "the leases after the block that raised")


@prop("locks.block.cancelled", decided="Locks")
async def block_cancelled(case: Case) -> None:
    """A task that is cancelled inside `async with lock` has released it when it ended."""
    store = await case.store()
    inside = asyncio.Event()

    async def hold() -> None:
        async with await lock(store, "lock", "owner", 600):
            inside.set()
            await asyncio.Event().wait()

    holding = asyncio.create_task(hold())
    await inside.wait()
    holding.cancel()
    await asyncio.wait([holding])
    expect(holding.cancelled(), "the task did not end by its cancellation")
    expect_equal(await _leases(store), [], "the leases after the cancellation")


@prop("locks.block.lapsed", decided="Locks")
async def block_lapsed(case: Case) -> None:
    """Leaving the block of a lapsed lock is no error and leaves the newer lease alone."""
    store = await case.store()
    async with await lock(store, "lock", "owner", 60):
        await case.advance(61)
        new = await lock(store, "lock", "owner", 60)
    expect_equal(await _leases(store), [("owner", new.token, 1_700_000_121)], "the newer lease")
