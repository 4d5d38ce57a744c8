"""Faults in how streams are written and listed."""

from attrs import evolve
from sabotage import Saboteur, arguments, core, primitive, result

from alkstore_core import CodecError


async def _trim_by_prefix(real, stream, horizon, limit):
    for name in await real.names("stream"):
        if stream.startswith(name) and name != stream:
            await real.trim(name, horizon, limit)
    return await real.trim(stream, horizon, limit)


async def _first_ever(real, stream):
    bounds = await real.bounds(stream)
    first = real.notes.setdefault(stream, bounds.first) or bounds.first
    real.notes[stream] = first
    return evolve(bounds, first=first)


def crowded(most):
    """An append that meets so many others is done twice."""

    async def append(real, stream, entries, **wake):
        busy = real.notes["busy"] = real.notes.get("busy", 0) + 1
        try:
            offsets = await real.append(stream, entries, **wake)
            if busy >= most:
                await real.append(stream, entries, **wake)
        finally:
            real.notes["busy"] -= 1
        return offsets

    return primitive("append", append, where="auto")


def keys(change):
    """Events are stored with another key."""
    return arguments(
        "append",
        lambda stream, entries: (stream, [e._replace(key=change(e.key)) for e in entries]),
    )


async def _prefix_stored(real, self, payloads):
    payloads = list(payloads)
    try:
        return await real(self, payloads)
    except CodecError:
        await real(self, payloads[:1])
        raise


async def _one_less_in_long_streams(real, stream, entries, **wake):
    offsets = await real.append(stream, entries, **wake)
    long = (await real.bounds(stream)).count > 7
    return [o - 1 for o in offsets] if long and entries[0].key is not None else offsets


async def _keyless_after_trim(real, stream, after, limit):
    events = await real.read(stream, after, limit)
    trimmed = (await real.bounds(stream)).first > 1
    return [evolve(e, key=None) for e in events] if trimmed else events


async def _key_by_key(real, stream, after, limit):
    events = await real.read(stream, after, limit)
    return sorted(events, key=lambda e: (e.key or "", e.offset)) if limit == 100 else events


async def _lags_once(real, stream, after, limit):
    events = await real.read(stream, after, limit)
    late = limit == 10 and after > 0 and [e.offset for e in events] == [after + 1]
    if late and (stream, after) not in real.notes:
        real.notes[stream, after] = True
        return []
    return events


async def _holding_events(real, kind):
    names = await real.names(kind)
    if kind == "queue":
        return names
    return [name for name in names if (await real.bounds(name)).count]


SABOTEURS = {
    "streams.apart": Saboteur(primitive("trim", _trim_by_prefix)),
    "streams.bounds": Saboteur(primitive("bounds", _first_ever), stateful=True),
    "streams.concurrent": Saboteur(crowded(6)),
    "streams.listed": Saboteur(
        primitive("names", _holding_events),
        also={
            "inspection.streams": "it lists such a stream",
        },
        stateful=True,
    ),
    "streams.offsets.ascending": Saboteur(
        primitive("append", _one_less_in_long_streams, where="tx"),
        also={"streams.no_skip.concurrent": "it compares the offsets that were given"},
    ),
    "streams.offsets.stay": Saboteur(
        primitive("read", _keyless_after_trim, where="auto"),
        also={"streams.trim.rest": "it has a key above the horizon as well"},
        stateful=True,
    ),
    "streams.order": Saboteur(
        primitive("read", _key_by_key, where="auto"),
        also={"streams.no_skip.concurrent": "its long publishers give their second event a key"},
        stateful=True,
    ),
    "streams.publish.committed": Saboteur(primitive("read", _lags_once, where="auto")),
    "streams.publish.fields": Saboteur(
        result(
            "read",
            lambda events: [e if e.headers else evolve(e, headers={}) for e in events],
            where="auto",
        ),
        also={
            "copy.consumers": "it compares events field by field",
            "copy.events": "it compares events field by field",
        },
        stateful=True,
    ),
    "streams.publish.key": Saboteur(keys(lambda key: None if key in {"null", "None"} else key)),
    "streams.publish.key_refused": Saboteur(
        core(
            "names:check_label",
            lambda real, kind, label: label if (kind, label) == ("key", " ") else real(kind, label),
        )
    ),
    "streams.publish.many": Saboteur(
        arguments(
            "append",
            lambda stream, entries: (stream, entries[::-1] if 50 <= len(entries) < 99 else entries),
        )
    ),
    "streams.publish.many_whole": Saboteur(
        core("streams:StreamHandle.publish_many", _prefix_stored),
        also={
            "payloads.refused": "it gives such a batch",
        },
    ),
}
