"""What `doctor` tries on an open store; each check gives findings, and "ok" is one."""

from __future__ import annotations

import asyncio
import shlex
import statistics
import time
import uuid
from typing import TYPE_CHECKING, Final, Literal

from attrs import frozen

from alkstore_core import DatabaseError
from alkstore_core.cli.amounts import age, some
from alkstore_core.overview import overview

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Container, Iterator

    from alkstore_core import Store
    from alkstore_core.overview import Overview, QueueOverview

Severity = Literal["ok", "info", "warning", "error"]

READS: Final = 5
WAKE_WITHIN_S: Final = 5.0
SKEW_S: Final = 2
"""Times are whole seconds, so less would be noise."""

SERVED_WITHIN_S: Final = 2.5
"""A worker that waits looks for lapsed claims once a second."""

LATE_S: Final = 90
"""A leading scheduler that was killed is followed after 60 s at most."""

_PROBE: Final = "alkstore-doctor:"


@frozen
class Result:
    """What one check found. `code` is stable."""

    code: str
    severity: Severity
    message: str


@frozen(kw_only=True)
class Bounds:
    """From when on waiting is worth a warning."""

    max_age: int
    max_lag: int


async def examine(store: Store, bounds: Bounds) -> AsyncIterator[Result]:
    """Try everything, one after another; a check that the database refuses is an error."""
    checks = (
        ("latency", _latency),
        ("clock", _clock),
        ("notify", _notify),
        ("diagnose", _diagnose),
    )
    for code, check in checks:
        try:
            for result in await check(store):
                yield result
        except DatabaseError as error:
            yield Result(code, "error", str(error))
    try:
        seen = await overview(store)
        lapsed = {(q.kind, q.name) for q in seen.queues if q.stats.lapsed}
        if lapsed:
            await asyncio.sleep(SERVED_WITHIN_S)
            seen = await overview(store)
    except DatabaseError as error:
        yield Result("overview", "error", str(error))
        return
    for result in (*judge_queues(seen, bounds, lapsed), *judge_rest(seen, bounds)):
        yield result


async def _latency(store: Store) -> list[Result]:
    times = []
    for _ in range(READS):
        began = time.perf_counter()
        await store.locks()
        times.append(time.perf_counter() - began)
    return [Result("latency", "ok", f"a read takes {_ms(statistics.median(times))}")]


async def _clock(store: Store) -> list[Result]:
    before = int(time.time())
    there = await store.now()
    return [judge_skew(there, before, int(time.time()))]


def judge_skew(there: int, before: int, after: int) -> Result:
    """Compare the database's whole second with those of this machine around it."""
    skew = there - after if there > after else min(there - before, 0)
    if abs(skew) < SKEW_S:
        return Result("clock", "ok", "the clock that stamps jobs agrees with this machine's")
    way = "ahead of" if skew > 0 else "behind"
    return Result(
        "clock",
        "warning",
        f"the clock that stamps jobs is {age(abs(skew))} {way} this machine's: whatever computes "
        "run_at from its own clock is off by that",
    )


async def _notify(store: Store) -> list[Result]:
    channel = f"{_PROBE}{uuid.uuid4().hex}"
    async with store.listen(channel) as wakes:
        began = time.perf_counter()
        await store.notify(channel)
        try:
            async with asyncio.timeout(WAKE_WITHIN_S):
                wake = await wakes.recv()
        except TimeoutError:
            wake = None
        took = time.perf_counter() - began
    if wake is None:
        return [
            Result(
                "notify",
                "error",
                f"a notification did not come back within {age(int(WAKE_WITHIN_S))}: waiting "
                "workers hear of new jobs late, or when they come due at the earliest",
            )
        ]
    return [Result("notify", "ok", f"a notification comes back after {_ms(took)}")]


async def _diagnose(store: Store) -> list[Result]:
    found = await store.diagnose()
    if not found:
        return [Result("diagnose", "ok", "the engine has nothing to report")]
    return [Result(finding.code, finding.severity, finding.message) for finding in found]


def judge_queues(
    seen: Overview, bounds: Bounds, lapsed: Container[tuple[str, str]]
) -> Iterator[Result]:
    """What queues and outboxes tell; `lapsed` had lapsed claims at an earlier look, too."""
    found = [result for queue in seen.queues for result in _judge(queue, bounds, lapsed)]
    yield from found
    if all(result.severity == "info" for result in found):
        yield Result("queues", "ok", f"nobody waits in {len(seen.queues)} queues and outboxes")


def _judge(
    queue: QueueOverview, bounds: Bounds, lapsed: Container[tuple[str, str]]
) -> Iterator[Result]:
    stats, who = queue.stats, f"{queue.kind} {queue.name!r}"
    outbox, operand = queue.kind == "outbox", _operand(queue.name)
    if stats.lapsed and (queue.kind, queue.name) in lapsed:
        claims = some(stats.lapsed, "lapsed claim")
        text = f"{who} has {claims} that nobody takes up: no worker serves it"
        yield Result("queue.lapsed", "warning", text)
    if (stats.oldest_ready_age_s or 0) > bounds.max_age:
        waiting = age(stats.oldest_ready_age_s)
        text = f"{who} has a job ready for {waiting}: there are too few workers, or none"
        yield Result("queue.waiting", "warning", text)
    if stats.expired:
        what = f"--outbox {shlex.quote(queue.name)}" if outbox else operand
        expired = some(stats.expired, "expired job")
        text = f"{who} has {expired} that nobody sweeps: alkstore sweep {what}"
        yield Result("queue.expired", "warning", text)
    if stats.dead:
        what = f"--outbox {operand}" if outbox else operand
        text = f"{who} has {some(stats.dead, 'dead job')}: alkstore dead list {what}"
        yield Result("queue.dead", "info", text)


def judge_rest(seen: Overview, bounds: Bounds) -> Iterator[Result]:
    """What streams and schedules tell."""
    behind = [
        Result(
            "stream.lag",
            "warning",
            f"consumer {consumer.name!r} of stream {stream.name!r} has "
            f"{some(consumer.lag, 'event')} before it: look at its process",
        )
        for stream in seen.streams
        for consumer in stream.consumers
        if consumer.lag > bounds.max_lag
    ]
    yield from behind or [Result("streams", "ok", "no consumer is far behind")]
    late = [
        Result(
            "schedule.late",
            "warning",
            f"schedule {schedule.name!r} should have fired {age(seen.at - schedule.next_fire_at)} "
            "ago: nobody runs schedules",
        )
        for schedule in seen.schedules
        if seen.at - schedule.next_fire_at > LATE_S
    ]
    yield from late or [Result("schedules", "ok", f"no schedule is more than {LATE_S} s late")]


def _operand(name: str) -> str:
    """A name as a shell takes it, and as no option."""
    return f"-- {shlex.quote(name)}" if name.startswith("-") else shlex.quote(name)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"
