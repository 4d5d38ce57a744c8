# ruff: noqa: D102 - `spi` says what each primitive promises.
"""Locks: leases that end by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve

from alkstore_core import LockInfo
from alkstore_core.integers import saturating_add
from dictstore.part import Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alkstore_core.spi import Topic
    from dictstore.data import Data


class LockPart(Part):
    """What owners of locks do."""

    async def acquire(self, name: str, owner: str, ttl: int) -> int | None:
        data = await self.change()
        now = self.now()
        lease = _live(data, name, now)
        if lease is not None:
            return lease.token if lease.owner == owner else None
        token = data.next("token")
        until = saturating_add(now, ttl)
        data.leases[name] = LockInfo(name=name, owner=owner, token=token, expires_at=until)
        return token

    async def renew(self, name: str, token: int, ttl: int) -> bool:
        data = await self.change(urgent=True)
        now = self.now()
        lease = _live(data, name, now)
        if lease is None or lease.token != token:
            return False
        data.leases[name] = evolve(lease, expires_at=saturating_add(now, ttl))
        return True

    async def release_lock(self, name: str, token: int, *, wake: Sequence[Topic] = ()) -> bool:
        data = await self.change(urgent=True)
        lease = _live(data, name, self.now())
        if lease is None or lease.token != token:
            return False
        del data.leases[name]
        self.wake(wake)
        return True

    async def holds(self, name: str, token: int) -> bool:
        lease = _live(await self.view(), name, self.now())
        return lease is not None and lease.token == token

    async def list_locks(self) -> list[LockInfo]:
        data = await self.view()
        now = self.now()
        return [lease for name in sorted(data.leases) if (lease := _live(data, name, now))]


def _live(data: Data, name: str, now: int) -> LockInfo | None:
    """The lease, unless it has lapsed; it lasts through its last second."""
    lease = data.leases.get(name)
    return lease if lease is not None and now <= lease.expires_at else None
