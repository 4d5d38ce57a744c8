"""How many calls a statement carries, which depends on what takes the time."""

import asyncio
from types import SimpleNamespace

import pytest

from alkstore_core.sql.merging import Merge
from alkstore_postgres import coalescing
from alkstore_postgres.coalescing import SHARED, SWIFT, Coalescer

MANY = 2 * SHARED


def op(key, value):
    """A call that can be merged with others of its key."""


def together(calls):
    """Many of them."""


class Lease:
    """A connection that is never missed."""

    async def give_back(self):
        pass


class Server:
    """Statements under way, each of which ends when it is told to, as late as it is told to."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(coalescing, "time", SimpleNamespace(perf_counter=lambda: self.now))
        self.under_way = []
        self.coalescer = Coalescer(
            {op: Merge(lambda args: args[0], together)},
            self.take,
            self.perform,
            asyncio.ensure_future,
            lambda error: error,
        )

    async def take(self):
        return Lease()

    async def perform(self, _lease, _mode, performed, calls):
        assert performed is together
        answer = asyncio.get_running_loop().create_future()
        self.under_way.append((len(calls), answer))
        await answer
        return [value for _, value in calls]

    def call(self, count, key="key"):
        return asyncio.gather(*(self.coalescer.call(op, (key, n)) for n in range(count)))

    async def sizes(self):
        """Of the statements under way, once no more are about to start."""
        for _ in range(20):
            await asyncio.sleep(0)
        return [size for size, _ in self.under_way]

    def end(self, seconds):
        self.now += seconds
        for _, answer in self.under_way:
            answer.set_result(None)
        self.under_way.clear()


@pytest.fixture
def server(monkeypatch):
    """Return a server that a coalescer works on."""
    return Server(monkeypatch)


async def after(server, seconds):
    """Perform many calls in so many seconds for each, then the same calls again."""
    first = server.call(MANY)
    assert [MANY] == await server.sizes()
    server.end(seconds * MANY)
    assert list(range(MANY)) == await first
    return server.call(MANY)


async def test_two_statements_share_what_is_swift(server):
    """Where the calls take longer than the disk, one half is prepared while the other runs."""
    second = await after(server, SWIFT / 2)
    assert [MANY / 2, MANY / 2] == await server.sizes()
    server.end(0)
    assert list(range(MANY)) == await second


async def test_one_statement_carries_all_that_is_slow(server):
    """Where the disk takes the time, there is one commit for all, not two."""
    second = await after(server, SWIFT * 2)
    assert [MANY] == await server.sizes()
    server.end(0)
    assert list(range(MANY)) == await second


async def test_halves_are_as_swift_as_the_whole(server):
    """What two statements take is reckoned for the calls of both."""
    second = await after(server, SWIFT / 2)
    assert [MANY / 2, MANY / 2] == await server.sizes()
    (_, one), (_, other) = server.under_way
    server.under_way.clear()
    server.now += SWIFT * 0.9 * MANY
    one.set_result(None)
    await server.sizes()
    other.set_result(None)
    await second
    third = server.call(MANY)
    assert [MANY / 2, MANY / 2] == await server.sizes()
    server.end(0)
    await third


async def test_few_calls_are_one_statement(server):
    """A second statement for a handful of calls costs more than it gains."""
    first = await after(server, SWIFT / 2)
    await server.sizes()
    server.end(0)
    await first
    few = server.call(SHARED - 1)
    assert [SHARED - 1] == await server.sizes()
    server.end(0)
    await few


async def test_other_calls_have_the_second_statement(server):
    """Calls that cannot be merged with the first ones need it more than half of those."""
    second = await after(server, SWIFT / 2)
    others = server.call(MANY, "other")
    assert [MANY, MANY] == await server.sizes()
    server.end(0)
    assert list(range(MANY)) == await second == await others
