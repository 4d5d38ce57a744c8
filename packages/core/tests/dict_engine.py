"""The seam over plain dicts, for tests of what stands above it.

Values are frozen, so a shallow copy of the dicts is a snapshot: a transaction works on its own
and swaps it in at commit. `gates` hold a primitive before or after it acted, `faults` fail it.
"""

from __future__ import annotations

import asyncio
import functools
from collections import defaultdict

import attrs

from alkstore_core.errors import DatabaseError
from alkstore_core.headers import decode_headers, encode_headers
from alkstore_core.hub import Hub
from alkstore_core.integers import saturating_add
from alkstore_core.spi import Engine, Record, Session, TxSession
from alkstore_core.values import (
    ConsumerPosition,
    Job,
    JobState,
    LockInfo,
    QueueStats,
    Schedule,
    StreamBounds,
    StreamEvent,
)

FRESH = {"worker_id": None, "claimed_at": None, "claim_expires_at": None}


class Data:
    """Everything stored."""

    def __init__(self):
        self.jobs = {}
        self.events = {}
        self.offsets = {}
        self.leases = {}
        self.schedules = {}
        self.last = defaultdict(int)

    def copy(self):
        """A snapshot."""
        other = Data()
        for name, value in vars(self).items():
            setattr(other, name, value.copy())
        return other

    def next(self, kind):
        """Count up."""
        self.last[kind] += 1
        return self.last[kind]


class DictSession(Session):
    """The primitives, over `self.data`."""

    def __init__(self, engine):
        self.engine = engine

    @property
    def data(self):
        """What this session sees."""
        return self.engine.data

    @property
    def now(self):
        """The time."""
        return self.engine.clock.now()

    def fire(self, topics):
        """Signal; a transaction waits with it."""
        for topic in topics:
            self.engine.signals.fire(topic)

    def live(self, queue, claim):
        """The job of a live claim."""
        job = self.held(queue, claim)
        return job if job and self.now <= job.claim_expires_at else None

    def held(self, queue, claim):
        """The job of a claim, live or lapsed."""
        job = self.data.jobs.get(claim.id)
        if job is None or job.queue != queue or job.state is not JobState.PROCESSING:
            return None
        return job if job.attempts == claim.attempt else None

    def put(self, job, **changes):
        """Store a changed job."""
        self.data.jobs[job.id] = attrs.evolve(job, **changes)

    def kill(self, job, error):
        """Move a job to the dead ones."""
        self.put(job, state=JobState.DEAD, last_error=error, died_at=self.now, **FRESH)

    def of(self, queue, *states):
        """The jobs of a queue in some states, by id."""
        return [j for j in self.data.jobs.values() if j.queue == queue and j.state in states]

    async def insert_jobs(self, queue, payloads, spec, *, wake=()):
        ready = self.now if spec.run_at is None else spec.run_at
        if spec.delay is not None:
            ready = saturating_add(self.now, spec.delay)
        expires = None if spec.expires is None else saturating_add(self.now, spec.expires)
        ids = []
        for payload in payloads:
            job = Job(
                id=self.data.next("job"),
                queue=queue,
                payload=payload,
                headers=decode_headers(spec.headers),
                state=JobState.PENDING,
                priority=spec.priority,
                run_at=ready,
                created_at=self.now,
                expires_at=expires,
                attempts=0,
                max_attempts=spec.max_attempts,
                visibility_timeout_s=spec.visibility_timeout_s,
                backoff_base_s=spec.backoff_base_s,
                dead_letter_retention_s=spec.dead_letter_retention_s,
                last_error=None,
                died_at=None,
                **FRESH,
            )
            self.data.jobs[job.id] = job
            ids.append(job.id)
        self.fire(wake)
        return ids

    async def claim(self, queue, worker_id, limit):
        def claimable(job):
            if job.expires_at is not None and job.expires_at <= self.now:
                return False
            if job.state is JobState.PENDING:
                return job.run_at <= self.now
            return job.claim_expires_at < self.now

        ready = [j for j in self.of(queue, JobState.PENDING, JobState.PROCESSING) if claimable(j)]
        for job in ready:
            if job.attempts >= job.max_attempts:
                self.kill(job, "max attempts exceeded")
        ready = [j for j in ready if j.attempts < j.max_attempts]
        ready.sort(key=lambda j: (-j.priority, j.run_at, j.id))
        for job in ready[:limit]:
            self.put(
                job,
                state=JobState.PROCESSING,
                attempts=job.attempts + 1,
                worker_id=worker_id,
                claimed_at=self.now,
                claim_expires_at=self.now + job.visibility_timeout_s,
            )
        return [self.data.jobs[job.id] for job in ready[:limit]]

    async def ack(self, queue, claims):
        jobs = [job for claim in claims if (job := self.live(queue, claim))]
        for job in jobs:
            del self.data.jobs[job.id]
        return len(jobs)

    async def ack_ids(self, queue, ids, worker_id):
        jobs = [
            job
            for job in self.of(queue, JobState.PROCESSING)
            if job.id in ids and job.worker_id == worker_id and self.now <= job.claim_expires_at
        ]
        for job in jobs:
            del self.data.jobs[job.id]
        return len(jobs)

    async def requeue(self, queue, claim, delay, error, *, wake=()):
        job = self.live(queue, claim)
        if job is None:
            return False
        due = saturating_add(self.now, delay)
        self.put(job, state=JobState.PENDING, run_at=due, last_error=error, **FRESH)
        self.fire(wake)
        return True

    async def bury(self, queue, claim, error):
        job = self.live(queue, claim)
        if job is not None:
            self.kill(job, error)
        return job is not None

    async def extend(self, queue, claims, seconds):
        jobs = [job for claim in claims if (job := self.live(queue, claim))]
        for job in jobs:
            self.put(job, claim_expires_at=saturating_add(self.now, seconds))
        return [job.id for job in jobs]

    async def release(self, queue, claims, *, unseen=False, wake=()):
        find = self.held if unseen else self.live
        jobs = [job for claim in claims if (job := find(queue, claim))]
        for job in jobs:
            self.put(job, state=JobState.PENDING, attempts=job.attempts - 1, **FRESH)
        self.fire(wake)
        return len(jobs)

    async def delete_job(self, queue, job_id):
        job = self.data.jobs.get(job_id)
        if job is None or job.queue != queue or job.state is JobState.DEAD:
            return False
        del self.data.jobs[job_id]
        return True

    async def get_job(self, queue, job_id):
        job = self.data.jobs.get(job_id)
        return job if job is not None and job.queue == queue else None

    async def sweep(self, queue, limit):
        live = self.of(queue, JobState.PENDING, JobState.PROCESSING)
        expired = [j for j in live if j.expires_at is not None and j.expires_at <= self.now]
        for job in expired[:limit]:
            self.kill(job, "expired")
        return len(expired[:limit])

    async def purge_retired(self, queue, limit):
        old = [
            job.id
            for job in self.of(queue, JobState.DEAD)
            if job.dead_letter_retention_s is not None
            and self.now - job.died_at > job.dead_letter_retention_s
        ]
        for number in old[:limit]:
            del self.data.jobs[number]
        return len(old[:limit])

    async def stats(self, queue):
        pending = self.of(queue, JobState.PENDING)
        ready = [j for j in pending if j.run_at <= self.now]
        claimed = self.of(queue, JobState.PROCESSING)
        lapsed = [j for j in claimed if j.claim_expires_at < self.now]
        return QueueStats(
            ready=len(ready),
            delayed=len(pending) - len(ready),
            processing=len(claimed) - len(lapsed),
            lapsed=len(lapsed),
            expired=0,
            dead=len(self.of(queue, JobState.DEAD)),
            oldest_ready_age_s=max((self.now - j.run_at for j in ready), default=None),
        )

    async def list_jobs(self, queue, state, limit, after_id):
        states = (JobState.PENDING, JobState.PROCESSING) if state is None else (state,)
        return [j for j in self.of(queue, *states) if j.id > after_id][:limit]

    async def list_dead(self, queue, limit, after_id):
        return [j for j in self.of(queue, JobState.DEAD) if j.id > after_id][:limit]

    async def redrive(self, queue, job_id, *, wake=()):
        job = await self.get_job(queue, job_id)
        if job is None or job.state is not JobState.DEAD:
            return None
        del self.data.jobs[job_id]
        fresh = attrs.evolve(
            job,
            id=self.data.next("job"),
            state=JobState.PENDING,
            attempts=0,
            run_at=self.now,
            created_at=self.now,
            expires_at=None,
            last_error=None,
            died_at=None,
        )
        self.data.jobs[fresh.id] = fresh
        self.fire(wake)
        return fresh.id

    async def purge_dead(self, queue, before, limit):
        dead = [j for j in self.of(queue, JobState.DEAD) if before is None or j.died_at < before]
        for job in dead[:limit]:
            del self.data.jobs[job.id]
        return len(dead[:limit])

    async def next_due(self, queues):
        due = {}
        for queue in queues:
            times = [j.run_at for j in self.of(queue, JobState.PENDING)]
            times += [j.claim_expires_at + 1 for j in self.of(queue, JobState.PROCESSING)]
            if times:
                due[queue] = min(times) - self.now
        return due

    async def append(self, stream, entries, *, wake=()):
        offsets = []
        for entry in entries:
            event = StreamEvent(
                offset=self.data.next("event"),
                stream=stream,
                key=entry.key,
                payload=entry.payload,
                headers=decode_headers(entry.headers),
                created_at=self.now,
            )
            self.data.events[event.offset] = event
            offsets.append(event.offset)
        self.fire(wake)
        return offsets

    async def read(self, stream, after, limit):
        events = [e for e in self.data.events.values() if e.stream == stream and e.offset > after]
        return events[:limit]

    async def read_from(self, stream, consumer, limit):
        return await self.read(stream, self.data.offsets.get((stream, consumer), 0), limit)

    async def save_offset(self, stream, consumer, offset):
        key = stream, consumer
        self.data.offsets[key] = max(offset, self.data.offsets.get(key, 0))

    async def get_offset(self, stream, consumer):
        return self.data.offsets.get((stream, consumer), 0)

    async def trim(self, stream, horizon, limit):
        old = [
            e.offset
            for e in self.data.events.values()
            if e.stream == stream and e.offset <= horizon
        ]
        for offset in old[:limit]:
            del self.data.events[offset]
        return len(old[:limit])

    async def list_consumers(self, stream):
        return [
            ConsumerPosition(stream=name, consumer=consumer, offset=offset)
            for (name, consumer), offset in sorted(self.data.offsets.items())
            if name == stream
        ]

    async def bounds(self, stream):
        offsets = [e.offset for e in await self.read(stream, 0, 2**63)]
        if not offsets:
            return StreamBounds(first=0, last=0, count=0)
        return StreamBounds(first=offsets[0], last=offsets[-1], count=len(offsets))

    def lease(self, name, token):
        """A live lease."""
        lease = self.data.leases.get(name)
        if lease is None or lease.expires_at < self.now:
            return None
        return lease if token in {None, lease.token} else None

    async def acquire(self, name, owner, ttl):
        lease = self.lease(name, None)
        if lease is not None:
            return lease.token if lease.owner == owner else None
        token = self.data.next("token")
        until = saturating_add(self.now, ttl)
        self.data.leases[name] = LockInfo(name=name, owner=owner, token=token, expires_at=until)
        return token

    async def renew(self, name, token, ttl):
        lease = self.lease(name, token)
        if lease is not None:
            until = saturating_add(self.now, ttl)
            self.data.leases[name] = attrs.evolve(lease, expires_at=until)
        return lease is not None

    async def release_lock(self, name, token, *, wake=()):
        if self.lease(name, token) is None:
            return False
        del self.data.leases[name]
        self.fire(wake)
        return True

    async def holds(self, name, token):
        return self.lease(name, token) is not None

    async def list_locks(self):
        return [lease for name in sorted(self.data.leases) if (lease := self.lease(name, None))]

    async def put_schedule(self, entry, *, wake=()):
        old = self.data.schedules.get(entry.name)
        keep = old is not None and old.spec == entry.spec
        schedule = Schedule(
            name=entry.name,
            spec=entry.spec,
            queue=entry.queue,
            payload=entry.payload,
            priority=entry.priority,
            max_attempts=entry.max_attempts,
            expires=entry.expires,
            headers=decode_headers(entry.headers),
            next_fire_at=old.next_fire_at if keep else saturating_add(self.now, entry.every),
        )
        self.data.schedules[entry.name] = schedule
        self.fire(wake)
        return schedule

    async def delete_schedule(self, name, *, wake=()):
        gone = self.data.schedules.pop(name, None)
        self.fire(wake)
        return gone is not None

    async def list_schedules(self):
        return [self.data.schedules[name] for name in sorted(self.data.schedules)]

    async def advance(self, name, expected_fire_at, next_fire_at):
        schedule = self.data.schedules.get(name)
        if schedule is None or schedule.next_fire_at != expected_fire_at:
            return False
        self.data.schedules[name] = attrs.evolve(schedule, next_fire_at=next_fire_at)
        return True

    async def names(self, kind):
        if kind == "queue":
            return list({job.queue for job in self.data.jobs.values()})
        return list(
            {event.stream for event in self.data.events.values()}
            | {stream for stream, _ in self.data.offsets}
        )

    async def signal(self, topics):
        self.fire(topics)

    async def dump(self, kind, after, limit):
        rows = sorted(self.rows(kind), key=lambda record: record.position)
        return [record for record in rows if after is None or record.position > after][:limit]

    def rows(self, kind):
        """Every row of a kind."""
        if kind in {"jobs", "dead_jobs"}:
            dead = kind == "dead_jobs"
            without = ("id", "state") if dead else ("id", "died_at")
            jobs = self.data.jobs.values()
            return [
                _record((j.id,), j, *without) for j in jobs if (j.state is JobState.DEAD) == dead
            ]
        if kind == "events":
            return [_record((e.offset,), e, "offset") for e in self.data.events.values()]
        if kind == "consumers":
            return [
                Record(key, {"stream": key[0], "consumer": key[1], "offset": offset})
                for key, offset in self.data.offsets.items()
            ]
        return [_record((s.name,), s) for s in self.data.schedules.values()]

    async def load(self, kind, records):
        return [n for record in records if (n := self.store(kind, dict(record.fields)))]

    def store(self, kind, fields):
        """Store one dumped row; its new number, if it has one."""
        if kind == "consumers":
            self.data.offsets[fields["stream"], fields["consumer"]] = fields["offset"]
            return None
        fields["headers"] = decode_headers(fields["headers"])
        if kind == "schedules":
            self.data.schedules[fields["name"]] = Schedule(**fields)
            return None
        if kind == "events":
            number = self.data.next("event")
            self.data.events[number] = StreamEvent(offset=number, **fields)
            return number
        number = self.data.next("job")
        if kind == "dead_jobs":
            job = Job(id=number, state=JobState.DEAD, **fields)
        else:
            job = Job(id=number, died_at=None, **fields | {"state": JobState(fields["state"])})
        self.data.jobs[number] = job
        return number


def _record(position, value, *without):
    fields = attrs.asdict(value, recurse=False, filter=lambda a, _: a.name not in without)
    fields["headers"] = encode_headers(fields["headers"])
    if "state" in fields:
        fields["state"] = fields["state"].value
    return Record(position, fields)


def _watched(name):
    primitive = getattr(DictSession, name)

    @functools.wraps(primitive)
    async def call(self, *args, **kwargs):
        engine = self.engine
        engine.calls.append(name)
        await engine.gate("before", name)
        if faults := engine.faults[name]:
            raise faults.pop(0)
        value = await primitive(self, *args, **kwargs)
        await engine.gate("after", name)
        return value

    return call


for _name in Session.__abstractmethods__:
    setattr(DictSession, _name, _watched(_name))


class DictTx(DictSession, TxSession):
    """A transaction on a snapshot."""

    def __init__(self, engine):
        super().__init__(engine)
        self.mine = engine.data.copy()
        self.topics = []

    @property
    def data(self):
        """What this transaction sees."""
        return self.mine

    def fire(self, topics):
        """Remember for the commit."""
        self.topics += topics

    async def commit(self):
        self.engine.calls.append("commit")
        await self.engine.gate("before", "commit")
        if faults := self.engine.faults["commit"]:
            raise faults.pop(0)
        self.engine.data = self.mine
        self.engine.open_transactions.discard(self)
        await self.engine.gate("after", "commit")
        super().fire(self.topics)

    async def rollback(self):
        self.engine.calls.append("rollback")
        await self.engine.gate("before", "rollback")
        self.engine.open_transactions.discard(self)
        if faults := self.engine.faults["rollback"]:
            raise faults.pop(0)


class DictEngine(Engine):
    """One writer and a clock that stands still, unless told otherwise."""

    def __init__(self, clock, *, single_writer=True, busy_timeout=5.0, notify_limit=None):
        self.clock = clock
        self.single_writer = single_writer
        self.busy_timeout = busy_timeout
        self.notify_limit = notify_limit
        self.data = Data()
        self.signals = Hub()
        self.auto = DictSession(self)
        self.open_transactions = set()
        self.calls = []
        self.faults = defaultdict(list)
        self.gates = {}
        self.held = []
        self.findings = ()

    async def open(self):
        self.calls.append("open")
        if faults := self.faults["open"]:
            raise faults.pop(0)

    async def close(self):
        self.calls.append("close")
        self.signals.close()

    async def begin(self):
        self.calls.append("begin")
        await self.gate("before", "begin")
        if faults := self.faults["begin"]:
            raise faults.pop(0)
        if self.single_writer and self.open_transactions:
            raise DatabaseError("two writers at once: the slot was not respected")
        tx = DictTx(self)
        self.open_transactions.add(tx)
        await self.gate("after", "begin")
        return tx

    async def now(self):
        return self.clock.now()

    async def diagnose(self):
        return self.findings

    def hold(self, when, name):
        """From now on a primitive stops `before` or `after` it acts, until the gate is opened."""
        gate = self.gates[when, name] = Gate()
        self.held.append(gate)
        return gate

    async def gate(self, when, name):
        """Stop at a gate."""
        gate = self.gates.get((when, name))
        if gate is not None:
            gate.reached.set()
            await gate.opened.wait()
            if gate.error is not None:
                raise gate.error


class Gate:
    """Tells when a primitive has come to it, and lets it go on."""

    def __init__(self):
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        self.error = None
        """What they get who passed: the answer of what was done is lost."""

    def open(self):
        """Let everybody pass, now and later."""
        self.opened.set()


async def until(happened):
    """Let other tasks run until something has happened; no clock is involved."""
    for _ in range(10_000):
        if happened():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never happened")
