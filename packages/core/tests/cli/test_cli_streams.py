"""Who looks at one stream pays for no other."""

import contextlib
import json

import pytest

from alkstore_core.cli import streams


@pytest.fixture
def consumers(store, monkeypatch):
    """Return the command `stream consumers`, on the test's store."""

    @contextlib.asynccontextmanager
    async def opened(url):
        yield store

    monkeypatch.setattr(streams, "opened", opened)
    return lambda name: streams._consumers("", name, as_json=True)


@pytest.mark.parametrize("name", ["s", None])
async def test_consumers_count_no_job(store, engine, consumers, capsys, name):
    """Of one stream or of all, however many jobs there are."""
    await store.queue("q").enqueue(1)
    await store.stream("s").publish_many(range(5))
    await store.stream("s").save_offset("c", 2)
    engine.calls.clear()

    await consumers(name)

    place = {"stream": "s", "name": "c", "offset": 2, "lag": 3}
    assert {"consumers": [place]} == json.loads(capsys.readouterr().out)
    assert "bounds" in engine.calls
    assert "stats" not in engine.calls
    assert (name is None) == ("names" in engine.calls)


async def test_a_stream_that_is_not_there_is_told(store, consumers, capsys):
    """With what it may have been meant to be; one without consumers is there."""
    await store.stream("orders").publish(1)

    await consumers("order")
    await consumers("orders")

    assert 1 == capsys.readouterr().err.count("did you mean 'orders'?")
