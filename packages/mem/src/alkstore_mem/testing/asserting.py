"""Say what has to be in a store, and see what is there instead."""

from __future__ import annotations

import reprlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, final, overload

from alkstore_core import Job, JobState, Store, StreamEvent, decode_payload
from alkstore_core.sync import SyncStore
from alkstore_mem.testing.counting import check_number
from alkstore_mem.testing.likeness import ANYTHING, Anything, alike, pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from alkstore_core import JobSource

T = TypeVar("T")

PAGE: Final = 1000
SHOWN: Final = 20
"""So many jobs or events a failure shows; that there are more is said."""


@final
class _Unknown:
    """What of a job cannot be told any more; it is like nothing but what is left open."""

    def __repr__(self) -> str:
        return "unknown since it was tried"


UNKNOWN: Final = _Unknown()


@overload
def assert_enqueued(
    store: Store,
    queue: str | None = None,
    payload: Any = ANYTHING,
    *,
    outbox: str | None = None,
    count: int | None = None,
    priority: int = ANYTHING,
    delay: int = ANYTHING,
    run_at: int = ANYTHING,
    max_attempts: int = ANYTHING,
    expires: int | None = ANYTHING,
    headers: dict[str, str] | None = ANYTHING,
) -> Coroutine[Any, Any, list[Job]]: ...
@overload
def assert_enqueued(
    store: SyncStore[Any],
    queue: str | None = None,
    payload: Any = ANYTHING,
    *,
    outbox: str | None = None,
    count: int | None = None,
    priority: int = ANYTHING,
    delay: int = ANYTHING,
    run_at: int = ANYTHING,
    max_attempts: int = ANYTHING,
    expires: int | None = ANYTHING,
    headers: dict[str, str] | None = ANYTHING,
) -> list[Job]: ...
def assert_enqueued(
    store: Store | SyncStore[Any],
    queue: str | None = None,
    payload: Any = ANYTHING,
    *,
    outbox: str | None = None,
    count: int | None = None,
    **opts: Any,
) -> Coroutine[Any, Any, list[Job]] | list[Job]:
    """The queue, or the outbox, holds a live job like this; returns all that are like it, by id.

    Awaited for a `Store`, blocking for a `SyncStore`. With `count` there are exactly so many,
    also 0. `payload` is compared as JSON has it, dataclasses and attrs included: the order of
    keys means nothing, and `True`, `1` and `1.0` are three values. The options are those that it
    was enqueued with: `priority`, `delay`, `run_at`, `max_attempts`, `expires`, `headers`. A
    retry sets another `run_at`, so after the first attempt `delay` and `run_at` are not known;
    a job of which nothing else differs is then neither like this nor unlike.

    Raises:
        AssertionError: there is none, or another number, or it cannot be known; the message lists
            what is there.
        CodecError: the payload or an option is nothing that JSON can carry.
        TypeError: neither a queue nor an outbox is named, or both, or an option is unknown, or
            `count` is no int.
        ValueError: `count` is below 0.

    """
    __tracebackhide__ = True
    unknown = opts.keys() - _OPTIONS.keys()
    if unknown or (queue is None) == (outbox is None):
        raise TypeError(
            "assert_enqueued takes the name of a queue or outbox=..., and the options "
            + ", ".join(_OPTIONS)
        )

    if count is not None:
        check_number("count", count)
    wanted = _asked({"payload": payload, **opts})
    where = f"queue {queue!r}" if queue is not None else f"outbox {outbox!r}"

    async def look(inner: Store) -> tuple[list[Job], list[str]]:
        if queue is not None:
            source: JobSource = inner.queue(queue)
            others = [f"queue {name!r}" for name in await inner.queues()]
        else:
            source = inner.outbox(str(outbox)).backing
            others = [f"outbox {name!r}" for name in await inner.outboxes()]
        return await _jobs(source), others

    return _judged(store, look, partial(_judge, "job", where, wanted, _job, count))


@overload
def assert_published(
    store: Store,
    stream: str,
    payload: Any = ANYTHING,
    *,
    key: str | None = ANYTHING,
    headers: dict[str, str] | None = ANYTHING,
    count: int | None = None,
) -> Coroutine[Any, Any, list[StreamEvent]]: ...
@overload
def assert_published(
    store: SyncStore[Any],
    stream: str,
    payload: Any = ANYTHING,
    *,
    key: str | None = ANYTHING,
    headers: dict[str, str] | None = ANYTHING,
    count: int | None = None,
) -> list[StreamEvent]: ...
def assert_published(
    store: Store | SyncStore[Any],
    stream: str,
    payload: Any = ANYTHING,
    *,
    key: str | None = ANYTHING,
    headers: dict[str, str] | None = ANYTHING,
    count: int | None = None,
) -> Coroutine[Any, Any, list[StreamEvent]] | list[StreamEvent]:
    """The stream holds an event like this; returns all that are like it, in order.

    Awaited for a `Store`, blocking for a `SyncStore`. With `count` there are exactly so many,
    also 0. What is asked for is compared as by `assert_enqueued`.

    Raises:
        AssertionError: there is none, or another number; the message lists what is there.
        CodecError: what is asked for is nothing that JSON can carry.
        TypeError: `count` is no int.
        ValueError: `count` is below 0.

    """
    __tracebackhide__ = True
    if count is not None:
        check_number("count", count)

    wanted = _asked({"payload": payload, "key": key, "headers": headers})

    async def look(inner: Store) -> tuple[list[StreamEvent], list[str]]:
        others = [f"stream {name!r}" for name in await inner.streams()]
        return await _events(inner, stream), others

    where = f"stream {stream!r}"
    return _judged(store, look, partial(_judge, "event", where, wanted, _event, count))


def _judged(
    store: Store | SyncStore[Any],
    look: Callable[[Store], Coroutine[Any, Any, tuple[list[T], list[str]]]],
    judge: Callable[[list[T], list[str]], list[T]],
) -> Coroutine[Any, Any, list[T]] | list[T]:
    """Look on the store's loop, and fail in the frame of the test."""
    __tracebackhide__ = True
    if isinstance(store, SyncStore):
        return judge(*store.call(look, store.wrapped))

    async def judged(inner: Store) -> list[T]:
        __tracebackhide__ = True
        return judge(*await look(inner))

    return judged(store)


async def _jobs(source: JobSource) -> list[Job]:
    found: list[Job] = []
    while page := await source.jobs(None, PAGE, found[-1].id if found else 0):
        found += page
    return found


async def _events(store: Store, stream: str) -> list[StreamEvent]:
    found: list[StreamEvent] = []
    handle = store.stream(stream)
    while page := await handle.read_since(found[-1].offset if found else 0, PAGE):
        found += page
    return found


def _asked(wanted: dict[str, Any]) -> dict[str, Any]:
    """What is not left open."""
    return {
        name: pattern(value) for name, value in wanted.items() if not isinstance(value, Anything)
    }


def _run_at(job: Job) -> Any:
    """As it was enqueued: until the first attempt has ended nothing moves it."""
    first = job.attempts == 1 and job.state is JobState.PROCESSING
    return job.run_at if first or job.attempts == 0 else UNKNOWN


def _delay(job: Job) -> Any:
    run_at = _run_at(job)
    return UNKNOWN if run_at is UNKNOWN else run_at - job.created_at


_OPTIONS: Final[dict[str, Callable[[Job], Any]]] = {
    "priority": lambda job: job.priority,
    "delay": _delay,
    "run_at": _run_at,
    "max_attempts": lambda job: job.max_attempts,
    "expires": lambda job: None if job.expires_at is None else job.expires_at - job.created_at,
    "headers": lambda job: job.headers,
}


def _job(job: Job) -> dict[str, Any]:
    return {
        "payload": decode_payload(job.payload),
        **{name: read(job) for name, read in _OPTIONS.items()},
    }


def _event(event: StreamEvent) -> dict[str, Any]:
    return {
        "payload": decode_payload(event.payload),
        "key": event.key,
        "headers": event.headers,
    }


def _judge(
    what: str,
    where: str,
    wanted: dict[str, Any],
    read: Callable[[T], dict[str, Any]],
    count: int | None,
    there: list[T],
    others: list[str],
) -> list[T]:
    __tracebackhide__ = True
    shown = [read(item) for item in there]
    found: list[T] = []
    doubtful = 0
    for item, values in zip(there, shown, strict=True):
        known = {name: value for name, value in wanted.items() if values[name] is not UNKNOWN}
        if all(alike(value, values[name]) for name, value in known.items()):
            if len(known) == len(wanted):
                found.append(item)
            else:
                doubtful += 1
    if (len(found) == count and not doubtful) or (count is None and found):
        return found
    like = f" with {_said(wanted)}" if wanted else ""
    number = f"{len(found)} {what}s" if len(found) > 1 else f"{len(found) or 'no'} {what}"
    lines = [f"{number} in {where}{like}"]
    if count is not None:
        lines[0] += f", expected {count}"
    if doubtful:
        lines.append(f"of {doubtful} it cannot be known: a retry sets delay and run_at anew")
    if shown:
        lines.append(f"there {'is' if len(shown) == 1 else 'are'}:")
        lines += [f"  {_said(values)}" for values in shown[:SHOWN]]
        if len(shown) > SHOWN:
            lines.append(f"  and {len(shown) - SHOWN} more")
    else:
        lines.append(f"it is empty; what is not: {', '.join(others) or 'nothing'}")
    raise AssertionError("\n".join(lines))


def _said(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {_SHORT.repr(value)}" for name, value in values.items())


_SHORT = reprlib.Repr()
_SHORT.maxdict = _SHORT.maxlist = 50
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 200
_SHORT.maxlevel = 10
