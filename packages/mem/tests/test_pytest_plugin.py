"""The fixtures, in test suites of their own: with each plugin for async tests, and with none."""

import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.once

ASYNC_TESTS = """
import asyncio
import pytest
from alkstore_core import EnqueueOpts
from alkstore_mem.testing import assert_enqueued, assert_published, drain

{mark}

async def place_order(store, item):
    async with store.transaction() as tx:
        await tx.enqueue_tx("mails", {{"item": item}}, EnqueueOpts(delay=60))
        await tx.publish_tx("orders", {{"placed": item}})

async def test_an_order(alk_store, alk_clock):
    await place_order(alk_store, "tea")
    await assert_published(alk_store, "orders", {{"placed": "tea"}})
    await assert_enqueued(alk_store, "mails", {{"item": "tea"}}, delay=60)
    assert [] == await drain(alk_store, "mails", lambda mail: None)
    await alk_clock.advance(60)
    [handled] = await drain(alk_store, "mails", lambda mail: mail["item"])
    assert handled.result == "tea"

async def test_another_finds_nothing(alk_store):
    assert [] == await alk_store.queues()
    assert alk_store.is_open

async def test_what_is_left_open_harms_nobody(alk_store):
    tx = await alk_store.begin_tx()
    await tx.enqueue_tx("q", 1)
    wakes = await alk_store.listen("c")
    task = asyncio.create_task(wakes.recv())
    await asyncio.sleep(0)

async def test_what_is_left_open_and_held_harms_nobody(alk_store, request):
    request.node.kept = [await alk_store.begin_tx(), await alk_store.queue("q").wakes()]

async def test_the_application_may_open_and_close_it(alk_store):
    async with alk_store as store:
        await store.queue("q").enqueue(1)

async def test_not_used_at_all(alk_store):
    pass
"""


ASYNCIO = ("-p", "pytest_asyncio.plugin", "-o", "asyncio_default_fixture_loop_scope=function")
ANYIO = ("-p", "anyio.pytest_plugin")
OURS = ("-p", "alkstore_mem.pytest_plugin")


@pytest.fixture
def suite(pytester, monkeypatch):
    """Run a test suite in a process of its own, with the plugins it names; warnings fail it."""

    def run(text, *arguments, **counts):
        if arguments[: len(OURS)] == OURS:
            monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        pytester.makepyfile(text)
        done = pytester.runpytest_subprocess(
            "-q", "-W", "error", "-p", "no:cacheprovider", *arguments
        )
        done.assert_outcomes(**counts)
        assert "Exception ignored" not in done.stderr.str()
        assert "never" not in done.stderr.str()
        return done

    return run


OF_ASYNCIO = "pytestmark = pytest.mark.asyncio"
OF_ANYIO = """pytestmark = pytest.mark.anyio

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""
PLUGINS = {
    "asyncio-auto": ("", (*ASYNCIO, "-o", "asyncio_mode=auto")),
    "asyncio-strict": (OF_ASYNCIO, ASYNCIO),
    "anyio": (OF_ANYIO, ANYIO),
    "anyio-beside-asyncio": (OF_ANYIO, (*ASYNCIO, *ANYIO)),
}


@pytest.mark.parametrize("plugin", PLUGINS)
def test_async_tests_of_every_plugin(suite, plugin):
    """The store is open on whatever loop the test runs on, and is gone after it."""
    mark, arguments = PLUGINS[plugin]

    suite(ASYNC_TESTS.format(mark=mark), *OURS, *arguments, passed=6)


FIXTURE_OF_THEIRS = """
import pytest
from alkstore_mem.testing import assert_enqueued

@pytest.fixture
async def shop(alk_store):
    await alk_store.queue("mails").enqueue("opened")
    yield alk_store
    await alk_store.queue("mails").enqueue("closed")
    await assert_enqueued(alk_store, "mails", count=2)

async def test_it(shop):
    await assert_enqueued(shop, "mails", "opened")
"""


def test_async_fixtures_may_build_on_it(suite):
    """A fixture of the suite uses the store before and after the test."""
    suite(FIXTURE_OF_THEIRS, *OURS, *ASYNCIO, "-o", "asyncio_mode=auto", passed=1)


BLOCKING_TESTS = """
import asyncio
from alkstore_core import EnqueueOpts
from alkstore_core.sync import SyncStore
from alkstore_mem.testing import assert_enqueued, assert_published, drain

def test_blocking(alk_sync_store, alk_clock):
    with alk_sync_store.transaction() as tx:
        tx.enqueue_tx("mails", {"item": "tea"}, EnqueueOpts(delay=60))
        tx.publish_tx("orders", "tea")
    assert_published(alk_sync_store, "orders", "tea")
    assert_enqueued(alk_sync_store, "mails", delay=60)
    assert [] == drain(alk_sync_store, "mails", print)
    alk_sync_store.call(alk_clock.advance, 60)
    assert ["tea"] == [h.result for h in drain(alk_sync_store, "mails", lambda mail: mail["item"])]

def test_wrapped_by_hand(alk_store):
    with SyncStore(alk_store) as store:
        store.queue("q").enqueue(1)

def test_a_loop_of_ones_own(alk_store):
    async def work():
        await alk_store.queue("q").enqueue(1)
        await assert_enqueued(alk_store, "q", 1)
    asyncio.run(work())
"""


@pytest.mark.parametrize("beside", [(), (*ASYNCIO, "-o", "asyncio_mode=auto", *ANYIO)])
def test_tests_that_block(suite, beside):
    """They need no plugin for async tests, and are not disturbed by one."""
    suite(BLOCKING_TESTS, *OURS, *beside, passed=3)


def test_it_is_there_once_it_is_installed(suite):
    """Beside all other plugins that are installed, the kit's included, nothing has to be said."""
    done = suite("def test_it(alk_sync_store): alk_sync_store.queues()", *ASYNCIO[2:], passed=1)
    assert "alk" not in done.stdout.str()


def test_a_failed_assertion_shows_what_is_there(suite):
    """The report ends with the message and points at the test's own line, not into the helper."""
    done = suite(
        """
        from alkstore_mem.testing import assert_enqueued

        def test_it(alk_sync_store):
            alk_sync_store.queue("mails").enqueue({"to": "ada"})
            assert_enqueued(alk_sync_store, "mails", {"to": "bob"})
        """,
        *OURS,
        failed=1,
    )
    done.stdout.fnmatch_lines(
        [
            '>*assert_enqueued(alk_sync_store, "mails", {"to": "bob"})',
            "E*AssertionError: no job in queue 'mails' with payload {'to': 'bob'}",
            "E*there is:",
            "E*payload {'to': 'ada'}, priority 0, *",
            "test_*.py:5: AssertionError",
        ]
    )


def test_fixtures_of_the_suite_go_before(suite):
    """A fixture of the same name in the suite is the suite's; its clock is the store's."""
    suite(
        """
        import pytest
        from alkstore_core import ManualClock

        @pytest.fixture
        def alk_clock():
            return ManualClock(start=5)

        def test_it(alk_sync_store):
            job = alk_sync_store.queue("q").get_job(alk_sync_store.queue("q").enqueue(1))
            assert 5 == job.created_at
        """,
        *OURS,
        passed=1,
    )


def test_it_can_be_left_out(suite):
    """`-p no:alkstore_mem` leaves nothing of it."""
    done = suite("def test_it(alk_store): pass", "-p", "no:alkstore_mem", *ASYNCIO[2:], errors=1)
    done.stdout.fnmatch_lines(["*fixture 'alk_store' not found*"])


LOADED = """
import sys
import alkstore_mem.pytest_plugin
heavy = {"alkstore_core", "alkstore_mem.store", "alkstore_mem.testing", "sqlalchemy", "attrs"}
print(sorted(heavy & sys.modules.keys()))
"""


def test_a_run_that_does_not_ask_for_it_loads_nothing():
    """Every run of pytest loads the plugin, so it imports no more than pytest."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED], check=True, capture_output=True, text=True
    )
    assert "[]" == done.stdout.strip()


def test_the_package_needs_no_pytest():
    """Neither the engine nor the helpers import it."""
    code = "import sys, alkstore_mem.testing; alkstore_mem.MemStore; print('pytest' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "False" == done.stdout.strip()


def test_the_packages_names_are_there():
    """Imported when first used, they are listed all the same."""
    import alkstore_mem  # noqa: PLC0415 - what is under test

    for name in [*alkstore_mem.__all__, "__version__"]:
        assert name in dir(alkstore_mem)
        assert getattr(alkstore_mem, name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = alkstore_mem.nothing
