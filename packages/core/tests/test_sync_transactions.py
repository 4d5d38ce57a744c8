"""Transactions of code that blocks: how they end, also when nobody ends them."""

import gc
import threading

import pytest

from alkstore_core import AlkstoreError, Closed, DatabaseError


def fail_in(tx, kind):
    """Do something, and raise."""
    tx.enqueue_tx("q", "tea")
    raise kind("mine")


def test_a_block_that_ends_well_commits(blocking):
    """All of it is there after the block, and nothing before."""
    with blocking.transaction() as tx:
        job_id = tx.enqueue_tx("q", "tea")
        tx.publish_tx("s", "tea")
        assert blocking.queue("q").get_job(job_id) is None

    assert blocking.queue("q").get_job(job_id)
    assert 1 == blocking.stream("s").bounds().count


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_block_left_by_an_exception_rolls_back(engine, blocking, kind):
    """Whatever leaves the block, nothing of it stays, and the exception goes on."""
    with pytest.raises(kind), blocking.transaction() as tx:
        fail_in(tx, kind)

    assert {} == engine.data.jobs
    assert set() == engine.open_transactions


def test_begin_tx_rolls_back_unless_committed(engine, blocking):
    """The end of a `begin_tx` block is a rollback; after `commit` it does nothing."""
    with blocking.begin_tx() as tx:
        tx.enqueue_tx("q", "lost")
    with blocking.begin_tx() as tx:
        tx.enqueue_tx("q", "kept")
        tx.commit()
    with pytest.raises(ValueError, match="mine"), blocking.begin_tx() as tx:
        fail_in(tx, ValueError)

    assert ["kept"] == [job.payload_as(str) for job in blocking.queue("q").jobs()]
    assert set() == engine.open_transactions


def test_with_tx_gives_the_functions_value(blocking):
    """The function's result comes back once everything is committed."""
    job_id = blocking.with_tx(lambda tx: tx.enqueue_tx("q", "tea"))

    assert "tea" == blocking.queue("q").get_job(job_id).payload_as(str)


def test_with_tx_rolls_back_what_raised(engine, blocking):
    """An error of the function undoes what it did."""
    with pytest.raises(ValueError, match="mine"):
        blocking.with_tx(lambda tx: fail_in(tx, ValueError))
    assert {} == engine.data.jobs


def test_every_call_of_a_transaction(blocking):
    """Each `*_tx` call does in the transaction what its name says."""
    with blocking.transaction() as tx:
        first = tx.enqueue_tx("q", 1)
        assert [first + 1, first + 2] == tx.enqueue_many_tx("q", [2, 3])
        tx.outbox_enqueue_tx("o", "mail")
        offset = tx.publish_tx("s", 1, {"h": "1"})
        keyed = tx.publish_with_key_tx("s", "k", 2)
        (last,) = tx.publish_many_tx("s", [3])
        tx.notify_tx("c")
        tx.save_offset_tx("s", "me", offset)
        assert 1 == tx.get_job_tx("q", first).payload_as(int)
        assert offset == tx.get_offset_tx("s", "me")
        assert [offset, keyed, last] == [e.offset for e in tx.read_since_tx("s", 0, 9)]
        assert ["k", None] == [e.key for e in tx.read_from_consumer_tx("s", "me", 9)]

    assert 3 == blocking.queue("q").stats().ready
    assert ["o"] == blocking.outboxes()


def test_call_reaches_the_asynchronous_handle(blocking):
    """What only coroutines can do in a transaction is done by `call`."""
    with blocking.transaction() as tx:
        job_id = tx.call(lambda inner: inner.enqueue_tx("q", "tea"))

    assert blocking.queue("q").get_job(job_id)


def test_a_refused_call_leaves_the_transaction_usable(blocking):
    """A bad name is refused before the database is asked; the rest commits."""
    with blocking.transaction() as tx:
        with pytest.raises(AlkstoreError):
            tx.enqueue_tx("", 1)
        tx.enqueue_tx("q", 1)

    assert 1 == blocking.queue("q").stats().ready


def test_a_failed_call_leaves_nothing_to_commit(engine, blocking):
    """After an error of the database the commit is an error, not a half of the work."""
    engine.faults["insert_jobs"].append(DatabaseError("disk full"))
    tx = blocking.begin_tx()
    with pytest.raises(DatabaseError, match="disk full"):
        tx.enqueue_tx("q", 1)
    with pytest.raises(DatabaseError, match="nothing was committed"):
        tx.commit()

    assert {} == engine.data.jobs


def test_a_handle_may_be_used_from_another_thread(blocking):
    """Threads may hand a transaction on; their calls take turns."""
    with blocking.transaction() as tx:
        threads = [threading.Thread(target=tx.enqueue_tx, args=("q", n)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)

    assert 3 == blocking.queue("q").stats().ready


@pytest.fixture
def without_collector():
    """What is freed is freed by its last reference, not by the collector."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collector")
def test_a_lost_handle_is_rolled_back(engine, blocking):
    """Without its last reference a transaction is over, and the same thread writes at once."""
    tx = blocking.begin_tx()
    tx.enqueue_tx("q", "lost")
    del tx

    assert 1 == blocking.queue("q").enqueue("next")
    assert set() == engine.open_transactions


@pytest.mark.usefixtures("without_collector")
def test_a_handle_lost_to_an_error_is_rolled_back(engine, blocking):
    """No traceback of a call that failed keeps the transaction alive once it is handled."""

    def fail():
        tx = blocking.begin_tx()
        tx.enqueue_tx("q", "lost")
        tx.enqueue_tx("q", float("nan"))

    with pytest.raises(AlkstoreError):
        fail()

    blocking.queue("q").enqueue("next")
    assert set() == engine.open_transactions


def test_closing_the_store_rolls_back(engine, blocking):
    """A transaction that is open at the close is undone, and its handle says so."""
    tx = blocking.begin_tx()
    tx.enqueue_tx("q", "lost")

    blocking.close()

    assert {} == engine.data.jobs
    with pytest.raises(Closed):
        tx.enqueue_tx("q", "more")
