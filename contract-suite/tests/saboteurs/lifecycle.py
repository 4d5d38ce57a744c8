"""Faults in how stores open and close, and in what is left behind."""

import contextlib

from rowops import write
from sabotage import Saboteur, code, core, engine, harness, primitive

from alkstore_core import Closed, DatabaseError

_PREFIX = "substr(queue, 1, 11) = '__alkstore_'"


def silent_while(state):
    """`diagnose` finds nothing on a store that is not open."""

    async def diagnose(real, self):
        return [] if self._runtime._state == state else await real(self)

    return core("store:Store.diagnose", diagnose)


def at_opening(sql):
    """A statement that is run whenever a store is opened."""

    async def open_(real):
        await real.open()
        await write(real, sql)

    return engine("open", open_)


async def _stays_open_on_errors(real, self, kind, error, traceback):
    if error is None:
        await real(self, kind, error, traceback)


async def _never_opened(real, self):
    if self._state == "new":
        raise Closed("the store was never opened")
    await real(self)


async def _nobody_waits(real, self):
    for transaction in tuple(self.transactions):
        await transaction.end((Closed, "the store was closed"))


async def _takes_the_others(real, self):
    clients = tuple(self._database._clients)
    await real(self)
    for client in clients:
        client.hub.close_open()


async def _error_at_the_end(real, self):
    if self._ended and not self._runtime.is_open:
        raise Closed("the store is closed")
    return await real(self)


async def _commits_at_closing(real, self, reason):
    if reason[0] is Closed and not self.over:
        await self.commit()
    else:
        await real(self, reason)


async def _closed_by_another_name(real, self, *args, **urgent):
    await real(self, *args, **urgent)
    if self._state == "closed":
        raise DatabaseError("the connection is gone")


async def _refused_quietly(real, self, ttl):
    try:
        return await real(self, ttl)
    except Closed:
        return False


async def _opens_again(real, self):
    if self._state != "closed":
        await real(self)


async def _five_at_most(real):
    count = real.notes["opened"] = real.notes.get("opened", 0) + 1
    if count > 5:
        raise DatabaseError("too many clients")
    await real.open()


async def _opens_anew(real, self):
    if self._state == "open":
        for receiver in tuple(self.receivers):
            receiver.end()
    await real(self)


def _only_when_open(real, self, name):
    if self._runtime._state == "new":
        raise Closed("the store is not open")
    return real(self, name)


_homes = []


@contextlib.asynccontextmanager
async def _one_home(real):
    if _homes:
        yield _homes[0]
        return
    async with real() as address:
        _homes.append(address)
        try:
            yield address
        finally:
            _homes.clear()


async def _half_is_lost(real, stream, entries, **wake):
    lost = real.engine.clock is None and entries[0].payload == b"1"
    return [1] if lost else await real.append(stream, entries, **wake)


SABOTEURS = {
    "lifecycle.after_close": Saboteur(silent_while("closed")),
    "lifecycle.before_open": Saboteur(silent_while("new")),
    "lifecycle.block": Saboteur(core("store:Store.__aexit__", _stays_open_on_errors)),
    "lifecycle.close.again": Saboteur(core("runtime:Runtime.close", _never_opened)),
    "lifecycle.close.give_backs": Saboteur(core("runtime:Runtime._settle", _nobody_waits)),
    "lifecycle.close.others": Saboteur(
        code("alkstore_mem.engine:MemEngine.close", _takes_the_others),
        also={"receivers.neighbours": "it closes a client beside another"},
    ),
    "lifecycle.close.receivers": Saboteur(
        core("wakes:WakeReceiver.recv", _error_at_the_end),
        also={"receivers.neighbours": "it looks at the receiver of a client that closed"},
    ),
    "lifecycle.close.transactions": Saboteur(
        core("opentx:OpenTx.end", _commits_at_closing), stateful=True
    ),
    "lifecycle.close.under_way": Saboteur(core("runtime:Runtime.turn", _closed_by_another_name)),
    "lifecycle.handles_after_close": Saboteur(core("locks:Lock.renew", _refused_quietly)),
    "lifecycle.open.closed": Saboteur(core("runtime:Runtime.open", _opens_again)),
    "lifecycle.open.together": Saboteur(engine("open", _five_at_most)),
    "lifecycle.open.twice": Saboteur(core("runtime:Runtime.open", _opens_anew)),
    "lifecycle.unopened_handles": Saboteur(core("store:Store.outbox", _only_when_open)),
    "durability.claims": Saboteur(
        at_opening("UPDATE __alkstore_jobs SET claim_expires_at = 0 WHERE worker_id IS NOT NULL"),
        also={"durability.jobs": "one of its jobs is claimed"},
        stateful=True,
    ),
    "durability.ids": Saboteur(
        at_opening(
            "DELETE FROM sqlite_sequence WHERE name = '__alkstore_jobs'"
            " AND NOT EXISTS (SELECT 1 FROM __alkstore_jobs)"
        ),
        stateful=True,
    ),
    "durability.jobs": Saboteur(
        at_opening("UPDATE __alkstore_dead_jobs SET headers = NULL"), stateful=True
    ),
    "durability.killed": Saboteur(primitive("append", _half_is_lost, where="tx"), base="sqlite"),
    "durability.locks": Saboteur(at_opening("DELETE FROM __alkstore_locks"), stateful=True),
    "durability.new": Saboteur(harness("home", _one_home)),
    "durability.outbox": Saboteur(
        at_opening(f"UPDATE __alkstore_jobs SET visibility_timeout_s = 300 WHERE {_PREFIX}"),
        stateful=True,
    ),
    "durability.schedules": Saboteur(at_opening("DELETE FROM __alkstore_schedules"), stateful=True),
    "durability.streams": Saboteur(at_opening("DELETE FROM __alkstore_consumers"), stateful=True),
}
