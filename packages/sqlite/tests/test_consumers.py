"""Consumer processes that are killed: one is live, its successor follows, nothing counts twice."""

import asyncio
import random
import signal

import pytest

from alkstore_sqlite import SqliteStore

# The lease, a third of it until somebody looks, whole seconds, and a machine that is busy.
TAKEOVER_S = 3 + 1 + 1 + 15


class Crew:
    """Consumer processes, and which event each of them began last."""

    def __init__(self, spawn, path):
        self._spawn, self._path = spawn, path
        self.began = {}
        self.hearing = []
        self.heard = asyncio.Event()

    async def join(self):
        """Start one."""
        child = self._spawn("consuming.py", self._path)
        await child.expect("ready")
        self.hearing.append(asyncio.create_task(self._hear(child)))

    async def _hear(self, child):
        while (line := await child.line(within=100)) is not None:
            word, *numbers = line.split()
            if word == "began":
                self.began[child] = int(numbers[0])
                self.heard.set()

    async def live(self, after):
        """The process that began an event above a number."""
        async with asyncio.timeout(TAKEOVER_S):
            while True:
                for child, number in self.began.items():
                    if number > after and child.process.poll() is None:
                        return child
                self.heard.clear()
                await self.heard.wait()


@pytest.mark.once
@pytest.mark.timeout(400)
async def test_each_event_counts_once_whoever_is_killed(path, spawn, sql, scaled):
    """SIGKILL of the live one, in the middle of its transactions: effects are there once, in order.

    A successor follows within its lease and a third; at SIGTERM another one follows at once.
    """
    kills, each = scaled(3, 20), 300
    dice = random.Random(3)
    sql("CREATE TABLE effects (n INTEGER)")
    async with SqliteStore(path) as store:
        news = store.stream("news")
        crew = Crew(spawn, path)
        for _ in range(2):
            await crew.join()
        made = 0
        for number in range(kills):
            await news.publish_many(range(made, made + each))
            live = await crew.live(after=made - 1)
            made += each
            await asyncio.sleep(dice.uniform(0, 0.3))
            live.process.send_signal(signal.SIGTERM if number == 1 else signal.SIGKILL)
            await crew.join()
        async with asyncio.timeout(2 * TAKEOVER_S):
            while await news.get_offset("notes") < made:  # noqa: ASYNC110 - others save it
                await asyncio.sleep(0.02)
    for task in crew.hearing:
        task.cancel()
    await asyncio.gather(*crew.hearing, return_exceptions=True)

    assert [(n,) for n in range(made)] == sql("SELECT n FROM effects ORDER BY rowid")
