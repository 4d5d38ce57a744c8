"""What a key-value store promises, on both drivers."""

import asyncio
from datetime import timedelta

import pytest
from sqlalchemy import text

from alkstore_core.sql.op import Mode
from alkstore_localstores import KvEntry, LocalKv, LocalStoreError


def code(caught):
    """The code of a caught error."""
    return caught.value.code


async def test_a_value_is_read_as_it_was_put(kv):
    """Any bytes of up to 24,576 come back, under keys of all allowed characters."""
    values = {"A-Z_a.z:09": bytes(range(256)), "k" * 512: b"\x00" * 24_576, "e": b""}
    for key, value in values.items():
        assert await kv.put(key, value) is True
    for key, value in values.items():
        entry = await kv.get(key)
        assert (key, value) == (entry.key, entry.value)
        assert await kv.exists(key) is True
    assert sorted(values) == await kv.keys()
    assert await kv.len() == 3


async def test_what_is_not_there_is_none(kv):
    """A missing key is a value, not an error."""
    assert await kv.get("nothing") is None
    assert await kv.exists("nothing") is False
    assert await kv.keys() == []


@pytest.mark.parametrize("key", ["", "k" * 513, "a/b", "ä", "a b", "a\n", "a\0", None, 7, b"k"])
async def test_a_key_out_of_its_rules_is_refused(kv, key):
    """Every method refuses it, as key and as prefix."""
    calls = (kv.get, kv.exists, kv.delete, kv.scan_prefix)
    for call in (*calls, lambda key: kv.put(key, b"")):
        with pytest.raises(LocalStoreError) as caught:
            await call(key)
        assert code(caught) == "INVALID_INPUT"
    assert await kv.len() == 0


async def test_a_value_out_of_its_rules_is_refused(kv):
    """A byte too many, or no bytes at all; what was there stays."""
    await kv.put("k", b"before")
    for value in (b"x" * 24_577, "text", None, bytearray(b"x")):
        with pytest.raises(LocalStoreError) as caught:
            await kv.put("k", value)
        assert code(caught) == "INVALID_INPUT"
    assert (await kv.get("k")).value == b"before"


async def test_checks_go_key_value_version(kv):
    """Of several faults the key's is told first, then the value's."""
    with pytest.raises(LocalStoreError, match="the key"):
        await kv.put("/", "no bytes", if_version="no token")
    with pytest.raises(LocalStoreError, match="the value"):
        await kv.put("k", "no bytes", if_version="no token")
    with pytest.raises(LocalStoreError, match="version token"):
        await kv.put("k", b"", if_version="no token")


async def test_a_ttl_ends_to_the_millisecond(kv, clock):
    """An entry is live until exactly `ttl` seconds have passed."""
    await kv.put("k", b"v", ttl=0.29)
    clock.now += 289
    assert (await kv.get("k")).value == b"v"
    assert await kv.exists("k")
    clock.now += 1
    assert await kv.exists("k") is False
    assert await kv.get("k") is None


@pytest.mark.parametrize("ttl", [0, 0.0, timedelta(0), 0.0004])
async def test_a_ttl_of_nothing_is_stored_and_absent(kv, ttl, rows):
    """The row is there until somebody meets it; no reader sees it."""
    assert await kv.put("k", b"v", ttl=ttl) is True
    assert len(await rows()) == 1
    assert await kv.get("k") is None
    assert await rows() == []


@pytest.mark.parametrize("ttl", [float("inf"), 1e300, 2**70, timedelta.max])
async def test_a_ttl_beyond_all_time_saturates(kv, ttl, clock):
    """It lives to the last millisecond there is."""
    await kv.put("k", b"v", ttl=ttl)
    clock.now = 2**40
    assert (await kv.get("k")).value == b"v"


@pytest.mark.parametrize("ttl", [-1, -0.001, float("-inf"), float("nan"), "1", True, timedelta(-1)])
async def test_a_ttl_out_of_its_rules_is_refused(kv, ttl):
    """Nothing is written."""
    with pytest.raises(LocalStoreError) as caught:
        await kv.put("k", b"v", ttl=ttl)
    assert code(caught) == "INVALID_INPUT"
    assert await kv.get("k") is None


async def test_a_put_without_a_ttl_takes_the_ttl_away(kv, clock):
    """The last put says how long an entry lives."""
    await kv.put("k", b"1", ttl=1)
    await kv.put("k", b"2")
    clock.now += 1_000_000
    assert (await kv.get("k")).value == b"2"


async def test_reads_delete_what_they_find_expired_and_scans_do_not(kv, clock, rows):
    """`get` and `exists` delete the row they meet; a scan leaves all where they are."""
    for key in ("k:1", "k:2", "k:3"):
        await kv.put(key, b"v", ttl=1)
    clock.now += 1000
    assert (await kv.scan_prefix("k:")).items == ()
    assert await kv.len() == 0
    assert await kv.keys() == []
    assert len(await rows()) == 3
    assert await kv.get("k:1") is None
    assert await kv.exists("k:2") is False
    assert [key for key, *_ in await rows()] == ["k:3"]


async def test_if_absent_writes_only_where_nothing_lives(kv, clock):
    """A live entry stays; an expired one is taken over."""
    assert await kv.put("k", b"1", if_absent=True, ttl=1) is True
    assert await kv.put("k", b"2", if_absent=True) is False
    assert (await kv.get("k")).value == b"1"
    clock.now += 1000
    assert await kv.put("k", b"3", if_absent=True) is True
    assert (await kv.get("k")).value == b"3"


async def test_if_version_writes_only_over_what_was_read(kv, clock):
    """Each applied put makes the versions before it stale, even with the same value."""
    await kv.put("k", b"1")
    first = (await kv.get("k")).version
    assert await kv.put("k", b"1", if_version=first) is True
    second = (await kv.get("k")).version
    assert first != second
    assert await kv.put("k", b"3", if_version=first) is False
    assert await kv.put("k", b"4", if_version=second, ttl=1) is True
    third = (await kv.get("k")).version
    clock.now += 1000
    assert await kv.put("k", b"5", if_version=third) is False
    assert await kv.get("k") is None
    assert await kv.put("k", b"6", if_version=third) is False


async def test_a_version_does_not_outlive_its_entry(kv):
    """A key that was deleted and put again has another version."""
    await kv.put("k", b"1")
    version = (await kv.get("k")).version
    await kv.delete("k")
    assert await kv.put("k", b"2", if_version=version) is False
    await kv.put("k", b"1")
    assert await kv.put("k", b"2", if_version=version) is False
    assert await kv.delete("k", if_version=version) is False
    assert (await kv.get("k")).value == b"1"


async def test_a_put_has_one_condition(kv):
    """Two conditions are a mistake, not a choice."""
    await kv.put("k", b"1")
    version = (await kv.get("k")).version
    with pytest.raises(LocalStoreError) as caught:
        await kv.put("k", b"2", if_absent=True, if_version=version)
    assert code(caught) == "INVALID_INPUT"


async def test_delete(kv, clock):
    """Without a condition it is always true; with one only for what is live and unchanged."""
    assert await kv.delete("k") is True
    await kv.put("k", b"1")
    version = (await kv.get("k")).version
    await kv.put("k", b"2", ttl=1)
    assert await kv.delete("k", if_version=version) is False
    version = (await kv.get("k")).version
    clock.now += 1000
    assert await kv.delete("k", if_version=version) is False
    await kv.put("k", b"3")
    assert await kv.delete("k", if_version=(await kv.get("k")).version) is True
    assert await kv.get("k") is None


async def test_clear(kv):
    """Nothing is left, and the store goes on."""
    for number in range(10):
        await kv.put(f"k{number}", b"v")
    await kv.clear()
    assert await kv.len() == 0
    await kv.put("k", b"v")
    assert await kv.keys() == ["k"]


async def test_a_token_whose_time_has_passed_needs_no_database(tmp_path, driver, clock):
    """It is false without a look: the row may say something else by now."""
    async with LocalKv(tmp_path, driver=driver, clock=clock) as kv:
        await kv.put("k", b"v", ttl=1)
        version = (await kv.get("k")).version
    clock.now += 1000
    # The store is closed: whatever asked the database would fail.
    assert await kv.put("k", b"w", if_version=version) is False
    assert await kv.delete("k", if_version=version) is False


async def test_a_scan_gives_the_prefix_by_key(kv):
    """Literally and by case; neighbours of the prefix are left out."""
    for key in ("a", "a-", "a.b", "a:", "a:1", "a:10", "a:2", "a_", "aB", "ab", "A:1", "b:1"):
        await kv.put(key, key.encode())
    page = await kv.scan_prefix("a:")
    assert [e.key for e in page.items] == ["a:", "a:1", "a:10", "a:2"]
    assert [e.value for e in page.items] == [b"a:", b"a:1", b"a:10", b"a:2"]
    assert page.next_cursor is None
    assert [e.key for e in (await kv.scan_prefix("a_")).items] == ["a_"]
    assert [e.key for e in (await kv.scan_prefix("z")).items] == []
    entry = page.items[1]
    assert await kv.put("a:1", b"new", if_version=entry.version) is True


async def test_pages_are_exact_while_keys_come_and_go(kv):
    """A key that is there all the time is seen once, whatever happens around it."""
    for number in range(100, 200, 2):
        await kv.put(f"k:{number}", b"v")
    seen, cursor = [], None
    while True:
        page = await kv.scan_prefix("k:", limit=7, cursor=cursor)
        seen += [entry.key for entry in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
        # Behind the cursor, and the very key it stands on.
        await kv.put(f"k:{int(page.items[0].key[2:]) + 1}", b"late")
        await kv.delete(page.items[-1].key)
    assert seen == [f"k:{number}" for number in range(100, 200, 2)]


async def test_expired_rows_do_not_count_for_a_page(kv, clock):
    """A page is filled with live rows, and a cursor is given only if another one follows."""
    for number in range(20):
        await kv.put(f"k{number:02}", b"v", ttl=1 if number % 2 else None)
    clock.now += 1000
    page = await kv.scan_prefix("k", limit=9)
    assert [e.key for e in page.items] == [f"k{n:02}" for n in range(0, 18, 2)]
    assert page.next_cursor is not None
    last = await kv.scan_prefix("k", limit=1, cursor=page.next_cursor)
    assert [e.key for e in last.items] == ["k18"]
    assert last.next_cursor is None


async def test_a_cursor_belongs_to_its_prefix(kv):
    """Another prefix's cursor and what is no cursor are refused, even for an empty page."""
    for number in range(3):
        await kv.put(f"k:{number}", b"v")
    cursor = (await kv.scan_prefix("k:", limit=1)).next_cursor
    for limit in (0, 1):
        for prefix, given in (("k", cursor), ("k:", "garbage"), ("k:", ""), ("k:", 7)):
            with pytest.raises(LocalStoreError) as caught:
                await kv.scan_prefix(prefix, limit=limit, cursor=given)
            assert code(caught) == "INVALID_INPUT"


async def test_limits(kv):
    """1000 by default, none at most; 0 gives an empty page and the cursor back."""
    await asyncio.gather(*(kv.put(f"k:{n:04}", b"") for n in range(1100)))
    page = await kv.scan_prefix("k:")
    assert (1000, "k:0999") == (len(page.items), page.items[-1].key)
    assert len((await kv.scan_prefix("k:", limit=2**80)).items) == 1100
    empty = await kv.scan_prefix("k:", limit=0, cursor=page.next_cursor)
    assert ((), page.next_cursor) == (empty.items, empty.next_cursor)
    assert (await kv.scan_prefix("k:", limit=0)).next_cursor is None
    for limit in (-1, 1.0, "1", None, True):
        with pytest.raises(LocalStoreError) as caught:
            await kv.scan_prefix("k:", limit=limit)
        assert code(caught) == "INVALID_INPUT"


async def test_scan_pages_by_itself(kv):
    """The iterator gives every live entry of the prefix, over any number of pages."""
    await asyncio.gather(*(kv.put(f"k:{n:04}", b"%d" % n) for n in range(2500)))
    await kv.put("l", b"")
    found = [entry async for entry in kv.scan("k:")]
    assert [entry.key for entry in found] == [f"k:{n:04}" for n in range(2500)]
    assert isinstance(found[0], KvEntry)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("value", "text"),
        ("value", 7),
        ("expires_at", "soon"),
        ("expires_at", 1e300),
        ("version", b"x"),
    ],
)
async def test_a_row_of_other_types_is_an_error(kv, column, value, rows):
    """What another program has put there is told, not guessed at; the key can be put anew."""
    await kv.put("k", b"v")
    await rows(f"UPDATE kv SET {column} = ?", value)
    with pytest.raises(LocalStoreError, match=column) as caught:
        await kv.get("k")
    assert code(caught) == "KV_OPERATION_FAILED"
    with pytest.raises(LocalStoreError) as caught:
        await kv.scan_prefix("k")
    assert code(caught) == "KV_OPERATION_FAILED"
    await kv.put("k", b"w")
    assert (await kv.get("k")).value == b"w"


@pytest.fixture
def rows(kv):
    """The rows of the store's table as they are stored, or after a statement on them."""

    async def read(sql="SELECT key, value, expires_at, version FROM kv ORDER BY key", *arguments):
        names = {f"p{place}": value for place, value in enumerate(arguments)}
        for name in names:
            sql = sql.replace("?", f":{name}", 1)
        statement = text(sql)
        statement.is_select = sql.startswith("SELECT")

        def op():
            return (yield statement, names).rows

        return await kv._file.run(Mode.WRITE, op)

    return read


@pytest.mark.parametrize("ttl", [10**400, 10**5000], ids=["400", "5000"])
async def test_a_lifetime_beyond_all_floats_lasts(kv, ttl):
    """As any other that is beyond 64 bits; and below zero the error is ours, whatever its size."""
    assert await kv.put("a", b"1", ttl=ttl) is True
    assert (await kv.get("a")).value == b"1"
    for call in (kv.put("a", b"2", ttl=-ttl), kv.scan_prefix("a", limit=-ttl)):
        with pytest.raises(LocalStoreError) as caught:
            await call
        assert code(caught) == "INVALID_INPUT"


async def test_another_loop_is_told_so(kv):
    """The caller of another loop gets our error, and nothing is written behind its back."""

    async def put():
        await kv.put("a", b"1")

    with pytest.raises(LocalStoreError, match="another event loop") as caught:
        await asyncio.to_thread(asyncio.run, put())
    assert code(caught) == "KV_OPERATION_FAILED"
    assert await kv.exists("a") is False
