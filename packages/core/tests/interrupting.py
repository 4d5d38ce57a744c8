"""Threads that call a blocking store, and those that interrupt the main one when it does."""

import asyncio
import threading


def in_thread(function, *args):
    """Call a function in a thread of its own; the thread, begun."""
    thread = threading.Thread(target=function, args=args)
    thread.start()
    return thread


async def opened(gate):
    """Open a gate, on its loop."""
    gate.open()


def interrupt_at(blocking, gate, interrupt, *, opens=True):
    """Interrupt the main thread once a primitive has come to the gate; then open that."""

    def wait():
        blocking.call(gate.reached.wait)
        interrupt()
        if opens:
            # The cancellation is on its way first, or together with the result.
            blocking.call(asyncio.sleep, 0.05)
            blocking.call(opened, gate)

    return in_thread(wait)


def interrupt_twice_at(blocking, gate, interrupt):
    """Interrupt the main thread at the gate, and again while it waits for the end of that."""

    def wait():
        blocking.call(gate.reached.wait)
        interrupt()
        interrupt()

    return in_thread(wait)
