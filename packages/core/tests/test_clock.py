"""Clocks: never early, cancellable, and in tests moved by hand."""

import asyncio
import threading
import time

import pytest

from alkstore_core import clock as clock_module
from alkstore_core.clock import ManualClock, SystemClock

FOREVER = 9_223_372_036_854_775_807


class Log:
    """Tells in which order sleepers went on."""

    def __init__(self, clock):
        self.clock = clock
        self.entries = []

    async def sleep(self, t):
        """Sleep, then note when it was meant to end and when it did."""
        await self.clock.sleep_until(t)
        self.entries.append((t, self.clock.now()))


def test_manual_time_stands_still():
    """Without `advance` the time is the start."""
    assert ManualClock(start=1000).now() == 1000


async def test_advance_moves_time():
    """Time is the start plus all that was advanced; 0 moves nothing."""
    clock = ManualClock(start=1000)
    await clock.advance(5)
    await clock.advance(0)
    await clock.advance(10)
    assert clock.now() == 1015


async def test_time_cannot_go_back():
    """A negative advance is a `ValueError` and time has not moved."""
    clock = ManualClock(start=1000)
    with pytest.raises(ValueError, match=r"time cannot go back: advance\(-1\)"):
        await clock.advance(-1)
    assert clock.now() == 1000


async def test_time_saturates():
    """At the end of i64 time stands still, and who waits for that second goes on."""
    clock = ManualClock(start=1000)
    sleeper = asyncio.create_task(clock.sleep_until(FOREVER))
    await asyncio.sleep(0)
    await clock.advance(FOREVER)
    assert clock.now() == 9_223_372_036_854_775_807
    assert sleeper.done()


async def test_sleepers_have_run_when_advance_returns():
    """Who came due has gone on to its next await, earliest first; the others still sleep."""
    clock = ManualClock(start=1000)
    log = Log(clock)
    tasks = [asyncio.create_task(log.sleep(t)) for t in (1030, 1010, 1020, 1031)]
    await asyncio.sleep(0)
    await clock.advance(30)
    assert log.entries == [(1010, 1030), (1020, 1030), (1030, 1030)]
    assert [task.done() for task in tasks] == [True, True, True, False]
    await clock.advance(1)
    assert tasks[3].done()


async def test_a_sleeper_is_not_woken_early():
    """One second before its time a sleeper sleeps."""
    clock = ManualClock(start=1000)
    task = asyncio.create_task(clock.sleep_until(1010))
    await asyncio.sleep(0)
    await clock.advance(9)
    assert not task.done()
    await clock.advance(1)
    assert task.done()


async def test_the_parent_of_a_sleeper_has_run_too():
    """A task that waits for a sleeping child, with a timeout or for the first of two, went on."""
    clock = ManualClock(start=1000)
    seen = []

    async def parent():
        await asyncio.wait_for(clock.sleep_until(1010), 60)
        seen.append("wait_for")
        children = [asyncio.ensure_future(clock.sleep_until(t)) for t in (1020, 5000)]
        await asyncio.wait(children, return_when=asyncio.FIRST_COMPLETED)
        seen.append("wait")
        children[1].cancel()

    task = asyncio.create_task(parent())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await clock.advance(10)
    assert seen == ["wait_for"]
    await clock.advance(10)
    assert seen == ["wait_for", "wait"]
    await task


async def test_a_loop_of_sleeps_advances_step_by_step():
    """A periodic sleeper runs once per advance that reaches it."""
    clock = ManualClock(start=1000)
    ticks = []

    async def periodic():
        while True:
            await clock.sleep_until(clock.now() + 10)
            ticks.append(clock.now())

    task = asyncio.create_task(periodic())
    await asyncio.sleep(0)
    for _ in range(3):
        await clock.advance(10)
    assert ticks == [1010, 1020, 1030]
    task.cancel()


async def test_a_time_that_has_come_still_gives_others_a_turn():
    """Sleeping until the past returns, after another task could run."""
    clock = ManualClock(start=1000)
    for source, past in ((clock, 1000), (clock, -FOREVER), (SystemClock(), 0)):
        turns = []
        asyncio.get_running_loop().call_soon(turns.append, 1)
        await source.sleep_until(past)
        assert turns == [1]


async def test_a_cancelled_sleep_leaves_nothing_behind():
    """A cancelled sleeper is forgotten and does not hold `advance` up."""
    clock = ManualClock(start=1000)
    task = asyncio.create_task(clock.sleep_until(1010))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(clock._sleepers) == 0
    await clock.advance(100)


async def test_a_sleep_cancelled_while_it_is_released_ends_cancelled():
    """Advance and cancel in the same turn: the task is cancelled and `advance` returns."""
    clock = ManualClock(start=1000)
    task = asyncio.create_task(clock.sleep_until(1010))
    await asyncio.sleep(0)
    advancing = asyncio.create_task(clock.advance(10))
    asyncio.get_running_loop().call_soon(task.cancel)
    await advancing
    assert task.cancelled()


async def test_sleepers_of_other_loops_have_run_as_well():
    """`advance` waits for sleepers on the loops of other threads."""
    clock = ManualClock(start=1000)
    ready = threading.Barrier(4)
    seen = []

    async def sleep():
        await clock.sleep_until(1010)
        seen.append(clock.now())

    async def main():
        task = asyncio.create_task(sleep())
        await asyncio.sleep(0)
        await asyncio.to_thread(ready.wait)
        await task
        await asyncio.to_thread(ready.wait)

    threads = [threading.Thread(target=asyncio.run, args=[main()]) for _ in range(3)]
    for thread in threads:
        thread.start()
    await asyncio.to_thread(ready.wait)
    await clock.advance(10)
    assert seen == [1010, 1010, 1010]
    await asyncio.to_thread(ready.wait)
    for thread in threads:
        thread.join(10)


async def test_a_loop_that_closed_around_its_sleeper_does_not_hinder():
    """`advance` returns although a sleeper's loop is gone."""
    clock = ManualClock(start=1000)

    def elsewhere():
        loop = asyncio.new_event_loop()
        sleeping = clock.sleep_until(1010)
        loop.call_soon(sleeping.send, None)
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.close()
        return sleeping

    sleeping = await asyncio.to_thread(elsewhere)
    assert len(clock._sleepers) == 1
    await clock.advance(10)
    assert len(clock._sleepers) == 0
    sleeping.close()


async def test_a_loop_that_ends_with_its_sleeper_does_not_hinder():
    """A sleeper that is the last its loop runs is waited for no longer than it runs."""
    clock = ManualClock(start=1000)
    ready = threading.Event()

    async def main():
        asyncio.get_running_loop().call_soon(ready.set)
        await clock.sleep_until(1010)

    thread = threading.Thread(target=asyncio.run, args=[main()])
    thread.start()
    await asyncio.to_thread(ready.wait)
    await asyncio.wait_for(clock.advance(10), 5)
    thread.join(10)
    assert not thread.is_alive()


async def test_a_blocked_loop_is_an_error(monkeypatch):
    """A sleeper whose loop does not run makes `advance` a `TimeoutError`, not a hang."""
    monkeypatch.setattr(clock_module, "_SETTLE_TIMEOUT", 0.01)
    clock = ManualClock(start=1000)
    loop = asyncio.new_event_loop()
    sleeping = clock.sleep_until(1010)

    def until_asleep():
        loop.call_soon(sleeping.send, None)
        loop.call_soon(loop.stop)
        loop.run_forever()

    await asyncio.to_thread(until_asleep)
    with pytest.raises(TimeoutError, match="1 sleepers did not run"):
        await clock.advance(10)
    assert clock.now() == 1010
    loop.close()
    sleeping.close()


def test_system_time_is_the_hosts_truncated(monkeypatch):
    """Seconds are cut, not rounded."""
    monkeypatch.setattr(time, "time", lambda: 1000.999)
    assert SystemClock().now() == 1000


class Host:
    """A host whose wall clock a test sets and whose sleeps it counts."""

    def __init__(self, monkeypatch, wall):
        self.wall = wall
        self.slept = []
        self.jumps = {}
        monkeypatch.setattr(time, "time", lambda: self.wall)
        monkeypatch.setattr(clock_module.asyncio, "sleep", self.sleep)

    async def sleep(self, seconds):
        """Let the wall clock do in no time what it would do in `seconds`."""
        self.slept.append(seconds)
        self.wall += seconds
        self.wall += self.jumps.pop(len(self.slept), 0)


def test_system_sleep_goes_in_slices(monkeypatch):
    """A sleep asks the wall clock at least once a second and ends at its time."""
    host = Host(monkeypatch, 1000.5)
    asyncio.run(SystemClock().sleep_until(1003))
    assert host.slept == [0, 1.0, 1.0, 0.5]


def test_system_sleep_survives_a_clock_set_forward(monkeypatch):
    """A clock that jumps past the time ends the sleep within a second."""
    host = Host(monkeypatch, 1000.0)
    host.jumps = {2: 100_000}
    asyncio.run(SystemClock().sleep_until(5000))
    assert host.slept == [0, 1.0]


def test_system_sleep_survives_a_clock_set_back(monkeypatch):
    """A clock that jumps back makes the sleep longer: it never ends early."""
    host = Host(monkeypatch, 1000.0)
    host.jumps = {2: -2}
    asyncio.run(SystemClock().sleep_until(1002))
    assert host.slept == [0, 1.0, 1.0, 1.0, 1.0]
    assert host.wall >= 1002


@pytest.mark.parametrize("t", [FOREVER, 10**12])
async def test_a_far_future_can_be_slept_for(t):
    """A time at the end of i64 is waited for like any other, until cancelled."""
    task = asyncio.create_task(SystemClock().sleep_until(t))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
