"""A store does, over any run of calls, what a dictionary and a clock would."""

import asyncio
import itertools
import tempfile

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alkstore_localstores import LocalKv

KEYS = ("a", "a:1", "a:2", "a:10", "ab", "b", "B:1")
PREFIXES = ("a", "a:", "b", "B", "c")

keys = st.sampled_from(KEYS)
values = st.binary(max_size=3)
ttls = st.none() | st.sampled_from([0, 0.001, 0.005, 1])
# Which of the versions read so far, counted from the newest.
versions = st.integers(0, 3)

calls = st.one_of(
    st.tuples(st.just("put"), keys, values, ttls),
    st.tuples(st.just("put_if_absent"), keys, values, ttls),
    st.tuples(st.just("put_if_version"), keys, values, ttls, versions),
    st.tuples(st.just("delete"), keys),
    st.tuples(st.just("delete_if_version"), keys, versions),
    st.tuples(st.just("get"), keys),
    st.tuples(st.just("exists"), keys),
    st.tuples(st.just("pages"), st.sampled_from(PREFIXES), st.integers(1, 4)),
    st.tuples(st.just("count")),
    st.tuples(st.just("reopen")),
    st.tuples(st.just("wait"), st.sampled_from([1, 4, 5, 1000])),
)


@attrs.define
class Entry:
    """What the model keeps of a key."""

    value: bytes
    expires_at: int | None
    version: int


class Model:
    """The dictionary, the clock, and the versions that were read."""

    def __init__(self) -> None:
        self.now = 1_000_000
        self.entries: dict[str, Entry] = {}
        self.numbers = itertools.count()
        self.read: dict[str, list[tuple[str, int]]] = {key: [] for key in KEYS}

    def live(self, key):
        """The entry of a key unless it has expired."""
        entry = self.entries.get(key)
        gone = entry and entry.expires_at is not None and entry.expires_at <= self.now
        return None if gone else entry

    def put(self, key, value, ttl):
        """Write."""
        expires_at = None if ttl is None else self.now + int(ttl * 1000)
        self.entries[key] = Entry(value, expires_at, next(self.numbers))


class Run:
    """One run of calls on both."""

    def __init__(self, directory, driver) -> None:
        self.model = Model()
        self.kv = LocalKv(directory, driver=driver, clock=lambda: self.model.now)

    async def put(self, key, value, ttl):
        assert await self.kv.put(key, value, ttl=ttl) is True
        self.model.put(key, value, ttl)

    async def put_if_absent(self, key, value, ttl):
        free = self.model.live(key) is None
        assert await self.kv.put(key, value, ttl=ttl, if_absent=True) is free
        if free:
            self.model.put(key, value, ttl)

    async def put_if_version(self, key, value, ttl, back):
        token, fits = self._version(key, back)
        if token is not None:
            assert await self.kv.put(key, value, ttl=ttl, if_version=token) is fits
            if fits:
                self.model.put(key, value, ttl)

    async def delete(self, key):
        assert await self.kv.delete(key) is True
        self.model.entries.pop(key, None)

    async def delete_if_version(self, key, back):
        token, fits = self._version(key, back)
        if token is not None:
            assert await self.kv.delete(key, if_version=token) is fits
            if fits:
                del self.model.entries[key]

    async def get(self, key):
        found, expected = await self.kv.get(key), self.model.live(key)
        assert (found and found.value) == (expected and expected.value)
        if expected:
            self.model.read[key].append((found.version, expected.version))

    async def exists(self, key):
        assert await self.kv.exists(key) is (self.model.live(key) is not None)

    async def pages(self, prefix, limit):
        expected = [k for k in sorted(KEYS) if k.startswith(prefix) and self.model.live(k)]
        found, cursor = [], None
        while True:
            page = await self.kv.scan_prefix(prefix, limit=limit, cursor=cursor)
            found += [entry.key for entry in page.items]
            cursor = page.next_cursor
            assert (cursor is None) is (len(found) == len(expected))
            if cursor is None:
                break
        assert expected == found

    async def count(self):
        live = [key for key in sorted(KEYS) if self.model.live(key)]
        assert len(live) == await self.kv.len()
        assert live == await self.kv.keys()

    async def reopen(self):
        await self.kv.close()
        await self.kv.open()

    async def wait(self, milliseconds):
        self.model.now += milliseconds

    def _version(self, key, back):
        """A version that was read of this key, and whether it is still the live one's."""
        read = self.model.read[key]
        if back >= len(read):
            return None, False
        token, number = read[-1 - back]
        live = self.model.live(key)
        return token, live is not None and live.version == number


@pytest.mark.once
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(run=st.lists(calls, min_size=10, max_size=40))
def test_a_store_is_a_dictionary_with_a_clock(driver, run):
    """Whatever is called in whichever order, each answer is the model's."""

    async def play() -> None:
        with tempfile.TemporaryDirectory() as directory:
            both = Run(directory, driver)
            await both.kv.open()
            try:
                for name, *arguments in run:
                    await getattr(both, name)(*arguments)
            finally:
                await both.kv.close()

    asyncio.run(play())
