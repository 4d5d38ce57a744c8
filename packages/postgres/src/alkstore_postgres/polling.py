"""Wakes where LISTEN does not work: a look at the tables, again and again.

It says of queues that work is ready, of streams that there are later events, of schedules that
they are others than before. Nothing in the tables tells of a notified channel.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from alkstore_core import Closed, DatabaseError
from alkstore_core.hub import Hub
from alkstore_core.names import SCHEDULER_LOCK
from alkstore_core.spi import Fired, Topic
from alkstore_core.sql._jobs import as_json
from alkstore_core.sql.signals import READY_QUEUES, SCHEDULES_STATE, STREAM_TAILS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from alkstore_core.spi import Subscription, TopicKind
    from alkstore_core.sql.op import Op

_log = logging.getLogger(__name__)

LATEST: Final = 30.0
"""Seconds between two looks at most, while the database does not answer."""

NO_CHANNELS: Final = (
    "this store looks at the tables instead of listening (poll_interval), and a notify leaves "
    "nothing there: give listen_url, an address where LISTEN works, instead of poll_interval"
)

Seen = dict[Topic, Any]
"""Topics that may be worth a wake, each with what was seen of it."""


def look(topics: Sequence[Topic]) -> Op[Seen]:
    """What there is on `topics`; each statement may have a transaction of its own."""
    wanted: dict[TopicKind, list[str]] = {}
    for topic in topics:
        wanted.setdefault(topic.kind, []).append(topic.name)
    seen: Seen = {}
    if "stream" in wanted:
        rows = (yield STREAM_TAILS, {"streams": as_json(wanted["stream"])}).rows
        seen |= {Topic("stream", name): tail for name, tail in rows if tail is not None}
    if "queue" in wanted:
        rows = (yield READY_QUEUES, {"queues": as_json(wanted["queue"])}).rows
        seen |= {Topic("queue", name): None for (name,) in rows}
    if "schedules" in wanted:
        (state,) = (yield SCHEDULES_STATE, {"leadership": SCHEDULER_LOCK}).rows
        seen |= {Topic("schedules", name): state for name in wanted["schedules"]}
    return seen


class PollingSignals(Hub):
    """A hub that looks for itself, while somebody waits.

    An event that commits behind a later one is no news to it: readers that such an event held
    back look again by themselves.
    """

    def __init__(
        self, look: Callable[[Sequence[Topic]], Awaitable[Seen]], interval: float, describe: str
    ) -> None:
        """Prepare; `look` runs the op of that name."""
        super().__init__()
        self._look = look
        self._interval = interval
        self._describe = describe
        self._task: asyncio.Task[None] | None = None
        self._schedules: Seen = {}

    async def subscribe(self, topic: Topic) -> Subscription:
        """Attach to a topic; events that are visible by now are old news.

        Raises:
            DatabaseError: the topic is a channel, or the database refused.

        """
        if topic.kind == "channel":
            raise DatabaseError(NO_CHANNELS)
        seen = await self._look((topic,))
        if topic.kind == "schedules":
            self._schedules.setdefault(topic, seen[topic])
        subscription = self.attach(topic, seen.get(topic) or 0 if topic.kind == "stream" else 0)
        if self._task is None and topic in self.topics:
            self._task = asyncio.get_running_loop().create_task(self._run())
        return subscription

    def changed(self) -> None:
        """Look no more once nobody waits."""
        if not self._topics and self._task is not None:
            self._task.cancel()
            self._task = None

    async def end(self) -> None:
        """End every subscription and the looking."""
        task = self._task
        self.close()
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    async def _run(self) -> None:
        failures = 0
        while True:
            pause = min(self._interval * 2 ** min(failures, 16), max(LATEST, self._interval))
            await asyncio.sleep(pause)
            try:
                seen = await self._look(tuple(self.topics))
            except Closed:
                return
            except Exception as error:  # noqa: BLE001 - nothing may end wakes for ever
                failures += 1
                _log.warning("cannot look for news: %s", error)
                continue
            if failures:
                failures = 0
                _log.info("looking for news in the %s again", self._describe)
                self.fire_all(Fired.RECONNECTED)
            self._tell(seen)

    def _tell(self, seen: Seen) -> None:
        for topic, what in seen.items():
            if topic.kind == "stream":
                self.fire(topic, what)
            elif topic.kind == "queue" or self._schedules.get(topic) != what:
                self.fire(topic)
            if topic.kind == "schedules":
                self._schedules[topic] = what
