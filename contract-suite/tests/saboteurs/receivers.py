"""Faults in receivers."""

import asyncio
import threading
import weakref

from sabotage import Saboteur, core, facts

from alkstore_core import Wake
from alkstore_core.spi import Fired

_attached = weakref.WeakKeyDictionary()


def _fourth_is_deaf(real, self, topic, *mark):
    counts = _attached.setdefault(self, {})
    counts[topic] = counts.get(topic, 0) + 1
    subscription = real(self, topic, *mark)
    if topic.kind == "channel" and counts[topic] >= 4:
        self._detach(topic, self._next)
    return subscription


async def _stays_open(real, self, *error):
    pass


async def _cancelled_with_its_wake(real, self):
    try:
        return await real(self)
    except asyncio.CancelledError:
        self._pending = None
        raise


def _ends_in_silence(real, self):
    release, self._release = self._release, lambda: None
    try:
        real(self)
    finally:
        self._release = release


_asked = weakref.WeakKeyDictionary()


async def _revived(real, self):
    if self._ended:
        count = _asked[self] = _asked.get(self, 0) + 1
        if count > 1:
            return Wake(channel=self._channel)
    return await real(self)


async def _never_over(real, self):
    return await self.recv()


def _one_by_one(real, self, fired, mark):
    if self._pending is None or fired is not Fired.SIGNALLED:
        real(self, fired, mark)
        return
    loop = asyncio.get_running_loop()

    def later():
        if self._pending is None:
            real(self, fired, None)
        elif self._pending is Fired.SIGNALLED:
            loop.call_soon(later)

    loop.call_soon(later)


def _takes_its_neighbours(real, self, topic, number):
    self._topics.pop(topic, None)
    self.changed()


def _only_the_first(real, self, topic, fired):
    members = self._topics.get(topic, {})
    kept = dict(list(members.items())[:1])
    if fired is Fired.SIGNALLED and members:
        self._topics[topic] = kept
    real(self, topic, fired)
    if members:
        self._topics[topic] = members


async def _noted_only(real, stop, reference):
    await stop.wait()
    receiver = reference()
    if receiver is not None:
        receiver._ended = True


def _stop_is_for_later(real, self, runtime, subscription, stop):
    real(self, runtime, subscription, None if stop is not None and stop.stopped else stop)


def _deaf_to_threads(real, self):
    if threading.current_thread() is threading.main_thread():
        real(self)
    else:
        self._stopped = True


SABOTEURS = {
    "receivers.attached": Saboteur(
        core("hub:Hub.attach", _fourth_is_deaf),
        also={
            "notify.readable": "it listens five times",
            "notify.many_channels": "its witness listens more often than that",
        },
    ),
    "receivers.block": Saboteur(core("completion:Attaching.__aexit__", _stays_open)),
    "receivers.cancelled": Saboteur(core("hub:HubSubscription.wait", _cancelled_with_its_wake)),
    "receivers.close": Saboteur(
        core("hub:HubSubscription.close", _ends_in_silence),
        also={
            "receivers.stop": "it ends a receiver that waits",
            "receivers.stop.thread": "it ends receivers that wait",
            "lifecycle.close.receivers": "it ends receivers that wait",
        },
    ),
    "receivers.final": Saboteur(core("wakes:WakeReceiver.recv", _revived)),
    "receivers.iteration": Saboteur(
        core("wakes:WakeReceiver.__anext__", _never_over),
        also={"lifecycle.close.receivers": "it iterates to the end"},
    ),
    "receivers.level": Saboteur(core("hub:HubSubscription.fire", _one_by_one)),
    "receivers.neighbours": Saboteur(
        core("hub:Hub._detach", _takes_its_neighbours),
        also={
            "receivers.final": "it closes a receiver beside another",
            "receivers.stop.thread": "it stops two of three receivers",
            "scheduler.fire.unscheduled": "one of its runners ends beside another",
            "scheduler.standby": "one of its runners ends beside another",
            "scheduler.two_runners": "one of its runners ends beside another",
        },
        stateful=True,
    ),
    "receivers.sever": Saboteur(facts(receiver_closes_on="loss")),
    "receivers.several": Saboteur(
        core("wakes:QueueWakes.announce", _only_the_first),
        also={"concurrency.tasks": "its workers wait for one queue"},
        stateful=True,
    ),
    "receivers.stop": Saboteur(
        core("receiving:_end_on", _noted_only),
        also={"receivers.stop.thread": "its receivers wait as well"},
    ),
    "receivers.stop.before": Saboteur(core("receiving:Receiver.__init__", _stop_is_for_later)),
    "receivers.stop.thread": Saboteur(core("stop:StopToken.stop", _deaf_to_threads)),
}
