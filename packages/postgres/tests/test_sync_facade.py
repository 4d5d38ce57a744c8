"""The blocking facade on Postgres: jobs, a wake, your own session, and a transaction."""

import threading

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from alkstore_core.sync import SyncStore
from alkstore_postgres import PostgresStore


@pytest.fixture
def store(postgres_url):
    """An open store whose calls block."""
    with SyncStore(PostgresStore(postgres_url)) as store:
        yield store


def test_jobs_go_round(store):
    """What is enqueued wakes a thread that waits, which claims and acknowledges it."""
    queue = store.queue("mails")
    done = []

    def work():
        with queue.wakes() as wakes:
            ready.set()
            while (handle := queue.claim_one("w")) is None:
                wakes.recv(timeout=10)
            done.append((handle.job.payload_as(dict), handle.ack()))

    ready = threading.Event()
    thread = threading.Thread(target=work)
    thread.start()
    assert ready.wait(10)
    queue.enqueue({"to": "ada"})
    thread.join(10)

    assert [({"to": "ada"}, True)] == done
    assert [] == store.queues()


def test_your_own_session_is_joined(postgres_url, store):
    """A blocking session on psycopg carries the store's calls."""
    engine = create_engine(postgres_url.replace("postgresql://", "postgresql+psycopg://", 1))
    with store.listen("c") as wakes:
        with Session(engine) as session, session.begin():
            store.join(session).enqueue_tx("mails", "tea")
            store.join(session).notify_tx("c")
        assert "c" == wakes.recv(timeout=10).channel
    engine.dispose()

    assert 1 == store.queue("mails").stats().ready


def test_rows_ride_in_the_facades_transaction(store):
    """A block that is left by an error leaves neither rows nor jobs nor a connection in use."""
    create = text("CREATE TABLE orders (item TEXT)")

    def place(item):
        with store.transaction() as tx:
            tx.call(lambda tx: tx.connection.execute(create))
            tx.enqueue_tx("mails", item)
            return 1 / len(item)

    with pytest.raises(ZeroDivisionError):
        place("")
    place("tea")

    assert 1 == store.queue("mails").stats().ready


def test_writes_beside_a_transaction(store):
    """Many write at once here, so a thread may write beside its own transaction."""
    with store.transaction() as tx:
        tx.enqueue_tx("q", 1)
        store.queue("q").enqueue(2)

    assert 2 == store.queue("q").stats().ready
