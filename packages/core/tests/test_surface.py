"""The surface is the contract's, name by name, and nothing that the contract leaves out."""

import inspect

import pytest

import alkstore_core
from alkstore_core import DatabaseError, ManualClock, Store
from alkstore_core.jobs import JobHandle
from alkstore_core.locks import Lock
from alkstore_core.outboxes import Outbox
from alkstore_core.queues import JobSource, Queue
from alkstore_core.sql.join import JoinedSyncTx, JoinedTx
from alkstore_core.sql.store import SqlStore, SqlTxHandle
from alkstore_core.stop import StopToken
from alkstore_core.streams import EventReceiver, StreamHandle
from alkstore_core.transactions import TxHandle
from alkstore_core.wakes import WakeReceiver

JOB_SOURCE = {
    "claim_one": "worker_id",
    "claim_batch": "worker_id, n",
    "ack_batch": "handles_or_ids, worker_id",
    "release_batch": "handles",
    "heartbeat_batch": "handles, extend",
    "cancel": "job_id",
    "get_job": "job_id",
    "sweep_expired": "",
    "wakes": "stop=None",
    "stats": "",
    "jobs": "state=None, limit=100, after_id=0",
    "dead_jobs": "limit=100, after_id=0",
    "redrive": "job_id",
    "purge_dead": "before=None",
}

TX = {
    "enqueue_tx": "queue, payload, opts=None",
    "enqueue_many_tx": "queue, payloads, opts=None",
    "outbox_enqueue_tx": "outbox, payload, opts=None",
    "publish_tx": "stream, payload, headers=None",
    "publish_with_key_tx": "stream, key, payload, headers=None",
    "publish_many_tx": "stream, payloads",
    "notify_tx": "channel, payload=None",
    "save_offset_tx": "stream, consumer, offset",
    "get_job_tx": "queue, job_id",
    "get_offset_tx": "stream, consumer",
    "read_since_tx": "stream, offset, limit",
    "read_from_consumer_tx": "stream, consumer, limit",
}

SURFACE = {
    Store: {
        "open": "",
        "close": "",
        "queue": "name, opts=None",
        "stream": "name",
        "outbox": "name",
        "notify": "channel, payload=None",
        "listen": "channel, stop=None",
        "try_lock": "name, owner, ttl",
        "schedule": "name, spec, queue, payload, opts=None",
        "unschedule": "name",
        "run_schedules": "stop",
        "schedules": "",
        "queues": "",
        "streams": "",
        "outboxes": "",
        "locks": "",
        "diagnose": "",
        "begin_tx": "",
        "with_tx": "f",
        "transaction": "",
    },
    Lock: {"renew": "ttl", "release": ""},
    JobSource: JOB_SOURCE,
    Queue: {
        **JOB_SOURCE,
        "enqueue": "payload, opts=None",
        "enqueue_many": "payloads, opts=None",
    },
    JobHandle: {
        "ack": "",
        "retry": "err=None, delay=None",
        "fail": "err=None",
        "heartbeat": "extend",
        "release": "",
    },
    StreamHandle: {
        "publish": "payload, headers=None",
        "publish_with_key": "key, payload, headers=None",
        "publish_many": "payloads",
        "read_since": "offset, limit",
        "read_from_consumer": "consumer, limit",
        "save_offset": "consumer, offset",
        "get_offset": "consumer",
        "trim_to": "horizon",
        "subscribe": "consumer, stop=None",
        "consumers": "",
        "bounds": "",
    },
    EventReceiver: {"recv": "", "save_offset": "", "close": ""},
    WakeReceiver: {"recv": "", "close": ""},
    Outbox: {"enqueue": "payload, opts=None", "run_once": "worker_id, delivery"},
    TxHandle: {**TX, "commit": "", "rollback": ""},
    JoinedTx: TX,
    JoinedSyncTx: TX,
    SqlStore: {"join": "transaction"},
    ManualClock: {"advance": "seconds", "now": "", "sleep_until": "t"},
    StopToken: {"stop": ""},
}

READABLE = {
    JobHandle: "job",
    Lock: "token",
    Outbox: "backing",
    SqlTxHandle: "connection",
    StopToken: "stopped",
}


def parameters(function):
    """Names and defaults, without `self` and types."""
    found = list(inspect.signature(function).parameters.values())[1:]
    return ", ".join(
        p.name if p.default is inspect.Parameter.empty else f"{p.name}={p.default!r}" for p in found
    )


@pytest.mark.parametrize("kind", SURFACE, ids=lambda kind: kind.__name__)
def test_the_contracts_names_and_signatures_are_there(kind):
    """Each method of the contract's list exists under its name and takes what is listed."""
    expected = SURFACE[kind]

    assert expected == {name: parameters(getattr(kind, name)) for name in expected}


@pytest.mark.parametrize("kind", READABLE, ids=lambda kind: kind.__name__)
def test_the_contracts_properties_are_there(kind):
    """What the contract lists without parentheses is read, not called."""
    assert isinstance(inspect.getattr_static(kind, READABLE[kind]), property)


@pytest.mark.parametrize("kind", [WakeReceiver, EventReceiver], ids=lambda kind: kind.__name__)
def test_receivers_are_iterators_and_context_managers(kind):
    """A receiver is used with `async for` and `async with`."""
    for method in ("__aiter__", "__anext__", "__aenter__", "__aexit__"):
        assert callable(getattr(kind, method))


ABSENT = {
    "claim_tx": (TxHandle, JoinedTx, JoinedSyncTx),
    "claim_one_tx": (TxHandle, JoinedTx, JoinedSyncTx),
    "claim_batch_tx": (TxHandle, JoinedTx, JoinedSyncTx),
    "lock_tx": (TxHandle, JoinedTx, JoinedSyncTx),
    "try_lock_tx": (TxHandle, JoinedTx, JoinedSyncTx),
    "commit": (JoinedTx, JoinedSyncTx),
    "rollback": (JoinedTx, JoinedSyncTx),
    "enqueue": (JobSource,),
    "enqueue_many": (JobSource,),
    "capabilities": (Store, SqlStore),
    "supports": (Store, SqlStore),
}


@pytest.mark.parametrize("name", ABSENT)
def test_deliberate_absences_are_absent(name):
    """What the contract leaves out on purpose has not crept in."""
    assert [] == [kind.__name__ for kind in ABSENT[name] if hasattr(kind, name)]


def test_a_subscription_cannot_be_told_to_save_by_itself():
    """There is no auto-saving subscription: `subscribe` takes a consumer and a stop token."""
    assert "consumer, stop=None" == parameters(StreamHandle.subscribe)


def test_everything_that_is_exported_exists():
    """Each name of `__all__` can be imported."""
    assert [] == [n for n in alkstore_core.__all__ if not hasattr(alkstore_core, n)]


BULK = {
    "enqueue_many": lambda target, many: target.queue("q").enqueue_many(many),
    "publish_many": lambda target, many: target.stream("s").publish_many(many),
    "enqueue_many_tx": lambda target, many: target.enqueue_many_tx("q", many),
    "publish_many_tx": lambda target, many: target.publish_many_tx("s", many),
}


@pytest.fixture
async def target(request, store):
    """The store, or a handle for calls of a transaction."""
    if not request.node.callspec.params["call"].endswith("_tx"):
        yield store
        return
    async with store.begin_tx() as tx:
        yield tx


@pytest.mark.parametrize("call", BULK)
async def test_bulk_forms_cost_one_round_trip(engine, target, call):
    """Three payloads are one primitive of the engine; numbers come in input order."""
    engine.calls.clear()

    assert [1, 2, 3] == await BULK[call](target, ["a", "b", "c"])

    assert ["insert_jobs" if "enqueue" in call else "append"] == list(engine.calls)


@pytest.mark.parametrize("given", [None, 5, "text", b"bytes", {"a": 1}])
@pytest.mark.parametrize("call", BULK)
async def test_what_is_no_collection_is_refused(engine, target, call, given):
    """A bulk form that is given one thing raises before the engine is asked."""
    engine.calls.clear()

    with pytest.raises(DatabaseError, match="payloads must be a sequence") as caught:
        await BULK[call](target, given)

    assert isinstance(caught.value.__cause__, TypeError)
    assert [] == list(engine.calls)
