"""Locks: leases with a deadline and a token that only grows."""

from __future__ import annotations

from attrs import evolve, frozen

from alkstore_contract.model.numbers import later


@frozen
class Lease:
    """Who holds a name, under which token, and the last second of it."""

    owner: str
    token: int
    until: int


class Locks:
    """All leases of a database. Tokens are the engine's choice, each above all before it."""

    def __init__(self) -> None:
        self.leases: dict[str, Lease] = {}
        self.last_token: int | None = None

    def copy(self) -> Locks:
        """The same leases, apart."""
        other = Locks()
        other.leases, other.last_token = dict(self.leases), self.last_token
        return other

    def live(self, now: int) -> dict[str, Lease]:
        """The leases that have not lapsed."""
        return {name: lease for name, lease in self.leases.items() if now <= lease.until}

    def holder(self, now: int, name: str) -> Lease | None:
        """The live lease on a name: its owner gets it once more, as it is; others get nothing."""
        return self.live(now).get(name)

    def take(self, now: int, name: str, owner: str, ttl: int, token: int) -> None:
        """A free name is leased."""
        self.leases[name] = Lease(owner, token, later(now, ttl))
        self.last_token = token

    def renew(self, now: int, name: str, token: int, ttl: int) -> bool:
        """This very lease, if it is live, ends `ttl` seconds from now."""
        lease = self.holder(now, name)
        if lease is None or lease.token != token:
            return False
        self.leases[name] = evolve(lease, until=later(now, ttl))
        return True

    def release(self, now: int, name: str, token: int) -> bool:
        """This very lease, if it is live, is over."""
        lease = self.holder(now, name)
        return lease is not None and lease.token == token and bool(self.leases.pop(name))
