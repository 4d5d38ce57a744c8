"""Group commit: what callers share, what they do not, and what becomes of them in trouble."""

import asyncio
import sqlite3
import threading
from types import SimpleNamespace

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, bindparam, insert, select
from sqlalchemy.dialects import sqlite

from alkstore_core import DatabaseError
from alkstore_core.sql import runner as runner_module
from alkstore_core.sql.compile import Compiler
from alkstore_core.sql.merging import Merge
from alkstore_core.sql.op import Mode
from alkstore_core.sql.runner import Fault, Runner

notes = Table("notes", MetaData(), Column("number", Integer, primary_key=True))
PUT = insert(notes).values(number=bindparam("n", type_=Integer))
NUMBERS = select(notes.c.number).order_by(notes.c.number)


def put(number):
    """Add a note; ten times its number."""
    yield PUT, {"n": number}
    return number * 10


def put_all(calls):
    """Add the notes of several callers at once."""
    for (number,) in calls:
        yield PUT, {"n": number}
    return [number * 100 for (number,) in calls]


def numbers():
    """All notes."""
    return [number for (number,) in (yield NUMBERS, {}).rows]


class BusyError(Exception):
    """Somebody else holds the lock."""


class BrokenError(Exception):
    """The connection is no good any more."""


def judge(error):
    """What the fake driver's errors mean."""
    kinds = {BusyError: Fault.BUSY, BrokenError: Fault.CONNECTION}
    return kinds.get(type(error), Fault.STATEMENT)


class Gate:
    """Stops the runner's thread at a statement."""

    def __init__(self):
        self.reached = threading.Event()
        self.opened = threading.Event()

    async def arrival(self):
        """Wait for the thread."""
        assert await asyncio.to_thread(self.reached.wait, 30)


class Database:
    """A file behind connections that fail and stop as a test wishes; keeps what was executed."""

    def __init__(self, path):
        self.path = path
        self.log = []
        self.connections = 0
        self.closed = 0
        self.gates = {}
        self.faults = {}
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE notes (number INTEGER PRIMARY KEY)")
        connection.close()

    def connect(self):
        """A new connection."""
        self.connections += 1
        return Connection(self)

    def gate(self, statement):
        """Stop at the next such statement."""
        self.gates[statement] = Gate()
        return self.gates[statement]

    def meet(self, statement):
        """Note a statement; stop or fail there if the test wants it."""
        self.log.append(statement)
        gate = self.gates.pop(statement, None)
        if gate is not None:
            gate.reached.set()
            gate.opened.wait(30)
        if self.faults.get(statement):
            raise self.faults[statement].pop(0)


class Connection:
    """One of them."""

    def __init__(self, database):
        self._database = database
        self._real = sqlite3.connect(database.path, isolation_level=None)

    @property
    def in_transaction(self):
        return self._real.in_transaction

    def execute(self, sql, parameters=()):
        self._database.meet(" ".join([sql.split()[0], *map(str, parameters)]))
        return self._real.execute(sql, parameters)

    def close(self):
        self._database.closed += 1
        self._real.close()


@pytest.fixture
def database(tmp_path):
    """A file with an empty table."""
    return Database(tmp_path / "notes.db")


@pytest.fixture
def make(database):
    """Make a runner that is not started."""

    def make_runner(**changed):
        options = {
            "begin": "BEGIN",
            "check": lambda: None,
            "busy_timeout": 30,
            "judge": judge,
            "describe": "notes.db",
        }
        compiler = Compiler(sqlite.dialect(paramstyle="qmark"))
        return Runner(database.connect, compiler, lambda: 1_000, **{**options, **changed})

    return make_runner


@pytest.fixture(autouse=True)
def groups_are_not_cut(monkeypatch):
    """A machine that pauses for 20 ms must not split a group that a test looks at."""
    monkeypatch.setattr(runner_module, "GROUP_SECONDS", 60)


@pytest.fixture
async def start(make):
    """Make and start a runner; it ends with the test."""
    runners = []

    async def start_runner(**changed):
        runner = make(**changed)
        await runner.start()
        runners.append(runner)
        return runner

    yield start_runner
    for runner in runners:
        await runner.close()


async def outcomes(*futures):
    """Values and errors."""
    async with asyncio.timeout(30):
        return await asyncio.gather(*futures, return_exceptions=True)


def puts(runner, *given):
    """Ask for notes in one turn of the loop."""
    return [runner.run(Mode.WRITE, put, number) for number in given]


async def test_calls_of_one_turn_share_a_commit(database, start):
    """Callers of one loop turn ride in one transaction, in their order, each with its value."""
    runner = await start()

    assert [10, 20, 30] == await outcomes(*puts(runner, 1, 2, 3))
    assert ["BEGIN", "INSERT 1", "INSERT 2", "INSERT 3", "COMMIT"] == database.log


async def test_calls_return_after_the_commit_only(database, start):
    """No caller goes on before the commit of its group."""
    runner = await start()
    gate = database.gate("COMMIT")
    futures = puts(runner, 1, 2)
    await gate.arrival()
    assert [False, False] == [future.done() for future in futures]
    gate.opened.set()

    assert [10, 20] == await outcomes(*futures)


async def test_one_callers_error_is_nobody_elses(database, start):
    """A refused statement rolls the group back; then its calls run one by one."""
    runner = await start()
    database.faults["INSERT 2"] = [ValueError("no"), ValueError("no")]

    first, second, third = await outcomes(*puts(runner, 1, 2, 3))

    assert [10, 30] == [first, third]
    assert isinstance(second, DatabaseError)
    assert [1, 3] == await runner.run(Mode.READ, numbers)
    # The group, and then each by itself.
    assert [
        *("BEGIN", "INSERT 1", "INSERT 2", "ROLLBACK"),
        *("BEGIN", "INSERT 1", "COMMIT"),
        *("BEGIN", "INSERT 2", "ROLLBACK"),
        *("BEGIN", "INSERT 3", "COMMIT"),
    ] == database.log[:13]


async def test_an_exit_leaves_no_transaction_behind(database, start):
    """It would keep the lock for as long as the process lives."""
    runner = await start()
    database.faults["INSERT 1"] = [SystemExit(3)]

    (error,) = await outcomes(*puts(runner, 1))

    assert isinstance(error, DatabaseError)
    assert isinstance(error.__cause__, SystemExit)
    assert [20] == await outcomes(*puts(runner, 2))


async def test_merged_calls_get_their_own_values(database, start):
    """Calls of equal key become one op; each caller gets its own value, others theirs."""
    merges = {put: Merge(lambda arguments: arguments[0] % 2, put_all)}
    runner = await start(merges=merges)

    assert [100, 20, 300, [1, 2, 3]] == await outcomes(
        *puts(runner, 1, 2, 3), runner.run(Mode.WRITE, numbers)
    )


async def test_a_merged_op_that_fails_runs_one_by_one(database, start):
    """When what was merged is refused, each call is judged by itself."""
    runner = await start(merges={put: Merge(lambda _: 0, put_all)})
    database.faults["INSERT 2"] = [ValueError("no"), ValueError("no")]

    first, second, third = await outcomes(*puts(runner, 1, 2, 3))

    assert [10, 30] == [first, third]
    assert isinstance(second, DatabaseError)


async def test_urgent_calls_go_first(database, start):
    """What was asked later but urgently runs before what else waits."""
    runner = await start()
    gate = database.gate("INSERT 1")
    busy = puts(runner, 1)
    await gate.arrival()
    waiting = puts(runner, 2)
    await asyncio.sleep(0)
    waiting += puts(runner, 3)
    await asyncio.sleep(0)
    waiting.append(runner.run(Mode.URGENT, put, 4))
    await asyncio.sleep(0)
    gate.opened.set()
    await outcomes(*busy, *waiting)

    inserts = [statement for statement in database.log if statement.startswith("INSERT")]
    assert ["INSERT 1", "INSERT 4", "INSERT 2", "INSERT 3"] == inserts


async def test_a_busy_database_is_asked_again(database, start):
    """While others hold the lock nothing is done and nothing is lost."""
    runner = await start()
    database.faults["BEGIN"] = [BusyError(), BusyError()]

    assert [10, 20] == await outcomes(*puts(runner, 1, 2))
    assert ["BEGIN", "BEGIN", "BEGIN", "INSERT 1", "INSERT 2", "COMMIT"] == database.log


async def test_a_database_that_stays_busy_is_an_error_in_time(database, start):
    """After `busy_timeout` the wait for the lock ends, nothing was done, others are served."""
    runner = await start(busy_timeout=0.01)
    database.faults["BEGIN"] = [BusyError("held") for _ in range(100_000)]

    (error,) = await outcomes(*puts(runner, 1))
    database.faults.clear()

    assert isinstance(error, DatabaseError)
    assert "stayed locked" in str(error)
    assert [20] == await outcomes(*puts(runner, 2))
    assert [2] == await runner.run(Mode.READ, numbers)


async def test_patience_is_each_callers_own(database, start):
    """A call whose time is over leaves the group; the others wait on and run."""
    runner = await start()
    gate = database.gate("INSERT 1")
    busy = puts(runner, 1)
    await gate.arrival()
    runner._busy_timeout = 0
    impatient = puts(runner, 2)
    await asyncio.sleep(0)
    runner._busy_timeout = 30
    patient = puts(runner, 3)
    await asyncio.sleep(0)
    database.faults["BEGIN"] = [BusyError()]
    gate.opened.set()

    _, late, value = await outcomes(*busy, *impatient, *patient)

    assert isinstance(late, DatabaseError)
    assert 30 == value


async def test_a_call_cancelled_while_it_waits_for_the_lock_never_runs(database, start):
    """As long as its transaction has not begun, a cancelled call leaves no trace."""
    runner = await start()
    database.faults["BEGIN"] = [BusyError()]
    gate = database.gate("BEGIN")
    first, second = puts(runner, 1, 2)
    await gate.arrival()
    first.cancel()
    gate.opened.set()

    assert [20] == await outcomes(second)
    assert [2] == await runner.run(Mode.READ, numbers)
    assert "INSERT 1" not in database.log


async def test_a_call_that_has_begun_runs_to_its_end(database, start):
    """A call cancelled after its transaction began is committed with its group."""
    runner = await start()
    gate = database.gate("INSERT 1")
    (call,) = puts(runner, 1)
    await gate.arrival()
    call.cancel()
    gate.opened.set()

    assert [1] == await runner.run(Mode.READ, numbers)


async def test_a_failed_commit_is_unknown_to_all_and_never_tried_again(database, start):
    """Every caller of a group hears that its COMMIT failed; nothing is retried, and the next
    call works on a new connection.
    """
    runner = await start()
    database.faults["COMMIT"] = [OSError("disk I/O error")]

    errors = await outcomes(*puts(runner, 1, 2, 3))

    assert [DatabaseError] * 3 == [type(error) for error in errors]
    assert [True] * 3 == ["is unknown" in str(error) for error in errors]
    assert ["BEGIN", "INSERT 1", "INSERT 2", "INSERT 3", "COMMIT"] == database.log
    assert [40] == await outcomes(*puts(runner, 4))
    assert (2, 1) == (database.connections, database.closed)
    assert [4] == await runner.run(Mode.READ, numbers)


async def test_a_failing_connection_is_given_up(database, start):
    """After an error of the connection the calls run on a new one."""
    runner = await start()
    database.faults["INSERT 2"] = [BrokenError("gone")]

    assert [10, 20] == await outcomes(*puts(runner, 1, 2))
    assert (2, 1) == (database.connections, database.closed)


async def test_a_rollback_that_fails_gives_the_connection_up(database, start):
    """A connection that may still be in a transaction is not used again."""
    runner = await start()
    database.faults["INSERT 1"] = [ValueError("no")]
    database.faults["ROLLBACK"] = [ValueError("no")]

    (error,) = await outcomes(*puts(runner, 1))

    assert isinstance(error, DatabaseError)
    assert [20] == await outcomes(*puts(runner, 2))
    assert (2, 1) == (database.connections, database.closed)
    assert [2] == await runner.run(Mode.READ, numbers)


async def test_a_connection_that_cannot_be_made_again_is_an_error(database, start, monkeypatch):
    """While no new connection can be made calls fail; they work again when it can."""
    runner = await start()
    database.faults["COMMIT"] = [BrokenError("gone")]
    await outcomes(*puts(runner, 1))
    connect = runner._connect

    def fail():
        raise OSError("no such file")

    monkeypatch.setattr(runner, "_connect", fail)
    (error,) = await outcomes(*puts(runner, 2))
    assert isinstance(error, DatabaseError)
    monkeypatch.setattr(runner, "_connect", connect)

    assert [30] == await outcomes(*puts(runner, 3))


async def test_a_failed_check_begins_nothing(database, start):
    """When the database is no longer what was opened, all hear it and no statement runs."""

    def check():
        raise DatabaseError("replaced")

    runner = await start(check=check)
    errors = await outcomes(*puts(runner, 1, 2))

    assert ["replaced", "replaced"] == [str(error) for error in errors]
    assert [] == database.log


async def test_a_long_group_ends_early(database, start, monkeypatch):
    """What does not fit into a group's time goes into the next one, in order."""
    monkeypatch.setattr(runner_module, "GROUP_SECONDS", -1)
    runner = await start()

    assert [10, 20] == await outcomes(*puts(runner, 1, 2))
    assert ["BEGIN", "INSERT 1", "COMMIT", "BEGIN", "INSERT 2", "COMMIT"] == database.log


def time_by_statements(database, monkeypatch):
    """Each insert takes 3 ms, and pauses take theirs; returns the list of those."""
    slept = []

    def now():
        return sum(line.startswith("INSERT") for line in database.log) * 0.003 + sum(slept)

    monkeypatch.setattr(runner_module, "time", SimpleNamespace(monotonic=now, sleep=slept.append))
    return slept


@pytest.mark.parametrize(("gives_way", "pauses"), [(True, {0.003}), (False, set())])
async def test_a_long_streak_gives_way(database, start, monkeypatch, gives_way, pauses):
    """A runner that locks others out pauses after a streak; one that does not never does."""
    slept = time_by_statements(database, monkeypatch)
    runner = await start(gives_way=gives_way)
    for number in range(40):
        await outcomes(*puts(runner, number))

    assert pauses == {round(seconds, 6) for seconds in slept}


async def test_calls_that_run_one_by_one_give_way(database, start, monkeypatch):
    """They may be many: whoever waits for the lock comes in between them, too."""
    slept = time_by_statements(database, monkeypatch)
    runner = await start(gives_way=True)
    database.faults["INSERT 7"] = [ValueError("no"), ValueError("no")]
    await outcomes(*puts(runner, *range(60)))

    assert pytest.approx([0.003] * 3) == slept


async def test_calls_that_run_one_by_one_are_answered_one_by_one(database, start):
    """Whoever is done need not wait for the commits of the others."""
    runner = await start()
    database.faults["INSERT 2"] = [ValueError("no"), ValueError("no")]
    gate = database.gate("INSERT 3")
    futures = puts(runner, 1, 2, 3)
    await gate.arrival()
    assert [True, True, False] == [future.done() for future in futures]
    gate.opened.set()

    assert 10 == (await outcomes(*futures))[0]


async def test_a_closed_runner_refuses(start):
    """A call after the end raises; it does not wait for a thread that is gone."""
    runner = await start()
    await runner.close()

    with pytest.raises(DatabaseError, match="closed"):
        runner.run(Mode.WRITE, put, 1)


async def test_close_finishes_what_was_accepted(database, start):
    """Calls accepted before the end are answered, however late they were."""
    runner = await start()
    gate = database.gate("INSERT 1")
    futures = puts(runner, 1)
    await gate.arrival()
    futures += puts(runner, 2)
    closing = asyncio.create_task(runner.close())
    await asyncio.sleep(0)
    gate.opened.set()
    await closing

    assert [10, 20] == await outcomes(*futures)
    assert 1 == database.closed


async def test_a_thread_that_does_not_start_is_an_error(make, monkeypatch):
    """Without a thread `start` raises, `close` returns, and `start` may be tried again."""
    runner = make()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", _no_thread)
        with pytest.raises(DatabaseError, match="can't start new thread"):
            await runner.start()
    async with asyncio.timeout(30):
        await runner.close()
        await runner.start()
        assert [] == await runner.run(Mode.READ, numbers)
        await runner.close()


def _no_thread(_):
    raise RuntimeError("can't start new thread")


async def test_a_first_connection_that_fails_is_an_error(database, make, monkeypatch):
    """Without a connection `start` raises, leaves no thread, and may be tried again."""
    runner = make()
    before = threading.active_count()
    connect = runner._connect

    def fail():
        raise OSError("no such file")

    monkeypatch.setattr(runner, "_connect", fail)
    with pytest.raises(DatabaseError, match="no such file"):
        await runner.start()
    assert before == threading.active_count()
    monkeypatch.setattr(runner, "_connect", connect)

    await runner.start()
    assert [10] == await outcomes(*puts(runner, 1))
    await runner.close()
