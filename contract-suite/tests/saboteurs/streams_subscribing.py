"""Faults in subscriptions and in trims."""

import asyncio
import weakref

from attrs import evolve
from rowops import write
from sabotage import Saboteur, arguments, core, primitive

from alkstore_core.spi import Fired
from saboteurs.streams import crowded
from saboteurs.streams_reading import rewind

GREATEST = 2**63 - 1
YEAR = 365 * 86_400


async def _set_back(real, self):
    await real(self)
    if self._last is not None:
        auto = self._runtime.engine.auto
        await rewind(auto, self._stream.name, self._consumer, self._last)


async def _saves_nothing_read(real, self):
    if self._last is None:
        await self._stream.save_offset(self._consumer, self._position)
    await real(self)


def _deaf_while_attaching(real, self, *args):
    real(self, *args)
    if self._subscription._pending is Fired.SIGNALLED:
        self._subscription._pending = None
        self._unread = False


async def _fourth_unannounced(real, stream, entries, **wake):
    if len(entries) == 1 and (await real.bounds(stream)).count == 3:
        wake = {}
    return await real.append(stream, entries, **wake)


async def _follows_the_saved_offset(real, self):
    saved = await self._stream.get_offset(self._consumer)
    self._position = max(self._position, saved)
    await real(self)


async def _deaf_while_reading(real, self):
    await real(self)
    for _ in range(3):
        await asyncio.sleep(0)
    if self._buffer and self._subscription._pending is Fired.SIGNALLED:
        self._subscription._pending = None


async def _one_page(real, self):
    await real(self)
    self._unread = False


def _once_more(real, self, stream, consumer, position, *args):
    real(self, stream, consumer, max(position - 1, 0), *args)


_given = weakref.WeakKeyDictionary()


def _other_has_it(self, offset):
    mine = self._stream.name, self._consumer, id(self._runtime)
    return any(
        offset in given and other is not self and not other._ended
        for other, given in _given.items()
        if (other._stream.name, other._consumer, id(other._runtime)) == mine
    )


async def _shared_out(real, self):
    event = await real(self)
    while event is not None and _other_has_it(self, event.offset):
        event = await real(self)
    if event is not None:
        _given.setdefault(self, set()).add(event.offset)
    return event


async def _batches_unannounced(real, stream, entries, **wake):
    return await real.append(stream, entries, **({} if len(entries) > 1 else wake))


async def _first_stays(real, stream, horizon, limit):
    first = (await real.bounds(stream)).first
    return 0 if horizon == first else await real.trim(stream, horizon, limit)


async def _last_uncounted(real, stream, horizon, limit):
    count = await real.trim(stream, horizon, limit)
    return count - 1 if count and not (await real.bounds(stream)).count else count


async def _sequence_restarts(real, stream, horizon, limit):
    count = await real.trim(stream, horizon, limit)
    await write(
        real.engine,
        "DELETE FROM sqlite_sequence WHERE name = '__alkstore_events'"
        " AND NOT EXISTS (SELECT 1 FROM __alkstore_events)",
    )
    return count


async def _year_kept(real, stream, entries, **wake):
    offsets = await real.append(stream, entries, **wake)
    for event in await real.read(stream, 0, 10):
        if event.created_at < real.engine.clock.now() - YEAR:
            await real.trim(stream, event.offset, 1)
    return offsets


async def _both_of_two(real, stream, horizon, limit):
    bounds = await real.bounds(stream)
    count = await real.trim(stream, horizon, limit)
    if bounds.count == 2 and horizon == bounds.first:
        await real.trim(stream, bounds.last, limit)
    return count


async def _headless_after_trim(real, stream, after, limit):
    events = await real.read(stream, after, limit)
    trimmed = (await real.bounds(stream)).first > 1
    return [evolve(e, headers=None) for e in events] if trimmed else events


async def _emptied_is_forgotten(real, stream, entries, **wake):
    if stream in real.notes and not (await real.bounds(stream)).count:
        wake = {}
    real.notes[stream] = True
    return await real.append(stream, entries, **wake)


async def _twice_after_waiting(real, stream, entries, **wake):
    waits = real.engine._database.transaction is not None
    offsets = await real.append(stream, entries, **wake)
    if waits and len(entries) == 1:
        await real.append(stream, entries, **wake)
    return offsets


async def _held_up_by_any(real, stream, after, limit):
    if real.engine._database.transaction is not None:
        await asyncio.sleep(0)
        return []
    return await real.read(stream, after, limit)


SABOTEURS = {
    "streams.no_skip.concurrent": Saboteur(
        crowded(2),
        also={
            "transactions.writers.other_tasks": "its writes meet as well",
            "streams.concurrent": "it has as many publishers",
            "streams.no_skip.subscribers": "it has as many publishers",
        },
    ),
    "streams.no_skip.elsewhere": Saboteur(
        primitive("read", _held_up_by_any, where="auto"),
        also={
            "transactions.commit.at_once": "it reads while transactions are open",
        },
        stateful=True,
    ),
    "streams.no_skip.open": Saboteur(
        primitive("append", _twice_after_waiting, where="auto"),
        also={"streams.no_skip.concurrent": "its publishers wait for one another as well"},
    ),
    "streams.no_skip.subscribers": Saboteur(
        crowded(4), also={"streams.concurrent": "it has as many publishers"}
    ),
    "streams.save.interleaved": Saboteur(core("streams:EventReceiver.save_offset", _set_back)),
    "streams.save.receiver": Saboteur(
        core("streams:EventReceiver.save_offset", _saves_nothing_read)
    ),
    "streams.subscribe.attaching": Saboteur(
        core("streams:EventReceiver.__init__", _deaf_while_attaching)
    ),
    "streams.subscribe.live": Saboteur(
        primitive("append", _fourth_unannounced, where="auto"),
        also={
            "receivers.cancelled": "it waits for the fourth event",
            "streams.subscribe.reading": "its second subscriber waits for the fourth event",
        },
    ),
    "streams.subscribe.own_place": Saboteur(
        core("streams:EventReceiver._read_page", _follows_the_saved_offset), stateful=True
    ),
    "streams.subscribe.reading": Saboteur(
        core("streams:EventReceiver._read_page", _deaf_while_reading)
    ),
    "streams.subscribe.replay": Saboteur(core("streams:EventReceiver._read_page", _one_page)),
    "streams.subscribe.resume": Saboteur(
        core("streams:EventReceiver.__init__", _once_more),
        also={"durability.streams": "a consumer comes back after a reopening"},
        stateful=True,
    ),
    "streams.subscribe.two": Saboteur(
        core("streams:EventReceiver.recv", _shared_out),
        also={"receivers.several": "two of its subscribers are one consumer's"},
        stateful=True,
    ),
    "streams.subscribe.tx": Saboteur(primitive("append", _batches_unannounced, where="tx")),
    "streams.trim.boundary": Saboteur(
        primitive("trim", _first_stays),
        also={
            "inspection.streams": "it trims just the first event",
            "streams.bounds": "it trims just the first event",
            "streams.offsets.stay": "it trims just the first event",
            "streams.trim.rest": "it trims just the first event",
            "streams.trim.open_tx": "it trims just the first event",
        },
        stateful=True,
    ),
    "streams.trim.huge": Saboteur(
        primitive("trim", _last_uncounted),
        also={
            "numbers.greatest_boundary": "it trims everything",
        },
        stateful=True,
    ),
    "streams.trim.many": Saboteur(
        arguments("trim", lambda stream, horizon, limit: (stream, horizon, min(limit, 500)))
    ),
    "streams.trim.negative": Saboteur(
        arguments(
            "trim", lambda stream, horizon, n: (stream, GREATEST if horizon == 0 else horizon, n)
        ),
        stateful=True,
    ),
    "streams.trim.never_reused": Saboteur(
        primitive("trim", _sequence_restarts),
        also={
            "copy.consumers": "it publishes to a stream that was trimmed whole",
            "streams.trim.subscriber": "its subscriber waits for a higher offset",
        },
        stateful=True,
    ),
    "streams.trim.nothing_else": Saboteur(primitive("append", _year_kept, where="auto")),
    "streams.trim.open_tx": Saboteur(primitive("trim", _both_of_two), stateful=True),
    "streams.trim.rest": Saboteur(
        primitive("read", _headless_after_trim, where="auto"), stateful=True
    ),
    "streams.trim.subscriber": Saboteur(primitive("append", _emptied_is_forgotten, where="auto")),
}
