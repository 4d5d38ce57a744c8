"""The status page of a store over dicts, and somebody who looks at it."""

from __future__ import annotations

import contextlib

import httpx
import pytest
from webforms import TOKEN, form_token

from alkstore_core.web import status_app


@pytest.fixture
def make_app(store):
    """Make the application for the test's store, whose clock stands years ago."""

    def make(**options):
        return status_app(store, **{"token": TOKEN, **options})

    return make


@pytest.fixture
async def client(make_app):
    """Return a function that gives a client: `client(app, bearer=None, base=...)`."""
    async with contextlib.AsyncExitStack() as stack:

        async def connect(app=None, *, bearer=TOKEN, base="http://page.test", **options):
            transport = httpx.ASGITransport(app or make_app(**options), raise_app_exceptions=False)
            headers = {} if bearer is None else {"authorization": f"Bearer {bearer}"}
            made = httpx.AsyncClient(transport=transport, base_url=base, headers=headers)
            return await stack.enter_async_context(made)

        yield connect


@pytest.fixture
def look(client):
    """Return a function that opens one address and gives the answer."""
    browsers = []

    async def get(path, **parameters):
        if not browsers:
            browsers.append(await client(actions=True))
        return await browsers[0].get(path, params=parameters or None)

    return get


@pytest.fixture
def dies(store):
    """Return a function that puts dead jobs into a queue and gives their ids."""

    async def bury(name, count=1, error="boom"):
        queue = store.queue(name)
        ids = await queue.enqueue_many(range(count))
        for handle in await queue.claim_batch("w", count):
            await handle.fail(error)
        return ids

    return bury


@pytest.fixture
def logged_in(client):
    """Return a function that gives a client with a session, and its forms' token."""

    async def enter(**options):
        browser = await client(bearer=None, **options)
        await browser.post("/login", data={"token": TOKEN})
        return browser, form_token((await browser.get("/")).text)

    return enter
