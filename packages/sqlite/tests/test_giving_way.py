"""Transactions that follow each other closely leave the lock to other processes now and then."""

import sqlite3

import pytest
from sqlalchemy import text

from alkstore_sqlite import prepare, transactions
from alkstore_sqlite.prepare import BEGIN

WITHOUT_GAPS = [(0.06, 0.0, 4, 3), (0.02, 0.0, 4, 1)]
POOLED = pytest.mark.parametrize(
    ("seconds", "gap", "count", "pauses"),
    [*WITHOUT_GAPS, (0.06, 0.004, 4, 0), (0.002, 0.001, 60, 0)],
    ids=["each is long", "together they are long", "long gaps", "enough of short gaps"],
)
KEPT = pytest.mark.parametrize(
    ("seconds", "gap", "count", "pauses"),
    [*WITHOUT_GAPS, (0.06, 0.06, 4, 0)],
    ids=["each is long", "together they are long", "long gaps"],
)


class Time:
    """A clock that stands still until a test moves it, and the pauses that were asked for."""

    def __init__(self):
        self.now = 1_000.0
        self.pauses = []

    def monotonic(self):
        """The moment."""
        return self.now

    def slept(self, _, seconds):
        """A pause that takes no time."""
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def time(monkeypatch):
    """The time by which engines and stores give way."""
    time = Time()
    monkeypatch.setattr(prepare, "time", time)
    monkeypatch.setattr(prepare, "_sleep", time.slept)
    monkeypatch.setattr(transactions, "time", time)
    return time


async def transact(owner, kind, time, seconds):
    """One transaction of so many seconds on an application's session or connection."""
    begun = owner.execute(text("SELECT 1")) if kind.endswith("Session") else owner.begin()
    if kind.startswith("Async"):
        await begun
    time.now += seconds
    ended = owner.commit()
    if ended is not None:
        await ended


@POOLED
@pytest.mark.parametrize("kind", ["AsyncSession", "Session"])
async def test_a_prepared_engine_gives_way(path, ways, time, kind, seconds, gap, count, pauses):
    """After each transaction its connection goes back to the pool."""
    async with ways.owner_of(kind, path) as owner:
        for _ in range(count):
            await transact(owner, kind, time, seconds)
            time.now += gap

    assert pytest.approx([0.003] * pauses) == time.pauses


@KEPT
@pytest.mark.parametrize("kind", ["AsyncConnection", "Connection"])
async def test_a_kept_connection_gives_way(path, ways, time, kind, seconds, gap, count, pauses):
    """Nobody tells when its COMMIT was through, so a gap has to be a long one."""
    async with ways.owner_of(kind, path) as owner:
        for _ in range(count):
            await transact(owner, kind, time, seconds)
            time.now += gap

    assert pytest.approx([0.003] * pauses) == time.pauses


@POOLED
@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_a_store_gives_way(store, monkeypatch, time, end, seconds, gap, count, pauses):
    """Its own transactions do, however they end."""
    asked = []
    streak = store._runtime.engine._transactions._streak
    pause = streak.pause
    monkeypatch.setattr(streak, "pause", lambda now: asked.append(pause(now)) or asked[-1])
    for _ in range(count):
        tx = await store.begin_tx()
        time.now += seconds
        await getattr(tx, end)()
        time.now += gap

    assert pytest.approx([0.003] * pauses) == [seconds for seconds in asked if seconds]


async def test_who_had_to_wait_has_given_way(path, ways, time):
    """Others had the lock just then."""
    other = sqlite3.connect(path, isolation_level=None)

    def let_go(_, seconds):
        time.pauses.append(seconds)
        time.now += 0.01
        other.execute("ROLLBACK")

    async with ways.owner_of("Session", path) as owner:
        await transact(owner, "Session", time, 0.04)
        other.execute(BEGIN)
        prepare._sleep = let_go
        await transact(owner, "Session", time, 0.02)
        await transact(owner, "Session", time, 0.02)
        await transact(owner, "Session", time, 0.02)
    other.close()

    assert 1 == len(time.pauses)


@pytest.mark.parametrize("kind", ["Session", "Connection"])
async def test_a_slow_commit_is_no_gap(path, ways, time, kind):
    """On a slow disk others wait for its end as well."""
    async with ways.owner_of(kind, path) as owner:
        dialect = owner.get_bind().dialect if kind == "Session" else owner.dialect
        commit = dialect.do_commit

        def slowly(connection):
            time.now += 0.02
            commit(connection)

        dialect.do_commit = slowly
        for _ in range(4):
            await transact(owner, kind, time, 0.04)

    assert pytest.approx([0.003] * (3 if kind == "Session" else 1)) == time.pauses
