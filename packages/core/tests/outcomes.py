"""One worker for each way in which a job may end, for those who want to hear of it."""

import asyncio
import threading

from dict_engine import until

from alkstore_core import CodecError, JobHandle, QueueOpts
from alkstore_core.worker import Fail, Retry, Worker


class Scenes:
    """Each method runs one job of queue `q` to its end, under a worker with these middlewares."""

    def __init__(self, engine, store, runs, clock):
        self._engine = engine
        self._clock = clock
        self._store = store
        self._runs = runs

    async def play(self, name, middlewares):
        """Enqueue the job, run the scene, and stop the worker."""
        self._over = False
        self._middlewares = [self._note, *middlewares]
        opts = QueueOpts(visibility_timeout_s=30, max_attempts=1 if name == "dead" else 3)
        await self._store.queue("q", opts).enqueue(1)
        running = await getattr(self, name)()
        await running.end()

    async def acked(self):
        """The handler returns."""

        async def handler(_):
            pass

        return await self._settled(handler)

    async def acked_in_a_thread(self):
        """The handler is a plain function."""
        return await self._settled(lambda _: None)

    async def retried(self):
        """The handler raises something."""
        return await self._settled(self._raising(ValueError("no route")))

    async def retried_by_retry(self):
        """The handler asks for it."""
        return await self._settled(self._raising(Retry("busy", delay=60)))

    async def dead(self):
        """The handler raises in the last attempt."""
        return await self._settled(self._raising(ValueError("no route")))

    async def dead_by_fail(self):
        """The handler says so."""
        return await self._settled(self._raising(Fail("no such address")))

    async def dead_by_its_payload(self):
        """The payload is no such thing."""
        return await self._settled(self._raising(CodecError("the payload is no int")))

    async def settled(self):
        """The handler settles the handle."""

        async def handler(handle: JobHandle):
            await handle.ack()

        return await self._settled(handler)

    async def timed_out(self):
        """The handler takes too long."""
        begun, handler = self._endless()
        running = self._work(handler, timeout=5)
        await until(lambda: begun)
        await self._asleep(1_005)
        await self._clock.advance(5)
        await until(lambda: not running.worker.running)
        return running

    async def timed_out_in_a_thread(self):
        """The plain function takes too long, and then returns."""
        begun, go = threading.Event(), threading.Event()

        def handler(_):
            begun.set()
            go.wait(60)

        running = self._work(handler, timeout=5)
        await asyncio.to_thread(begun.wait, 60)
        await self._asleep(1_005)
        await self._clock.advance(5)
        await until(lambda: running.worker._pulse._next() > 1_010)
        go.set()
        async with asyncio.timeout(30):
            while running.worker.running:  # noqa: ASYNC110 - the thread is of no loop.
                await asyncio.sleep(0.001)
        return running

    async def lost(self):
        """Somebody cancels the job, so its heartbeat is refused."""
        begun, handler = self._endless()
        running = self._work(handler)
        await until(lambda: begun)
        await self._store.queue("q").cancel(1)
        await self._asleep(1_010)
        await self._clock.advance(10)
        await until(lambda: not running.worker.running)
        return running

    async def released(self):
        """The grace period is over."""
        begun, handler = self._endless()
        running = self._work(handler, grace=7)
        await until(lambda: begun)
        running.stop.stop()
        await self._asleep(1_007)
        await self._clock.advance(7)
        return running

    async def released_to_its_lapse(self):
        """The grace period is over, and the thread still runs."""
        begun, go = threading.Event(), threading.Event()

        def handler(_):
            begun.set()
            go.wait(60)

        running = self._work(handler, grace=0)
        await asyncio.to_thread(begun.wait, 60)
        await running.end()
        await until(lambda: not running.worker.running)
        go.set()
        return running

    async def _note(self, _, call_next):
        try:
            return await call_next()
        finally:
            self._over = True

    def _work(self, handler, **options):
        return self._runs(
            Worker(self._store, "q", handler, middlewares=self._middlewares, **options)
        )

    async def _settled(self, handler):
        running = self._work(handler)
        async with asyncio.timeout(30):
            while not self._over or running.worker._pulse.runs:  # noqa: ASYNC110 - or a thread is.
                await asyncio.sleep(0)
        return running

    async def _asleep(self, due):
        await until(lambda: due in {sleeper.due for sleeper in self._clock._sleepers})

    def _raising(self, error):
        async def handler(_):
            raise error

        return handler

    def _endless(self):
        begun = []

        async def handler(payload):
            begun.append(payload)
            await asyncio.Event().wait()

        return begun, handler


# By scene: the outcome, whether it took too long, and what OpenTelemetry calls the error.
ENDINGS = {
    "acked": ("acked", False, None),
    "acked_in_a_thread": ("acked", False, None),
    "retried": ("retried", False, "ValueError"),
    "retried_by_retry": ("retried", False, "alkstore_core.worker.outcomes.Retry"),
    "dead": ("dead", False, "ValueError"),
    "dead_by_fail": ("dead", False, "alkstore_core.worker.outcomes.Fail"),
    "dead_by_its_payload": ("dead", False, "alkstore_core.errors.CodecError"),
    "settled": ("settled", False, None),
    "timed_out": ("retried", True, "timeout"),
    "timed_out_in_a_thread": ("retried", True, "timeout"),
    "lost": ("lost", False, "claim_lost"),
    "released": ("released", False, None),
    "released_to_its_lapse": ("released", False, None),
}
