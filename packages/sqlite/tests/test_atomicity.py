"""Business row, job, keyed event, notify and saved offset share one fate."""

import asyncio
import gc
import json

import pytest
import pytest_asyncio
from sqlalchemy import text

from alkstore_core import DatabaseError
from alkstore_sqlite import SqliteStore

HANDLES = ["begin_tx", "begin_tx_block"]
BLOCKS = ["with_tx", "transaction"]
JOINED = ["AsyncSession", "AsyncConnection", "Session", "Connection"]

NOTHING = {"orders": 0, "jobs": 0, "events": [], "offset": 0, "wakes": []}
ALL = {"orders": 1, "jobs": 1, "events": ["tea"], "offset": 7, "wakes": [1]}


class Witness:
    """The other process, as a test sees it."""

    def __init__(self, child, store) -> None:
        self._child = child
        self._store = store

    async def glance(self) -> list[int]:
        """What has woken it so far, after time enough for 30 looks at the file."""
        self._child.tell("glance")
        return json.loads(await self._child.expect("glanced"))

    async def woken(self) -> None:
        """Return when the commit alone, nothing that came later, has woken it."""
        self._child.tell("await")
        await self._child.expect("woken")

    async def traces(self) -> dict:
        """What it sees of the five, once a later notify has reached it."""
        self._child.tell("look")
        await self._store.notify("fence", None)
        traces = json.loads(await self._child.expect("looked"))
        # A wake is a hint: it may come twice.
        return {**traces, "wakes": sorted(set(traces["wakes"]))}


@pytest.fixture(scope="module")
def witness_processes(spawn_for_module):
    """One process for all tests, to which each shows a file of its own; renewed if it fails."""
    processes = []

    async def take():
        if not processes or processes[-1].process.poll() is not None:
            processes.append(spawn_for_module("witness.py"))
            await processes[-1].expect("ready")
        return processes[-1]

    return take


@pytest_asyncio.fixture
async def store(path, sql):
    """A store beside a business table in one file."""
    sql("CREATE TABLE orders (item TEXT NOT NULL)")
    async with SqliteStore(path) as store:
        yield store


@pytest_asyncio.fixture
async def witness(witness_processes, store, path):
    """Another process that has this test's file open and listens."""
    process = await witness_processes()
    process.tell("watch", path)
    await process.expect("watching")
    yield Witness(process, store)
    process.tell("leave")
    await process.expect("left", within=10)


async def ended(coroutine, reached=None) -> str:
    """How a task ended, which is cancelled once `reached` is set; its frames are gone."""
    task = asyncio.create_task(coroutine)
    if reached is not None:
        async with asyncio.timeout(10):
            await reached.wait()
        task.cancel()
    [error] = await asyncio.gather(task, return_exceptions=True)
    return type(error).__name__


@pytest.mark.parametrize("way", HANDLES + BLOCKS + JOINED)
async def test_a_commit_shows_all_five_to_another_process(way, ways, store, path, witness):
    """All five are there after the commit, none is before, and the commit is what wakes."""

    async def inside(_owner) -> bool:
        assert [] == await witness.glance()
        return True

    await ways.WAYS[way](store, path, inside)
    await witness.woken()

    assert ALL == await witness.traces()


@pytest.mark.parametrize("way", HANDLES + JOINED)
async def test_a_rollback_leaves_none_of_the_five(way, ways, store, path, witness):
    """A transaction that was rolled back has left nothing."""

    async def inside(owner) -> bool:
        await ways.settled(owner.rollback())
        return False

    await ways.WAYS[way](store, path, inside)

    assert NOTHING == await witness.traces()


@pytest.mark.parametrize("way", HANDLES + BLOCKS + JOINED)
async def test_an_exception_leaves_none_of_the_five(way, ways, store, path, witness):
    """The caller's own exception comes out as it was and has undone everything."""

    async def inside(_owner) -> bool:
        raise ZeroDivisionError("the caller's")

    how = await ended(ways.WAYS[way](store, path, inside))
    gc.collect()  # the error, its traceback and the frames in it refer to each other

    assert "ZeroDivisionError" == how
    assert NOTHING == await witness.traces()


@pytest.mark.parametrize("way", ["begin_tx", *JOINED])
async def test_a_dropped_handle_leaves_none_of_the_five(way, ways, store, path, witness):
    """Losing the last reference without a commit undoes everything."""

    async def inside(_owner) -> bool:
        return False

    await ways.WAYS[way](store, path, inside)
    gc.collect()

    assert NOTHING == await witness.traces()


@pytest.mark.parametrize("way", HANDLES + BLOCKS + JOINED)
async def test_a_cancellation_leaves_none_of_the_five(way, ways, store, path, witness):
    """A task cancelled inside its transaction has undone everything."""
    reached = asyncio.Event()

    async def inside(_owner) -> bool:
        reached.set()
        return await asyncio.Event().wait()

    how = await ended(ways.WAYS[way](store, path, inside), reached)
    gc.collect()

    assert "CancelledError" == how
    assert NOTHING == await witness.traces()


@pytest.mark.parametrize("way", HANDLES + BLOCKS + JOINED)
async def test_a_kill_before_the_commit_leaves_none_of_the_five(way, store, path, witness, spawn):
    """SIGKILL between the last write and the commit leaves nothing and blocks nobody."""
    child = spawn("five.py", path, way)
    await child.expect("written")
    child.kill()

    assert NOTHING == await witness.traces()


async def test_with_tx_returns_what_its_function_returns(store):
    """The function's value is the call's value, once everything is committed."""
    job_id = await store.with_tx(lambda tx: tx.enqueue_tx("mail", "tea"))

    assert b'"tea"' == (await store.queue("mail").get_job(job_id)).payload


@pytest.mark.parametrize("kind", JOINED)
async def test_a_released_savepoint_goes_with_the_outer_rollback(kind, ways, store, path, witness):
    """What was written inside a released savepoint is undone by the outer rollback."""
    async with ways.owner_of(kind, path) as owner:
        await ways.settled(owner.begin())
        tx = store.join(owner)
        savepoint = await ways.settled(owner.begin_nested())
        await ways.write_five(tx, owner.execute)
        await ways.settled(savepoint.commit())
        await ways.settled(owner.rollback())

    assert NOTHING == await witness.traces()


@pytest.mark.parametrize("kind", JOINED)
async def test_a_rolled_back_savepoint_takes_only_its_own_writes(kind, ways, store, path, witness):
    """Writes before a rolled-back savepoint are committed, those inside it are not."""
    async with ways.owner_of(kind, path) as owner:
        await ways.settled(owner.begin())
        tx = store.join(owner)
        await ways.write_five(tx, owner.execute)
        savepoint = await ways.settled(owner.begin_nested())
        await ways.settled(tx.enqueue_tx("mail", "inner"))
        await ways.settled(tx.publish_with_key_tx("sales", "inner", "inner"))
        await ways.settled(tx.save_offset_tx("sales", "audit", 9))
        await ways.settled(savepoint.rollback())
        await ways.settled(owner.commit())
    await witness.woken()

    assert ALL == await witness.traces()


@pytest.mark.parametrize("kind", JOINED)
async def test_a_joined_transaction_may_begin_by_itself(kind, ways, store, path, witness):
    """`join` works with the transaction that SQLAlchemy begins at the first statement."""
    async with ways.owner_of(kind, path) as owner:
        await ways.settled(owner.execute(text("SELECT count(*) FROM orders")))
        await ways.write_five(store.join(owner), owner.execute)
        await ways.settled(owner.commit())
    await witness.woken()

    assert ALL == await witness.traces()


@pytest.mark.parametrize("kind", JOINED)
async def test_a_joined_transaction_reads_its_own_writes(kind, ways, store, path):
    """Reads on the joined object see what the transaction wrote; others do not yet."""
    async with ways.owner_of(kind, path) as owner:
        await ways.settled(owner.begin())
        tx = store.join(owner)
        job_id = await ways.settled(tx.enqueue_tx("mail", "tea"))
        await ways.settled(tx.publish_with_key_tx("sales", "tea", 1))
        await ways.settled(tx.save_offset_tx("sales", "audit", 7))

        job = await ways.settled(tx.get_job_tx("mail", job_id))
        events = await ways.settled(tx.read_since_tx("sales", 0, 10))
        offset = await ways.settled(tx.get_offset_tx("sales", "audit"))
        unread = await ways.settled(tx.read_from_consumer_tx("sales", "audit", 10))
        outside = await store.queue("mail").get_job(job_id)
        await ways.settled(owner.rollback())

    assert b'"tea"' == job.payload
    assert [("tea", b"1")] == [(event.key, event.payload) for event in events]
    assert 7 == offset
    assert [] == unread
    assert outside is None


@pytest.mark.parametrize("kind", JOINED)
async def test_a_joined_object_has_no_commit(kind, ways, store, path):
    """Whether a joined transaction commits is its owner's business alone."""
    async with ways.owner_of(kind, path) as owner:
        await ways.settled(owner.begin())
        tx = store.join(owner)
        await ways.settled(owner.rollback())

    assert not hasattr(tx, "commit")
    assert not hasattr(tx, "rollback")


@pytest.mark.parametrize("kind", JOINED)
async def test_an_unprepared_engine_is_refused(kind, ways, store, path, witness):
    """An engine that `prepare_engine` has not touched cannot be joined; the error names it."""

    async def join_and_write(owner) -> None:
        await ways.settled(store.join(owner).enqueue_tx("mail", "tea"))

    async with ways.owner_of(kind, path, prepared=False) as owner:
        await ways.settled(owner.begin())
        with pytest.raises(DatabaseError, match="prepare_engine"):
            await join_and_write(owner)
        await ways.settled(owner.commit())

    assert NOTHING == await witness.traces()


@pytest.mark.parametrize("kind", JOINED)
async def test_a_transaction_on_another_file_is_refused(kind, ways, store, path, tmp_path):
    """A transaction on another file cannot carry this store's rows, even with its tables."""
    other = tmp_path / "other.db"
    async with SqliteStore(other):
        pass

    async def join_and_write(owner) -> None:
        await ways.settled(store.join(owner).enqueue_tx("mail", "tea"))

    async with ways.owner_of(kind, other) as owner:
        await ways.settled(owner.begin())
        with pytest.raises(DatabaseError, match=r"other\.db"):
            await join_and_write(owner)
        await ways.settled(owner.commit())

    async with SqliteStore(other) as elsewhere:
        assert [] == await elsewhere.queue("mail").jobs()


@pytest.mark.parametrize("ending", ["commit", "rollback"])
@pytest.mark.parametrize("kind", JOINED)
async def test_an_ended_transaction_carries_nothing(kind, ending, ways, store, path, witness):
    """A joined object ends with its transaction, also when its owner begins another one."""
    async with ways.owner_of(kind, path) as owner:
        await ways.settled(owner.begin())
        tx = store.join(owner)
        await ways.settled(tx.get_offset_tx("sales", "audit"))
        await ways.settled(getattr(owner, ending)())
        with pytest.raises(DatabaseError):
            await ways.settled(tx.enqueue_tx("mail", "tea"))

        await ways.settled(owner.begin())
        with pytest.raises(DatabaseError):
            await ways.settled(tx.enqueue_tx("mail", "tea"))
        await ways.settled(owner.commit())

    assert NOTHING == await witness.traces()


async def test_a_file_is_the_same_under_another_name(ways, store, path, monkeypatch):
    """An engine that reaches the store's file by a relative path or a link can be joined."""
    monkeypatch.chdir(path.parent)
    (path.parent / "link.db").symlink_to(path)

    for name in ("app.db", "link.db"):
        async with ways.owner_of("AsyncConnection", name) as owner:
            await store.join(owner).enqueue_tx("mail", name)
            await owner.commit()

    assert [
        b'"app.db"',
        b'"link.db"',
    ] == [job.payload for job in await store.queue("mail").jobs()]
