"""Names are checked at every entry, before anything is opened or written."""

import pytest

from alkstore_core import InvalidName, ReservedName, Store

BAD = ["", " \t", "a\0b", "\ud800", "ä" * 128, 7, None]
RESERVED = ["__alkstore_", "__alkstore_outbox:o", "__alkstore_listener_reconnected__"]


def named_calls(store, tx):
    """Each entry that takes one of the six kinds of name."""
    return [
        store.queue,
        store.stream,
        store.outbox,
        store.listen,
        lambda name: store.notify(name, 1),
        lambda name: store.try_lock(name, "o", 1),
        lambda name: store.schedule(name, "@every 1s", "q", 1),
        lambda name: store.schedule("s", "@every 1s", name, 1),
        store.unschedule,
        lambda name: tx.enqueue_tx(name, 1),
        lambda name: tx.enqueue_many_tx(name, [1]),
        lambda name: tx.outbox_enqueue_tx(name, 1),
        lambda name: tx.publish_tx(name, 1),
        lambda name: tx.publish_with_key_tx(name, "k", 1),
        lambda name: tx.publish_many_tx(name, [1]),
        lambda name: tx.notify_tx(name, 1),
        lambda name: tx.save_offset_tx(name, "c", 1),
        lambda name: tx.get_job_tx(name, 1),
        lambda name: tx.get_offset_tx(name, "c"),
        lambda name: tx.read_since_tx(name, 0, 1),
        lambda name: tx.read_from_consumer_tx(name, "c", 1),
    ]


def labelled_calls(store, tx):
    """Each entry that takes a worker id, an owner, a consumer or a key."""

    async def deliver(_):
        return None

    return [
        lambda label: store.queue("q").claim_one(label),
        lambda label: store.queue("q").claim_batch(label, 0),
        lambda label: store.queue("q").ack_batch([], label),
        lambda label: store.outbox("o").run_once(label, deliver),
        lambda label: store.try_lock("l", label, 1),
        lambda label: store.stream("s").publish_with_key(label, 1),
        lambda label: store.stream("s").read_from_consumer(label, 0),
        lambda label: store.stream("s").save_offset(label, 1),
        lambda label: store.stream("s").get_offset(label),
        store.stream("s").subscribe,
        lambda label: tx.publish_with_key_tx("s", label, 1),
        lambda label: tx.save_offset_tx("s", label, 1),
        lambda label: tx.get_offset_tx("s", label),
        lambda label: tx.read_from_consumer_tx("s", label, 1),
    ]


async def refused(call, name, error):
    """A call raises, plain or awaited."""
    with pytest.raises(error):
        await call(name)


@pytest.mark.parametrize("name", BAD)
async def test_bad_names_are_invalid_everywhere(engine, store, name):
    """A name that is no legal string is `InvalidName` and nothing reaches the engine."""
    tx = await store.begin_tx()
    engine.calls.clear()
    for call in named_calls(store, tx) + labelled_calls(store, tx):
        await refused(call, name, InvalidName)

    assert [] == engine.calls


@pytest.mark.parametrize("name", RESERVED)
async def test_reserved_names_are_refused_everywhere(engine, store, name):
    """A name of the library's own is `ReservedName` for all six kinds."""
    tx = await store.begin_tx()
    engine.calls.clear()
    for call in named_calls(store, tx):
        await refused(call, name, ReservedName)

    assert [] == engine.calls


async def test_labels_may_look_reserved(store):
    """Worker ids, owners, consumers and keys have no reserved prefix."""
    await store.queue("q").enqueue(1)

    assert await store.queue("q").claim_one("__alkstore_w")
    assert await store.try_lock("l", "__alkstore_o", 1)
    assert 1 == await store.stream("s").publish_with_key("__alkstore_k", 1)


def test_bad_names_raise_where_the_handle_is_made(engine):
    """`queue`, `stream` and `outbox` refuse a name at once, on a store that is not open."""
    store = Store(engine)
    for make in (store.queue, store.stream, store.outbox):
        with pytest.raises(InvalidName):
            make("")


@pytest.mark.parametrize("name", [" a ", "A", "ä/b:c%\n", "x" * 255, "$[0]", "'; DROP TABLE"])
async def test_any_other_name_is_taken_as_it_is(store, name):
    """Names are not trimmed, folded or interpreted."""
    await store.queue(name).enqueue(1)
    await store.stream(name).publish(1)
    await store.outbox(name).enqueue(1)

    assert [[name]] * 3 == [await store.queues(), await store.streams(), await store.outboxes()]
