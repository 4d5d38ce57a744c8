"""Faults in who gets a lease, and in how it is renewed and released."""

import asyncio

from rowops import run
from sabotage import Saboteur, arguments, core, engine, op, primitive, statement
from sqlalchemy import bindparam, delete, func, literal_column, select, update

from alkstore_core import DatabaseError
from alkstore_core.integers import check_duration
from alkstore_core.sql._dialect import NOW, later, upsert
from alkstore_core.sql._jobs import ONE
from alkstore_core.sql.locks import HOLDER, NEXT_TOKEN
from alkstore_core.sql.tables import locks, sequences

_until = later(bindparam("ttl"))
_LAST_OWNER = select(locks.c.owner).where(locks.c.name == bindparam("name"))
_FIRST_TOKEN = delete(sequences).where(sequences.c.name == literal_column("'lock'"))
_this = (locks.c.name == bindparam("name"), locks.c.token == bindparam("token"))


async def _held(real, name, token=None):
    """The live lease of a name, or of a name and token."""
    for info in await real.list_locks():
        if info.name == name and token in {None, info.token}:
            return info
    return None


async def _prolonged_by_an_attempt(real, name, owner, ttl):
    token = await real.acquire(name, owner, ttl)
    if token is None and (held := await _held(real, name)) is not None:
        await real.renew(name, held.token, ttl)
    return token


def _longer(is_longer):
    """A lapsed lease is followed by one that is a second too long."""

    def acquire(real, name, owner, ttl):
        before = (yield _LAST_OWNER, {"name": name}).rows
        if before and is_longer(before[0][0] == owner):
            ttl += 1
        return (yield from real(name, owner, ttl))

    return acquire


async def _both_win(real, name, owner, ttl):
    trying = real.notes.setdefault(name, [])
    trying.append(owner)
    try:
        token = await real.acquire(name, owner, ttl)
        if token is None and set(trying) != {owner}:
            held = await _held(real, name)
            token = held and held.token
    finally:
        trying.remove(owner)
    return token


async def _one_at_a_time(real, name, owner, ttl):
    trying = real.notes.setdefault(name, [])
    trying.append(owner)
    try:
        return await real.acquire(name, owner, ttl) if trying.count(owner) == 1 else None
    finally:
        await asyncio.sleep(0)
        trying.remove(owner)


async def _release_any_case(real, name, token, **wake):
    for info in await real.list_locks():
        if info.name != name and info.name.lower() == name.lower():
            await real.release_lock(info.name, info.token)
    return await real.release_lock(name, token, **wake)


async def _one_client_each(real, name, owner, ttl):
    held = await _held(real, name)
    if held is not None and real.notes.get(held.token) is not real.engine:
        return None
    token = await real.acquire(name, owner, ttl)
    real.notes[token] = real.engine
    return token


async def _refreshed(real, name, owner, ttl):
    token = await real.acquire(name, owner, ttl)
    if token is not None:
        await real.renew(name, token, ttl)
    return token


def _owner_of_any_case(real, name, owner, ttl):
    for held_by, token in (yield HOLDER, {"name": name}).rows:
        if held_by.lower() == owner.lower():
            return token
    return (yield from real(name, owner, ttl))


_next = upsert(sequences).values(name=bindparam("sequence"), value=ONE)
_NEXT_OF_NAME = _next.on_conflict_do_update(
    index_elements=[sequences.c.name], set_={"value": sequences.c.value + ONE}
).returning(sequences.c.value)


def _sequence_of_name(real, name, owner, ttl):
    steps = real(name, owner, ttl)
    try:
        asked = next(steps)
        while True:
            if asked[0] is NEXT_TOKEN:
                asked = _NEXT_OF_NAME, {"sequence": f"lock {name}"}
            asked = steps.send((yield asked))
    except StopIteration as stop:
        return stop.value


def _deleted_at_opening(deletion):
    def clear():
        yield deletion, {}

    async def opening(real):
        await real.open()
        await run(real.engine, clear)

    return engine("open", opening)


async def _unlocking_rollback(real):
    def clear():
        yield delete(locks), {}

    await real.rollback()
    await run(real.engine, clear)


async def _ten_renewals(real, name, token, ttl):
    real.notes[token] = real.notes.get(token, 0) + 1
    return real.notes[token] < 10 and await real.renew(name, token, ttl)


async def _long_leases_stay(real, name, token, **wake):
    held = await _held(real, name, token)
    if held is not None and held.expires_at - await real.engine.now() > 300:
        return True
    return await real.release_lock(name, token, **wake)


async def _released_is_released(real, name, token, **wake):
    released = await real.release_lock(name, token, **wake)
    if released:
        real.notes[token] = True
    return token in real.notes


def _by_name(call, is_own):
    """A late handle's call reaches the newer lease, of an owner that `is_own` accepts."""

    async def late(real, self, *args):
        session = self._runtime.session()
        for info in await session.list_locks():
            newer = info.name == self._name and info.token != self._token
            if newer and is_own(info.owner == self._owner):
                return await getattr(session, call)(info.name, info.token, *args)
        return await real(self, *args)

    return late


async def _renewed_in_two_steps(real, self, ttl):
    seconds = check_duration("ttl", ttl)
    row = {"name": self._name, "owner": self._owner, "token": self._token, "ttl": seconds}

    def put_back():
        values = {key: bindparam(key) for key in ("name", "owner", "token")}
        yield upsert(locks).values(**values, expires_at=_until).on_conflict_do_nothing(), row

    if not await self._runtime.session().release_lock(self._name, self._token):
        return False
    for _ in range(10):
        await asyncio.sleep(0)
    await run(self._runtime.engine, put_back)
    return True


def _kept_on(kind):
    async def leave(real, self, exc_type, *rest):
        if exc_type is not kind:
            await real(self, exc_type, *rest)

    return leave


async def _strict_leave(real, self):
    if not await self.release():
        raise DatabaseError("the lease has lapsed")


SABOTEURS = {
    "locks.acquire.free": Saboteur(core("locks:Lock.name", lambda real, self: self._owner)),
    "locks.acquire.held": Saboteur(
        primitive("acquire", _prolonged_by_an_attempt),
        also={
            "locks.renew.extends": "there an attempt comes in the last second, too",
            "time.at_least": "there as well",
        },
        stateful=True,
    ),
    "locks.acquire.lapsed": Saboteur(
        op("locks:acquire", _longer(lambda own: not own)),
        also={
            "locks.renew.superseded": "compares the newer lease of another owner",
            "locks.release.superseded": "compares it as well",
        },
        stateful=True,
    ),
    "locks.acquire.lapsed_again": Saboteur(
        op("locks:acquire", _longer(lambda own: own)),
        also={
            "locks.renew.fenced": "compares the owner's newer lease",
            "locks.release.fenced": "compares it as well",
            "locks.block.lapsed": "compares it as well",
        },
        stateful=True,
    ),
    "locks.acquire.one_winner": Saboteur(
        primitive("acquire", _both_win),
        also={"scheduler.two_runners": "two runners try at once, and both lead"},
        stateful=True,
    ),
    "locks.acquire.apart": Saboteur(primitive("release_lock", _release_any_case)),
    "locks.same_owner.handle": Saboteur(primitive("acquire", _one_client_each), stateful=True),
    "locks.same_owner.unmoved": Saboteur(primitive("acquire", _refreshed), stateful=True),
    "locks.same_owner.together": Saboteur(
        primitive("acquire", _one_at_a_time),
        also={"cancellation.lock": "the cancelled attempt is still on its way"},
    ),
    "locks.same_owner.exact": Saboteur(op("locks:acquire", _owner_of_any_case)),
    "locks.token.grows": Saboteur(op("locks:acquire", _sequence_of_name), stateful=True),
    "locks.token.reopened": Saboteur(
        _deleted_at_opening(_FIRST_TOKEN),
        also={"durability.locks": "it looks at the tokens, too"},
        stateful=True,
    ),
    "locks.lease.reopened": Saboteur(
        _deleted_at_opening(delete(locks)),
        also={"durability.locks": "it reopens as well"},
        stateful=True,
    ),
    "locks.list.live": Saboteur(
        statement("locks:LIST_LOCKS", lambda _: select(*locks.c).order_by(locks.c.name)),
        stateful=True,
    ),
    "locks.rollback": Saboteur(primitive("rollback", _unlocking_rollback), stateful=True),
    "locks.renew.extends": Saboteur(
        arguments("renew", lambda name, token, ttl: (name, token, min(ttl, 99))),
        also={"numbers.saturate_renew": "that is longer still"},
        stateful=True,
    ),
    "locks.renew.resets": Saboteur(
        statement(
            "locks:RENEW",
            lambda renew: renew.values(expires_at=func.max(locks.c.expires_at, _until)),
        ),
        stateful=True,
    ),
    "locks.renew.repeats": Saboteur(primitive("renew", _ten_renewals), stateful=True),
    "locks.release.frees": Saboteur(
        primitive("release_lock", _long_leases_stay),
        also={
            "locks.block.releases": "leaving a block releases",
            "locks.block.cancelled": "so does leaving it by a cancellation",
        },
        stateful=True,
    ),
    "locks.release.once": Saboteur(
        primitive("release_lock", _released_is_released),
        also={"locks.same_owner.handle": "the owner's other handle releases again"},
        stateful=True,
    ),
    "locks.renew.lapsed": Saboteur(
        statement(
            "locks:RENEW",
            lambda _: (
                update(locks)
                .where(*_this, locks.c.expires_at >= NOW - ONE)
                .values(expires_at=_until)
            ),
        ),
        also={
            "locks.race": "there a renewal comes a second too late",
            "scheduler.lost": "a leader whose lease has lapsed goes on",
            "scheduler.takeover": "it does not make way",
        },
        stateful=True,
    ),
    "locks.release.lapsed": Saboteur(
        statement("locks:RELEASE_LOCK", lambda _: delete(locks).where(*_this)),
        also={"time.at_least": "it releases a lapsed lock"},
        stateful=True,
    ),
    "locks.renew.superseded": Saboteur(
        core("locks:Lock.renew", _by_name("renew", lambda own: not own)), stateful=True
    ),
    "locks.release.superseded": Saboteur(
        core("locks:Lock.release", _by_name("release_lock", lambda own: not own)), stateful=True
    ),
    "locks.renew.fenced": Saboteur(
        core("locks:Lock.renew", _by_name("renew", lambda own: own)),
        also={"locks.release.once": "there the owner has a newer lease, too"},
        stateful=True,
    ),
    "locks.release.fenced": Saboteur(
        core("locks:Lock.release", _by_name("release_lock", lambda own: own)),
        also={
            "locks.release.once": "there the owner has a newer lease, too",
            "locks.block.lapsed": "leaving the block of the old lease releases the newer one",
        },
        stateful=True,
    ),
    "locks.race": Saboteur(core("locks:Lock.renew", _renewed_in_two_steps)),
    "locks.block.releases": Saboteur(core("locks:Lock.__aexit__", _kept_on(ZeroDivisionError))),
    "locks.block.cancelled": Saboteur(
        core("locks:Lock.__aexit__", _kept_on(asyncio.CancelledError))
    ),
    "locks.block.lapsed": Saboteur(core("locks:Lock._leave", _strict_leave), stateful=True),
}
