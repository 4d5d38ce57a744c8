"""Faults in how stores open and close, and in what is left behind."""

from sabotage import Saboteur, code, core, engine

from alkstore_core import Closed, DatabaseError


def silent_while(state):
    """`diagnose` finds nothing on a store that is not open."""

    async def diagnose(real, self):
        return [] if self._runtime._state == state else await real(self)

    return core("store:Store.diagnose", diagnose)


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


async def _saves_nowhere(real, self):
    if self._runtime.is_open:
        await real(self)


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
        core("opentx:OpenTx.end", _commits_at_closing),
        also={
            "lifecycle.close.under_way": "a transaction is open when it closes",
            "lifecycle.handles_after_close": "a transaction is open when it closes",
        },
        stateful=True,
    ),
    "lifecycle.close.under_way": Saboteur(core("runtime:Runtime.turn", _closed_by_another_name)),
    "lifecycle.handles_after_close": Saboteur(
        core("streams:EventReceiver.save_offset", _saves_nowhere)
    ),
    "lifecycle.open.closed": Saboteur(core("runtime:Runtime.open", _opens_again)),
    "lifecycle.open.together": Saboteur(
        engine("open", _five_at_most),
        also={
            "queues.claim.cancelled": "it opens as many stores",
            "queues.claim.cancelled_batch": "it opens as many stores",
        },
    ),
    "lifecycle.open.twice": Saboteur(core("runtime:Runtime.open", _opens_anew)),
    "lifecycle.unopened_handles": Saboteur(
        core("store:Store.outbox", _only_when_open),
        also={"names.at_once": "it needs no open store either"},
    ),
}
