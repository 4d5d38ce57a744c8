"""Steps: locks are taken, renewed and released, also when it is too late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define
from hypothesis import strategies as st

from alkstore_contract.machine import sources
from alkstore_contract.machine.calls import Call, Client, raised, value_of
from alkstore_contract.machine.compare import expected
from alkstore_contract.machine.machine import Machine
from alkstore_contract.machine.steps import step, where, which, who
from alkstore_core import Closed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from alkstore_contract.machine.actors import Answer

LOCKS = ("door", "gate")
OWNERS = ("kim", "lee")
HANDLES = 6
STALE = 6
"""Of eight numbers, the first six mean a handle whose lease is live, if there is one."""

ttls: st.SearchStrategy[int] = st.sampled_from([1, 10, 60, 2**63 - 1])


def _tried(machine: Locking) -> bool:
    return machine.asked


@define(eq=False)
class Locked:
    """A lock handle and the lease that it belongs to."""

    client: Client
    handle: Any
    name: str
    token: int


class Locking(Machine):
    """Everything about locks."""

    def __init__(self) -> None:
        self.locked: dict[int, Locked] = {}
        self.asked: bool = False
        super().__init__()

    @step(3, actor=who, client=where, name=st.integers(0, 1), owner=st.integers(0, 1), ttl=ttls)
    def try_lock(self, actor: int, client: int, name: int, owner: int, ttl: int) -> None:
        """A lock is asked for."""
        at, lock, by = self.clients[client], LOCKS[name], OWNERS[owner]
        self.asked = True

        def judge(answer: Answer) -> str:
            handle = value_of(answer)
            lease = self.model.locks.holder(self.now, lock)
            if lease is not None and lease.owner != by:
                expected(handle, None)
                return "nothing"
            expected(handle is not None, True, "the lock was to be had")
            expected((handle.name, handle.owner), (lock, by), "the handle's name and owner")
            if lease is not None:
                expected(handle.token, lease.token, "the token of the lease that it has")
            else:
                last = self.model.locks.last_token
                expected(type(handle.token), int, "type of the token")
                if last is not None:
                    expected(handle.token > last, True, f"token {handle.token} is above {last}")
                self.model.locks.take(self.now, lock, by, ttl, handle.token)
            self.keep(self.locked, Locked(at, handle, lock, handle.token), HANDLES)
            return f"token {handle.token}"

        text = f"try_lock({lock!r}, {by!r}, {ttl})"
        self.do(Call(actor, at, text, lambda: at.store.try_lock(lock, by, ttl), judge))

    @step(2, when=_tried, actor=who, number=which, ttl=ttls)
    def renew(self, actor: int, number: int, ttl: int) -> None:
        """A lease is renewed."""
        self._with_lock(
            actor,
            number,
            f"renew({ttl})",
            lambda handle: handle.renew(ttl),
            lambda lock: self.model.locks.renew(self.now, lock.name, lock.token, ttl),
        )

    @step(when=_tried, actor=who, number=which)
    def unlock(self, actor: int, number: int) -> None:
        """A lease is released."""
        self._with_lock(
            actor,
            number,
            "release()",
            lambda handle: handle.release(),
            lambda lock: self.model.locks.release(self.now, lock.name, lock.token),
        )

    @step(when=_tried, actor=who, number=which, fails=st.booleans())
    def lock_block(self, actor: int, number: int, *, fails: bool) -> None:
        """A lock is used as a block, which releases it on leaving, however it is left."""
        lock = self._lock(number)
        if lock is None or lock.client.closed or self.holder() is not None:
            return
        handle = lock.handle

        async def work() -> str:
            async with handle:
                if fails:
                    raise _BlockError
            return "left"

        def judge(answer: Answer) -> str:
            outcome = raised(answer, _BlockError) if fails else str(value_of(answer))
            self.model.locks.release(self.now, lock.name, lock.token)
            return outcome

        what = f"async with lock {lock.name!r} token {lock.token}{', failing' * fails}"
        self.do(Call(actor, lock.client, what, work, judge))

    def _lock(self, number: int) -> Locked | None:
        """A handle, mostly one whose lease is live."""
        good = {key: lock for key, lock in self.locked.items() if self._leased(lock)}
        return self.pick(good if good and number < STALE else self.locked, number)

    def _with_lock(
        self,
        actor: int,
        number: int,
        text: str,
        work: Callable[[Any], Awaitable[bool]],
        model: Callable[[Locked], bool],
    ) -> None:
        lock = self._lock(number)
        if lock is None or (lock.client.closed and self.holder() is not None):
            return
        handle, closed = lock.handle, lock.client.closed

        def judge(answer: Answer) -> str:
            if closed:
                return raised(answer, Closed)
            expected(value_of(answer), model(lock))
            return repr(answer.value)

        what = f"lock {lock.name!r} token {lock.token}, {text}"
        self.do(Call(actor, lock.client, what, lambda: work(handle), judge))

    def _leased(self, lock: Locked) -> bool:
        lease = self.model.locks.holder(self.now, lock.name)
        return lease is not None and lease.token == lock.token and not lock.client.closed

    @step(when=_tried, client=where)
    def look_at_locks(self, client: int) -> None:
        """The live leases are listed."""
        self.say(f"store {client}: locks()")
        self.same_locks(self.clients[client])
        self.add("as expected")

    def same_locks(self, client: Client) -> None:
        """The live leases are the model's; the library's own are its business."""
        leases = self.model.locks.live(self.now)
        expected(
            [
                (lock.name, lock.owner, lock.token, lock.expires_at)
                for lock in self.look(client.store.locks, "locks()")
                if not sources.reserved(lock.name)
            ],
            [
                (name, leases[name].owner, leases[name].token, leases[name].until)
                for name in sorted(leases)
            ],
            "locks()",
        )


class _BlockError(Exception):
    """What a lock's block raises."""
