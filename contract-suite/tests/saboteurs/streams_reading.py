"""Faults in how streams are read, and in what consumers have saved."""

from sabotage import Saboteur, arguments, core, primitive, result
from sqlalchemy import text

from alkstore_core.sql.op import Mode

GREATEST = 2**63 - 1


async def _again(real, stream, consumer, limit):
    offset = await real.get_offset(stream, consumer)
    return await real.read(stream, max(offset - 1, 0), limit)


async def _newest_only(real, stream, consumer, limit):
    events = await real.read_from(stream, consumer, limit)
    unknown = not await real.get_offset(stream, consumer)
    return events[1:] if unknown and 10 <= limit <= 100 and len(events) > 2 else events


async def _saves_what_it_reads(real, stream, consumer, limit):
    events = await real.read_from(stream, consumer, limit)
    if events:
        await real.save_offset(stream, consumer, events[-1].offset)
    return events


async def _ends_at_a_gap(real, stream, after, limit):
    events = await real.read(stream, after, limit)
    gap = limit == 1 and after > 0 and events and events[0].offset > after + 1
    return [] if gap else events


async def _place_gone(real, stream, after, limit):
    first = (await real.bounds(stream)).first
    return [] if 0 < after < first - 1 else await real.read(stream, after, limit)


def rewind(real, stream, consumer, offset):
    """Set a consumer back."""

    def change():
        yield (
            text(
                "UPDATE __alkstore_consumers SET offset = :offset"
                " WHERE stream = :stream AND consumer = :consumer"
            ),
            {"offset": offset, "stream": stream, "consumer": consumer},
        )

    return real._driver.run(Mode.WRITE, change)


async def _zero_resets(real, stream, consumer, offset):
    await real.save_offset(stream, consumer, offset)
    if offset == 0:
        await rewind(real, stream, consumer, 0)


async def _latest_save_wins(real, stream, consumer, offset):
    await real.save_offset(stream, consumer, offset)
    await rewind(real, stream, consumer, offset)


async def _latest_of_many_wins(real, stream, consumer, offset):
    busy = real.notes["busy"] = real.notes.get("busy", 0) + 1
    await real.save_offset(stream, consumer, offset)
    if busy > 2:
        await rewind(real, stream, consumer, offset)
    real.notes["busy"] -= 1


async def _not_beyond_the_end(real, stream, consumer, offset):
    if offset > 2**62:
        offset = (await real.bounds(stream)).last
    await real.save_offset(stream, consumer, offset)


async def _keeps_its_offsets(real):
    kept = []
    if not real._spent:
        for stream in await real.names("stream"):
            kept += await real.list_consumers(stream)
    await real.rollback()
    for position in kept:
        before = await real.engine.auto.get_offset(position.stream, position.consumer)
        if 0 < before < position.offset:
            await real.engine.auto.save_offset(position.stream, position.consumer, position.offset)


SABOTEURS = {
    "streams.consumer.apart": Saboteur(
        arguments("get_offset", lambda stream, consumer: (stream, consumer.strip()), where="auto"),
        also={
            "names.labels_kept": "it asks for a consumer of such a name",
        },
    ),
    "streams.consumer.limit": Saboteur(
        arguments(
            "read_from",
            lambda stream, consumer, n: (stream, consumer, n + (n == 2)),
            where="auto",
        ),
        stateful=True,
    ),
    "streams.consumer.listed": Saboteur(
        result("list_consumers", lambda found: sorted(found, key=lambda one: one.offset)),
        stateful=True,
    ),
    "streams.consumer.names": Saboteur(
        core(
            "requests:get_offset",
            lambda real, stream, consumer: real(stream, consumer or "all"),
        ),
        also={
            "names.labels": "it asks for a consumer of such a name",
        },
    ),
    "streams.consumer.read": Saboteur(
        primitive("read_from", _again, where="auto"),
        also={
            "copy.consumers": "it looks at what a consumer has not read",
            "copy.resumed": "it looks at what a consumer has not read",
            "streams.save.exactly_once": "its reader never comes to an end",
            "streams.save.total": "it reads after the event that was saved",
        },
        stateful=True,
    ),
    "streams.consumer.unknown": Saboteur(
        primitive("read_from", _newest_only, where="auto"),
        also={
            "payloads.claimed": "a consumer reads its events",
        },
        stateful=True,
    ),
    "streams.gaps": Saboteur(primitive("read", _ends_at_a_gap, where="auto"), stateful=True),
    "streams.read.after": Saboteur(
        arguments(
            "read",
            lambda stream, after, n: (stream, after + (n == 1 and after > 0), n),
            where="auto",
        ),
        also={
            "copy.consumers": "a copy looks at single events",
            "copy.events": "a copy looks at single events",
            "copy.resumed": "a copy looks at single events",
            "streams.no_skip.concurrent": "one of its followers reads event by event",
            "streams.offsets.stay": "it looks at one event",
        },
        stateful=True,
    ),
    "streams.read.limit": Saboteur(
        arguments(
            "read", lambda stream, after, n: (stream, after, n + (n in {2, 4})), where="auto"
        ),
        stateful=True,
    ),
    # From the end, as for a place in a list.
    "streams.read.total": Saboteur(
        arguments("read", lambda stream, after, n: (stream, GREATEST if after == -1 else after, n)),
        also={
            "numbers.any_boundary": "it reads from there",
        },
    ),
    "streams.save.exactly_once": Saboteur(primitive("rollback", _keeps_its_offsets), stateful=True),
    "streams.save.explicit": Saboteur(
        primitive("read_from", _saves_what_it_reads, where="auto"),
        also={
            "copy.consumers": "it looks at what a consumer has not read",
            "streams.consumer.read": "it reads a second time",
            "streams.save.exactly_once": "its reader goes on behind an effect that failed",
        },
        stateful=True,
    ),
    "streams.save.monotone": Saboteur(
        primitive("save_offset", _zero_resets, where="auto"), stateful=True
    ),
    "streams.save.parallel": Saboteur(primitive("save_offset", _latest_of_many_wins, where="auto")),
    "streams.save.total": Saboteur(primitive("save_offset", _not_beyond_the_end, where="auto")),
    "streams.save.tx": Saboteur(
        primitive("save_offset", _latest_save_wins, where="tx"),
        also={
            "streams.save.interleaved": "one of its saves is in a transaction",
            "streams.save.parallel": "some of its saves are",
        },
        stateful=True,
    ),
    "streams.trim.resume": Saboteur(primitive("read", _place_gone, where="auto"), stateful=True),
}
