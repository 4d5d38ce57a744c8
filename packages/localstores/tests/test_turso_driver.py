"""The adapter of Turso: what its errors mean, and that it lets go."""

import gc
import weakref

import pytest

from alkstore_core.sql.dbapi import Fault
from alkstore_localstores import LocalKv, LocalStoreError
from alkstore_localstores.guard import is_locked
from alkstore_localstores.turso_driver import TursoConnection, TursoDbapi, TursoError


class PanicException(BaseException):
    """What a panic of the engine becomes."""


@pytest.fixture
def connection(tmp_path):
    """A connection to a new database with a table."""
    connection = TursoConnection(str(tmp_path / "db"), "multiprocess_wal")
    connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)")
    yield connection
    connection.close()


def test_a_statement_is_prepared_once_and_used_again(connection):
    """With other parameters, after an error, and after the schema has changed."""
    insert, find = "INSERT INTO t VALUES (?, ?)", "SELECT b FROM t WHERE a = ?"
    for number in range(5):
        assert connection.execute(insert, (number, b"%d" % number)).rowcount == 1
    for number in range(5):
        assert connection.execute(find, (number,)).fetchall() == [(b"%d" % number,)]
    with pytest.raises(TursoError, match="UNIQUE"):
        connection.execute(insert, (4, b""))
    assert connection.execute(find, (7,)).fetchall() == []
    connection.execute("ALTER TABLE t ADD COLUMN c")
    assert connection.execute(insert.replace("?, ?", "?, ?, 0"), (5, b"5")).rowcount == 1
    assert connection.execute(find, (5,)).fetchall() == [(b"5",)]
    returned = connection.execute("DELETE FROM t WHERE a < ? RETURNING a", (2,))
    assert returned.fetchall() == [(0,), (1,)]
    assert connection.execute("DELETE FROM t WHERE a < ?", (4,)).rowcount == 2


def test_a_transaction_ends_as_it_is_told(connection):
    """A kept statement leaves no transaction open."""
    for ends, count in (("COMMIT", 1), ("ROLLBACK", 1), ("COMMIT", 2)):
        connection.execute("BEGIN IMMEDIATE")
        assert connection.in_transaction
        connection.execute("INSERT INTO t (b) VALUES (?)", (b"",))
        connection.execute(ends)
        assert not connection.in_transaction
        assert connection.execute("SELECT count(*) FROM t").fetchall() == [(count,)]


def test_a_busy_database_is_told_apart(connection, tmp_path):
    """Somebody else's lock is worth a wait; a wrong statement is not."""
    other = TursoConnection(str(tmp_path / "db"), "multiprocess_wal")
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(TursoError) as caught:
        connection.execute("BEGIN IMMEDIATE")
    assert TursoDbapi().judge(caught.value) is Fault.BUSY
    other.execute("ROLLBACK")
    other.close()
    with pytest.raises(TursoError) as caught:
        connection.execute("nonsense")
    assert TursoDbapi().judge(caught.value) is Fault.STATEMENT
    connection.execute("BEGIN IMMEDIATE")


def test_a_kept_error_keeps_no_lock(tmp_path):
    """Whoever looks at an error later does not keep the database open with it."""
    path = tmp_path / "db"
    connection = TursoConnection(str(path), "multiprocess_wal")
    connection.execute("CREATE TABLE t (a)")
    with pytest.raises(TursoError) as caught:
        connection.execute("SELECT nothing FROM t WHERE a = ?", (1,))
    assert is_locked(f"{path}-tshm")
    connection.close()
    gc.collect()
    assert not is_locked(f"{path}-tshm")
    assert caught.value.__context__ is None


def test_a_panic_is_an_error(connection, monkeypatch):
    """Nobody's loop ends by it, and the connection is given up."""

    class Statement:
        def columns(self):
            raise PanicException("index out of bounds")

        def finalize(self):
            raise PanicException("again")

    class Connection:
        def prepare_single(self, _sql):
            return Statement()

        def get_auto_commit(self):
            raise PanicException("and again")

        def close(self):
            raise PanicException("to the end")

    real = connection._connection
    monkeypatch.setattr(connection, "_connection", Connection())
    with pytest.raises(TursoError, match="panicked") as caught:
        connection.execute("SELECT 1")
    assert TursoDbapi().judge(caught.value) is Fault.CONNECTION
    assert connection.in_transaction
    with pytest.raises(TursoError):
        connection.close()
    real.close()


async def test_a_panic_fails_its_calls_and_the_store_goes_on(tmp_path, monkeypatch):
    """The next call is made on a new connection."""
    async with LocalKv(tmp_path, driver="turso") as kv:
        await kv.put("k", b"1")

        def panic(self, sql, parameters):
            monkeypatch.undo()
            raise PanicException(sql)

        monkeypatch.setattr(TursoConnection, "_execute", panic)
        with pytest.raises(LocalStoreError, match="panicked") as caught:
            await kv.put("k", b"2")
        assert caught.value.code == "KV_OPERATION_FAILED"
        assert await kv.put("k", b"3") is True
        assert (await kv.get("k")).value == b"3"


def test_a_closed_connection_is_collected(tmp_path):
    """Nothing of ours keeps it."""
    connection = TursoConnection(str(tmp_path / "db"), None)
    connection.close()
    connection.close()
    dead = weakref.ref(connection)
    del connection
    gc.collect()
    assert dead() is None
