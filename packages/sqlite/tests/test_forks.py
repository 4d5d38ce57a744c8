"""Files that were open at a fork, and the processes on both sides of it."""

import pytest

REFUSAL = "was open when this process was forked"
WAYS = ("store", "symbolic link", "hard link", "engine", "sync engine")


async def test_a_childs_own_way_to_an_inherited_file_is_refused(path, spawn, integrity):
    """Neither a store nor a prepared engine opens in a child, by any name of the file, what
    the parent had open; the parent's store is unharmed.
    """
    process = spawn("fork_opener.py", path, "store", *WAYS)

    for way in WAYS:
        assert REFUSAL in await process.expect("refused"), way
    assert '"before" 1 "after"' == await process.expect("parent")
    assert [] == await process.succeed()
    assert "ok" == integrity()


@pytest.mark.parametrize("who", ["engine", "sync engine"])
async def test_a_file_that_an_engine_had_open_is_refused(path, spawn, who):
    """A prepared engine's pooled connection spoils a file for a child like an open store."""
    process = spawn("fork_opener.py", path, who, "store", "engine")

    assert REFUSAL in await process.expect("refused")
    assert REFUSAL in await process.expect("refused")
    assert '"before"' == await process.expect("parent")


async def test_another_file_is_no_business_of_the_fork(path, spawn):
    """A child opens a file that was not open at the fork, whatever else was."""
    process = spawn("fork_opener.py", path, "store", "other file")

    assert "" == await process.expect("opened")
    assert '"before" 1 "after"' == await process.expect("parent")


@pytest.mark.parametrize(
    ("who", "jobs"),
    [("nobody", '"before" 1'), ("closed store", '"before" 1 1'), ("disposed engine", '"before" 1')],
)
async def test_a_file_that_was_closed_in_time_is_the_childs_too(path, spawn, who, jobs):
    """A store or an engine that was closed before the fork does not spoil its file."""
    process = spawn("fork_opener.py", path, who, "store")

    assert "" == await process.expect("opened")
    assert jobs == await process.expect("parent")
