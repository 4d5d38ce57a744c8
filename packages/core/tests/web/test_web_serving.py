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


@pytest.mark.parametrize("leaves", [False, True])
async def test_a_form_that_is_not_sent_to_its_end_holds_nothing_up(serving, caplog, leaves):
    """Whether its browser stays or leaves, and without an error of ours."""
    task, address = serving
    url = httpx.URL(address)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    head = [
        "POST /login HTTP/1.1",
        f"Host: {url.host}",
        "Content-Type: application/x-www-form-urlencoded",
        "Content-Length: 1000",
        "Expect: 100-continue",
    ]
    writer.write("\r\n".join([*head, "", "tok"]).encode())
    assert b"100 Continue" in await reader.readline()
    if leaves:
        writer.close()
        await writer.wait_closed()
    task.cancel()
    done, _ = await asyncio.wait((task,), timeout=5)

    assert {task} == done
    assert leaves or b"not sent to its end" in await reader.read()
    assert [] == [record for record in caplog.records if record.levelname == "ERROR"]
    writer.close()


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
