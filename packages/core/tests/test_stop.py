"""Stop tokens: stopped once, for everybody."""

import asyncio
import gc
import signal
import threading

import pytest

from alkstore_core.stop import StopToken


async def settle():
    """Let every task run up to its next await."""
    for _ in range(3):
        await asyncio.sleep(0)


def test_a_fresh_token_is_not_stopped():
    """Nothing has stopped before `stop`."""
    assert StopToken().stopped is False


async def test_stop_releases_every_task():
    """All tasks that wait go on, and so does who waits later."""
    token = StopToken()
    tasks = [asyncio.create_task(token.wait()) for _ in range(20)]
    await settle()
    assert not any(task.done() for task in tasks)
    token.stop()
    await asyncio.gather(*tasks)
    await token.wait()
    assert token.stopped is True


async def test_stop_twice_is_stop_once():
    """A second `stop` changes nothing."""
    token = StopToken()
    task = asyncio.create_task(token.wait())
    await settle()
    token.stop()
    token.stop()
    await task
    token.stop()
    assert token.stopped is True


async def test_a_cancelled_wait_leaves_nothing_behind():
    """After 10,000 cancelled waits the token holds no waiter."""
    token = StopToken()
    for _ in range(100):
        tasks = [asyncio.create_task(token.wait()) for _ in range(100)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert len(token._waiters) == 0


async def test_a_finished_wait_leaves_nothing_behind():
    """After the stop the token holds no waiter either."""
    token = StopToken()
    task = asyncio.create_task(token.wait())
    await settle()
    token.stop()
    await task
    assert len(token._waiters) == 0


async def test_a_wait_cancelled_while_it_is_released_ends_cancelled():
    """Stop and cancel in the same turn: the task is cancelled, the token stays usable."""
    token = StopToken()
    task = asyncio.create_task(token.wait())
    await settle()
    token.stop()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await token.wait()


def test_one_token_serves_several_loops():
    """Tasks on the loops of several threads are released by one stop from another thread."""
    token = StopToken()
    ready = threading.Barrier(5)

    async def main():
        task = asyncio.create_task(token.wait())
        await asyncio.sleep(0)
        await asyncio.to_thread(ready.wait)
        await task

    threads = [threading.Thread(target=asyncio.run, args=[main()]) for _ in range(4)]
    for thread in threads:
        thread.start()
    ready.wait()
    token.stop()
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)


def test_a_loop_that_closed_around_its_waiter_does_not_hinder():
    """`stop` reaches the living although a waiter's loop is gone."""
    token = StopToken()
    loop = asyncio.new_event_loop()
    waiting = token.wait()
    loop.call_soon(waiting.send, None)
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    assert len(token._waiters) == 1
    token.stop()
    assert token.stopped is True
    waiting.close()
    assert len(token._waiters) == 0
    gc.collect()


async def test_stop_may_run_in_a_signal_handler():
    """A handler installed with `signal.signal` stops a waiting task."""
    token = StopToken()
    before = signal.signal(signal.SIGUSR1, lambda *_: token.stop())
    try:
        task = asyncio.create_task(token.wait())
        await settle()
        signal.raise_signal(signal.SIGUSR1)
        await task
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert token.stopped is True
