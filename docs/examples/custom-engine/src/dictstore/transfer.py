# ruff: noqa: D102 - `spi` says what each primitive promises.
"""Stored rows on their way to and from other engines."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from attrs import asdict

from alkstore_core import ConsumerPosition, Job, JobState, Schedule, StreamEvent
from alkstore_core.headers import decode_headers, encode_headers
from alkstore_core.spi import Record
from dictstore.part import Part

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from alkstore_core.spi import RecordKind, Scalar
    from dictstore.data import Data

Position = tuple[Any, ...]


class TransferPart(Part):
    """What an operator needs who changes the engine."""

    async def dump(
        self, kind: RecordKind, after: tuple[Scalar, ...] | None, limit: int
    ) -> list[Record]:
        rows = _rows(await self.view(), kind)
        beyond = (row for row in rows if after is None or row.position > after)
        return heapq.nsmallest(limit, beyond, key=lambda row: row.position)

    async def load(self, kind: RecordKind, records: Sequence[Record]) -> list[int]:
        data = await self.change()
        now = self.now()
        numbers: list[int] = []
        for record in records:
            fields: dict[str, Any] = dict(record.fields)
            if kind == "consumers":
                position = ConsumerPosition(**fields)
                consumers = data.streams.change(position.stream).consumers
                consumers[position.consumer] = position.offset
                continue
            fields["headers"] = decode_headers(fields["headers"])
            if kind == "schedules":
                data.schedules[fields["name"]] = Schedule(**fields)
            elif kind == "events":
                event = StreamEvent(offset=data.next("event"), **fields)
                data.streams.change(event.stream).events.append(event)
                numbers.append(event.offset)
            else:
                numbers.append(_load_job(data, kind, fields, now))
        return numbers


def _rows(data: Data, kind: RecordKind) -> Iterable[Record]:
    """Every row of a kind, in whatever order."""
    backlogs = [backlog for _, backlog in data.queues]
    if kind == "jobs":
        live = (job for backlog in backlogs for job in backlog.jobs.values())
        return (_record((job.id,), job, "id", "died_at") for job in live)
    if kind == "dead_jobs":
        dead = (job for backlog in backlogs for job in backlog.dead.values())
        return (_record((job.id,), job, "id", "state") for job in dead)
    if kind == "events":
        events = (event for _, log in data.streams for event in log.events)
        return (_record((event.offset,), event, "offset") for event in events)
    if kind == "consumers":
        return (
            Record((stream, consumer), {"stream": stream, "consumer": consumer, "offset": offset})
            for stream, log in data.streams
            for consumer, offset in log.consumers.items()
        )
    return (_record((name,), schedule) for name, schedule in data.schedules.items())


def _record(position: Position, value: Any, *without: str) -> Record:
    fields = asdict(value, recurse=False, filter=lambda field, _: field.name not in without)
    if "headers" in fields:
        fields["headers"] = encode_headers(fields["headers"])
    if "state" in fields:
        fields["state"] = fields["state"].value
    return Record(position, fields)


def _load_job(data: Data, kind: RecordKind, fields: dict[str, Any], now: int) -> int:
    backlog = data.queues.change(fields["queue"])
    job_id = data.next("job")
    if kind == "dead_jobs":
        backlog.dead[job_id] = Job(id=job_id, state=JobState.DEAD, **fields)
    else:
        state = JobState(fields.pop("state"))
        backlog.put(Job(id=job_id, state=state, died_at=None, **fields), now)
    return job_id
