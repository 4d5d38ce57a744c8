"""Faults in transactions that the caller owns. Only an engine with SQL can show them."""

import contextlib
import weakref

from sabotage import Saboteur, code, core, harness, op

from alkstore_core import Closed, CodecError, DatabaseError
from alkstore_core.sql.session import SqlSession


def joins(patch, **options):
    """A saboteur of SQLite."""
    return Saboteur(patch, base="sqlite", **options)


def _open_or_not(real, self, owner):
    with contextlib.suppress(Closed):
        real(self, owner)


def _always_the_same(real, self, owner):
    self._runtime.check_open()


_joined = weakref.WeakKeyDictionary()


def _joined_once(real, self, transaction):
    if transaction in _joined and type(transaction).__name__ == "AsyncConnection":
        raise DatabaseError("this was joined before")
    joined = real(self, transaction)
    _joined[transaction] = True
    return joined


class _Hasty:
    """Commits what is inserted."""

    def __init__(self, connection):
        self._connection = connection

    async def exec_driver_sql(self, sql):
        result = await self._connection.exec_driver_sql(sql)
        if sql.startswith("INSERT"):
            await self._connection.commit()
        return result


def _first_only(real, self, stream, payloads):
    return real(self, stream, list(payloads)[:1])


def _with_commit(real, self, transaction):
    joined = real(self, transaction)
    joined.commit = getattr(transaction, "commit", None)
    return joined


def _takes_anything(real, self, transaction):
    return None if transaction is None else real(self, transaction)


async def _refusal_rolls_back(real, self, *args):
    try:
        return await real(self, *args)
    except CodecError:
        target = getattr(self, "_target", None)
        if target is not None:
            undone = target.rollback()
            if undone is not None:
                await undone
        raise


@contextlib.asynccontextmanager
async def _rollback_commits(real, address, kind):
    async with real(address, kind) as caller:
        caller.rollback = caller.commit
        yield caller


def _unannounced(real, self, driver):
    session = real(self, driver)
    session.announced_kinds = frozenset()
    return session


def _too_early(real, self, driver):
    return SqlSession(driver, self.signals.fire)


SABOTEURS = {
    "joins.closed": joins(op("join:_OneTransaction.check", _open_or_not)),
    "joins.commit": joins(
        op("store:SqlStore.join", _joined_once),
        also={
            "joins.one_each": "it joins the caller's next transaction",
            "joins.savepoint": "it joins the caller's next transaction",
            "joins.closed": "another store joins the transaction",
        },
    ),
    "joins.connection": joins(
        op("store:SqlTxHandle.connection", lambda real, self: _Hasty(real(self)))
    ),
    "joins.methods": joins(op("join:JoinedSyncTx.publish_many_tx", _first_only)),
    "joins.not_ours": joins(op("store:SqlStore.join", _with_commit)),
    "joins.one_each": joins(op("join:_OneTransaction.check", _always_the_same)),
    "joins.others": joins(op("store:SqlStore.join", _takes_anything)),
    "joins.refused": joins(core("txops:TxOps.publish_tx", _refusal_rolls_back)),
    "joins.rollback": joins(
        harness("caller", _rollback_commits),
        also={
            "joins.savepoint": "it rolls the whole back",
            "joins.wakes.none": "it rolls back",
        },
    ),
    "joins.savepoint": joins(
        code(
            "sqlalchemy.engine.default:DefaultDialect.do_rollback_to_savepoint",
            lambda real, self, connection, name: None,
        )
    ),
    "joins.wakes.after": joins(
        code("alkstore_sqlite.engine:SqliteEngine.joined_session", _unannounced)
    ),
    "joins.wakes.none": joins(
        code("alkstore_sqlite.engine:SqliteEngine.joined_session", _too_early),
        also={"joins.wakes.after": "it wakes before the commit"},
    ),
}
