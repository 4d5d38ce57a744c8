"""Looking again where a read had to hold events back.

What a read waits for is the end of somebody's transaction. One that commits notifies; one that
rolls back, or only holds a note in another stream's name, says nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from alkstore_core.spi import Topic

if TYPE_CHECKING:
    from alkstore_core.hub import Hub

SOONEST: Final = 0.02
LATEST: Final = 1.0
"""Seconds after which a stream's subscribers read again; doubled each time, between these."""

FORGET: Final = 2.0
"""A stream that held nothing back for so long begins anew at the soonest."""


class Rechecks:
    """At most one alarm per stream."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._alarms: dict[str, asyncio.TimerHandle] = {}
        self._pauses: dict[str, tuple[float, float]] = {}

    def after_cut(self, stream: str) -> None:
        """Wake the stream's subscribers in a moment, if there are any."""
        topic = Topic("stream", stream)
        if stream in self._alarms or topic not in self._hub.topics:
            return
        loop = asyncio.get_running_loop()
        pause, last = self._pauses.get(stream, (SOONEST / 2, 0.0))
        pause = SOONEST if loop.time() - last > FORGET else min(pause * 2, LATEST)
        self._pauses[stream] = pause, loop.time() + pause
        self._alarms[stream] = loop.call_later(pause, self._ring, topic)

    def close(self) -> None:
        """Ring no more."""
        for alarm in self._alarms.values():
            alarm.cancel()
        self._alarms.clear()

    def _ring(self, topic: Topic) -> None:
        self._alarms.pop(topic.name, None)
        if topic in self._hub.topics:
            self._hub.fire(topic)
        else:
            self._pauses.pop(topic.name, None)
