"""The blocking facade has the whole asynchronous surface, call by call, and says what it adds."""

import inspect
import re

import pytest

from alkstore_core import sync
from alkstore_core.jobs import JobHandle
from alkstore_core.locks import Lock
from alkstore_core.outboxes import Outbox
from alkstore_core.queues import JobSource, Queue
from alkstore_core.store import Store
from alkstore_core.streams import EventReceiver, StreamHandle
from alkstore_core.transactions import TxHandle
from alkstore_core.wakes import WakeReceiver

PAIRS = {
    Store: sync.SyncStore,
    JobSource: sync.SyncJobSource,
    Queue: sync.SyncQueue,
    JobHandle: sync.SyncJobHandle,
    StreamHandle: sync.SyncStreamHandle,
    EventReceiver: sync.SyncEventReceiver,
    WakeReceiver: sync.SyncWakeReceiver,
    Outbox: sync.SyncOutbox,
    Lock: sync.SyncLock,
    TxHandle: sync.SyncTxHandle,
}
each_pair = pytest.mark.parametrize("kind", PAIRS, ids=lambda kind: kind.__name__)

# What a caller that blocks has no use for.
LEFT_OUT = {
    Store: {
        "check": "for runners, on the loop",
        "mark": "for runners, on the loop",
        "sleep_until": "for runners, on the loop",
    },
    JobHandle: {
        "claim": "for batch calls, which unwrap the handle",
        "may_settle": "for batch calls, which unwrap the handle",
        "mark_settled": "for batch calls, which unwrap the handle",
        "on_heartbeat": "for workers, which run on the loop",
    },
    Queue: {"spec": "for transactions, which unwrap the handle"},
    WakeReceiver: {"end": "for the store that closes"},
    EventReceiver: {"end": "for the store that closes"},
}

ADDED = {
    Store: {"call", "join", "run", "wrapped"},
    JobHandle: {"wrapped"},
    Queue: {"wrapped"},
    WakeReceiver: {"until_idle"},
    EventReceiver: {"until_idle"},
    TxHandle: {"call"},
}

DIFFERENT = {
    (WakeReceiver, "recv"): "(self, timeout: 'float | None' = None) -> 'T | None'",
    (EventReceiver, "recv"): "(self, timeout: 'float | None' = None) -> 'StreamEvent | None'",
}

NAMES = sorted({kind.__name__ for kind in PAIRS} | {"Delivery", "Transaction"}, key=len)


def public(kind):
    """The public names of a class."""
    return {name for name in dir(kind) if not name.startswith("_")}


def signature(kind, name):
    """How a member is used, without what `self` has to be."""
    member = inspect.getattr_static(kind, name)
    if isinstance(member, property):
        return f"property{inspect.signature(member.fget)}"
    return re.sub(r"self: '[^']+'", "self", str(inspect.signature(member)))


def translated(text):
    """An asynchronous signature as it should be where calls block."""
    text = re.sub(r"(Attaching|Awaitable)\[(\w+)\]", r"\2", text)
    text = re.sub(r"BeginTx\[(\w+)\]", r"\1", text)
    text = text.replace("[TxHandle]'", "'")
    return re.sub(rf"\b({'|'.join(NAMES)})\b", r"Sync\1", text)


@each_pair
def test_nothing_is_missing_and_nothing_is_added_unsaid(kind):
    """Each public name of the asynchronous class is there, beside those that are listed here."""
    expected = public(kind) - LEFT_OUT.get(kind, {}).keys() | ADDED.get(kind, set())

    assert expected == public(PAIRS[kind])


@each_pair
def test_calls_take_and_give_the_same(kind):
    """Parameters, defaults, annotations and results are the asynchronous ones, unwrapped."""
    for name in public(kind) - LEFT_OUT.get(kind, {}).keys():
        expected = DIFFERENT.get((kind, name)) or translated(signature(kind, name))

        assert expected == signature(PAIRS[kind], name).replace(
            "SyncTxHandle[H]", "SyncTxHandle"
        ).replace("SyncTransaction[H]", "SyncTransaction"), name


@each_pair
def test_no_call_is_a_coroutine(kind):
    """Each call blocks."""
    facade = PAIRS[kind]

    assert [] == [n for n in public(facade) if inspect.iscoroutinefunction(getattr(facade, n))]


@each_pair
def test_what_is_used_in_blocks_and_loops_is_so_here(kind):
    """`async with` is `with`, and `async for` is `for`."""
    for asynchronous, blocking in [("__aenter__", "__enter__"), ("__aiter__", "__iter__")]:
        if hasattr(kind, asynchronous):
            assert hasattr(PAIRS[kind], blocking)


def test_everything_is_exported():
    """The facade's classes can be imported from its package."""
    assert set(sync.__all__) >= {kind.__name__ for kind in PAIRS.values()}
    assert [] == [name for name in sync.__all__ if not hasattr(sync, name)]
