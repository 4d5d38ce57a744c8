"""The status page served by itself, and how that ends."""

import asyncio

import httpx
import pytest

from alkstore_core.web import serve


@pytest.fixture
async def serving(store):
    """The task that serves the page, and where."""
    address = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve(store, "127.0.0.1", 0, token=None, started=address.set_result))
    yield task, await address
    task.cancel()
    await asyncio.wait((task,))


async def test_requests_under_way_end_first(engine, serving):
    """Who has asked before it is cancelled gets the answer, and who asks then gets none."""
    task, address = serving
    gate = engine.hold("before", "names")
    async with httpx.AsyncClient(base_url=address) as client:
        look = asyncio.create_task(client.get("/"))
        await gate.reached.wait()
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        gate.open()
        assert 200 == (await look).status_code
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(httpx.ConnectError):
            await client.get("/")
