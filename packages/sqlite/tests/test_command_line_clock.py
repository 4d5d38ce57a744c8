"""`alkstore` reckons with the clock that stamps jobs, however far off this machine's is."""

import asyncio
import json

import pytest
from click.testing import CliRunner

from alkstore_core import EnqueueOpts, ManualClock, QueueOpts, open_store
from alkstore_core.cli import opening
from alkstore_core.cli.root import root
from alkstore_sqlite import SqliteStore

DAY = 86_400


@pytest.fixture
def clock():
    """A clock in November 2023."""
    return ManualClock()


@pytest.fixture
def do(path, clock):
    """Do something with an open store, between two commands."""

    def do(work):
        async def within():
            async with SqliteStore(path, clock=clock) as store:
                return await work(store)

        return asyncio.run(within())

    return do


@pytest.fixture
def alkstore(path, clock, monkeypatch):
    """Run the command in this process, on a store with the test's clock."""
    monkeypatch.setattr(opening, "open_store", lambda url: open_store(url, clock=clock))

    def run(*arguments):
        return CliRunner().invoke(
            root,
            [*map(str, arguments)],
            prog_name="alkstore",
            env={"ALKSTORE_URL": f"sqlite:///{path}", "COLUMNS": "120"},
        )

    return run


async def dies(store):
    """Put a job in that dies at once."""
    queue = store.queue("mail", QueueOpts(max_attempts=1))
    await queue.enqueue(1)
    await (await queue.claim_one("w")).fail("no such address")


def test_purge_spares_what_has_just_died(do, alkstore, clock):
    """`--before 7d` is seven days before the store's time, years before this machine's."""
    do(dies)
    asyncio.run(clock.advance(7 * DAY))
    do(dies)

    spared = alkstore("dead", "purge", "mail", "--yes", "--json", "--before", "8d")
    future = alkstore("dead", "purge", "mail", "--yes", "--before", clock.now() + 1)
    asyncio.run(clock.advance(1))
    purged = alkstore("dead", "purge", "mail", "--yes", "--json", "--before", "7d")

    assert {"purged": 0} == json.loads(spared.stdout)
    assert (2, True) == (future.exit_code, "lies in the future" in future.stderr)
    assert {"purged": 1} == json.loads(purged.stdout)
    assert 1 == do(lambda store: store.queue("mail").stats()).dead


def test_ages_are_those_of_the_store(do, alkstore, clock):
    """Of jobs, events, locks and schedules."""

    async def fill(store):
        await store.queue("mail").enqueue(1, EnqueueOpts(delay=60))
        await store.stream("orders").publish(1)
        await store.try_lock("reindex", "host-1", 60)
        await store.schedule("tidy", "@every 1m", "nightly", None)

    do(fill)
    asyncio.run(clock.advance(10))

    for arguments, words in [
        (("jobs", "mail"), "due in 50s"),
        (("jobs", "mail", "--id", 1), "(in 50s)"),
        (("stream", "read", "orders"), "10s ago"),
        (("locks",), "in 50s"),
        (("schedules",), "in 50s"),
        (("status",), "in 50s"),
    ]:
        done = alkstore(*arguments)
        assert words in done.stdout, done.output
    assert clock.now() == json.loads(alkstore("status", "--json").stdout)["at"]


def test_jobs_and_status_agree(do, alkstore, clock):
    """A job is listed with the word that `status` counts it by, and since when it is so."""

    async def fill(store):
        queue = store.queue("mail", QueueOpts(visibility_timeout_s=3))
        await queue.enqueue(1)
        await queue.claim_one("w")
        await queue.enqueue(2, EnqueueOpts(expires=2))
        await store.queue("later").enqueue(3, EnqueueOpts(delay=60))

    do(fill)
    asyncio.run(clock.advance(10))

    lapsed, expired = json.loads(alkstore("jobs", "mail", "--json").stdout)["jobs"]
    assert ("processing", "lapsed") == (lapsed["state"], lapsed["standing"])
    assert ("pending", "expired") == (expired["state"], expired["standing"])
    mail = json.loads(alkstore("status", "--json").stdout)["queues"][1]
    assert (1, 1, 0) == (mail["lapsed"], mail["expired"], mail["ready"])
    shown = alkstore("jobs", "mail").stdout
    assert "lapsed 7s ago" in shown
    assert "expired 8s ago" in shown
    assert "processing, lapsed" in alkstore("jobs", "mail", "--id", 1).stdout
    assert "delayed" in alkstore("jobs", "later").stdout


def test_a_payload_does_not_flood_the_terminal(do, alkstore):
    """Of 41 kB that would be 16 MB when they are laid out the beginning is shown."""
    payload = list(range(20_000))
    for _ in range(400):
        payload = [payload]
    do(lambda store: store.queue("mail").enqueue(payload))

    done = alkstore("jobs", "mail", "--id", 1)

    assert "cut; --json has all of it\n" == done.stderr
    assert 50_000 < len(done.stdout) < 300_000
    assert payload == json.loads(alkstore("jobs", "mail", "--id", 1, "--json").stdout)["payload"]


def test_doctor_compares_the_clocks(do, alkstore):
    """It says how far behind the store's is, takes no lock, and finds no schedule late."""
    do(lambda store: store.schedule("tidy", "@every 1m", "nightly", None))

    findings = json.loads(alkstore("doctor", "--json").stdout)["findings"]

    (clock,) = [finding for finding in findings if finding["code"] == "clock"]
    assert ("warning", True) == (clock["severity"], "behind this machine's" in clock["message"])
    assert "schedules" in {finding["code"] for finding in findings}
