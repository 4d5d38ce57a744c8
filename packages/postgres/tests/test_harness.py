"""The kit's harness: what it does to one home concerns no other."""

import asyncio

import pytest

from alkstore_postgres.contract import SERVER, PostgresHarness

BACK = "__alkstore_listener_reconnected__"
SESSIONS = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE $1 ORDER BY pid"


@pytest.fixture
def harness(postgres_url, monkeypatch):
    """A harness on the test's database."""
    monkeypatch.setenv(SERVER, postgres_url)
    return PostgresHarness()


async def test_severing_is_of_one_home(harness, sql):
    """Properties are tried side by side in one database: only the stores of one are cut off."""
    async with (
        harness.home() as one,
        harness.home() as other,
        harness.store(one, None) as cut,
        harness.store(other, None) as whole,
        cut.listen("news") as receiver,
        whole.listen("news"),
    ):
        before = await sql.fetch(SESSIONS, f"{other}%")
        gone = await sql.fetch(SESSIONS, f"{one}%")
        assert len(before) == len(gone) == 2
        await harness.sever(one)
        async with asyncio.timeout(20):
            assert BACK == (await receiver.recv()).channel
        assert before == await sql.fetch(SESSIONS, f"{other}%")
        assert not {*gone} & {*await sql.fetch(SESSIONS, f"{one}%")}
