"""Faults in signals."""

import asyncio

from sabotage import Saboteur, core, primitive

from alkstore_core import CodecError, PayloadTooLarge
from alkstore_core.hub import Hub
from alkstore_core.spi import Fired, Topic


def _queues_too(real, self, topic, *mark):
    real(self, topic, *mark)
    if topic.kind == "queue":
        real(self, Topic("channel", topic.name), *mark)


def channels(change):
    """Signals go to the channels that `change` makes of a name."""

    def signal(real, topics):
        return real.signal(
            [Topic("channel", name) for topic in topics for name in change(topic.name)]
        )

    return primitive("signal", signal)


def _soon(work, hops=40):
    """Try again in each of so many turns of the loop, until it says that it is done."""
    if not work() and hops:
        asyncio.get_running_loop().call_soon(_soon, work, hops - 1)


def _kept_for_the_next(real, self, topic, *mark):
    if topic.kind != "channel" or topic in self._topics:
        real(self, topic, *mark)
        return

    def fire():
        real(self, topic, *mark)
        return topic in self._topics

    _soon(fire)


def _handed_over(real, self):
    unread = self._pending is Fired.SIGNALLED
    cells = [cell.cell_contents for cell in getattr(self._on_close, "__closure__", None) or ()]
    real(self)
    hubs = [one for one in cells if type(one) is not Topic and isinstance(one, Hub)]
    topics = [one for one in cells if isinstance(one, Topic) and one.kind == "channel"]
    if unread and hubs and topics:
        hub, topic = hubs[0], topics[0]

        def fire():
            hub.fire(topic)
            return topic in hub._topics

        _soon(fire)


async def _few_at_once(real):
    for topic in list(real._woken)[4:]:
        del real._woken[topic]
    await real.commit()


_fired = {}


def _fortieth_lost(real, self, topic, *mark):
    if topic.kind == "channel":
        count = _fired[id(self), topic] = _fired.get((id(self), topic), 0) + 1
        if count == 40:
            return
    real(self, topic, *mark)


def _any_payload(real, channel, payload, limit):
    try:
        return real(channel, payload, limit)
    except CodecError:
        return real(channel, None, limit)


def limited(most):
    """More bytes than that are refused."""

    def notify(real, channel, payload, limit):
        topics = real(channel, payload, limit)
        if isinstance(payload, str) and len(payload) > most:
            raise PayloadTooLarge(most, len(payload))
        return topics

    return core("requests:notify", notify)


async def _too_early(real, topics):
    first = not real._driver._log
    await real.signal(topics)
    if first:
        await real.engine.auto.signal(topics)


async def _nothing_written_nothing_told(real):
    if not real._driver._log:
        real._woken.clear()
    await real.commit()


async def _told_all_the_same(real):
    topics = [] if real._spent else list(real._woken)
    await real.rollback()
    await real.engine.auto.signal([topic for topic in topics if topic.kind == "channel"])


def _first_come(real, self, topic, *mark):
    members = self._topics.get(topic)
    if topic.kind != "channel" or not members:
        real(self, topic, *mark)
        return
    first = next(iter(members.values()))()
    if first is not None:
        first.fire(Fired.SIGNALLED, *mark)


async def _only_bare(real, self, channel, payload=None):
    if not isinstance(payload, dict):
        await real(self, channel, payload)


SABOTEURS = {
    "notify.apart": Saboteur(
        core("hub:Hub.fire", _queues_too),
        also={"names.kinds_wake": "it is the same promise, seen from the names"},
    ),
    "notify.channel": Saboteur(
        channels(lambda name: [name[:63]]),
        also={
            "names.longest_channel": "its name is longer",
            "notify.other_channel": "two of its names are longer",
        },
    ),
    "notify.from_now": Saboteur(
        core("hub:Hub.fire", _kept_for_the_next),
        also={"notify.readable": "it counts on a listener of its own turn"},
    ),
    "notify.many_channels": Saboteur(primitive("commit", _few_at_once)),
    "notify.no_replay": Saboteur(core("hub:HubSubscription.close", _handed_over)),
    "notify.none_missed": Saboteur(core("hub:Hub.fire", _fortieth_lost)),
    "notify.other_channel": Saboteur(channels(lambda name: {name, name.strip()})),
    "notify.payload.codec": Saboteur(
        core("requests:notify", _any_payload),
        also={
            "payloads.refused": "its payload is no JSON",
            "payloads.refused_tx": "its payload is no JSON",
        },
    ),
    "notify.payload.limit": Saboteur(
        limited(300_000), also={"notify.payload.tx": "its payload is even larger"}
    ),
    "notify.payload.tx": Saboteur(limited(450_000)),
    "notify.readable": Saboteur(
        primitive("signal", _too_early, where="tx"),
        also={
            "notify.tx.commit": "its signal comes too early as well",
            "notify.tx.rollback": "its signal comes although it never should",
        },
        stateful=True,
    ),
    "notify.tx.commit": Saboteur(
        primitive("commit", _nothing_written_nothing_told),
        also={"notify.many_channels": "it signals and writes nothing"},
    ),
    "notify.tx.rollback": Saboteur(
        primitive("rollback", _told_all_the_same),
        also={
            "transactions.rollback": "its rollback wakes as well",
            "transactions.dropped": "so does its loss",
        },
        stateful=True,
    ),
    "notify.two": Saboteur(
        core("hub:Hub.fire", _first_come),
        also={"receivers.several": "it has several listeners"},
        stateful=True,
    ),
    "notify.wakes": Saboteur(
        core("store:Store.notify", _only_bare),
        also={
            "notify.payload.codec": "its dict is not looked at",
            "payloads.refused": "its dict is not looked at",
        },
    ),
}
