"""Owners that are killed under load or out of room, counted from outside."""

import asyncio
import collections
import contextlib
import itertools
import random
import resource

import pytest

from alkstore_localstores import LocalStoreError
from alkstore_localstores.client import LocalHttpQueue
from alkstore_localstores.owner.admin import ask

PRODUCERS = 8
CONSUMERS = 8
ROUNDS = 6
LEASE = 30_000


class Ledger:
    """What clients were told, and what they must not be told later."""

    def __init__(self) -> None:
        self.sent = set()
        self.maybe_sent = set()
        self.acked = set()
        self.maybe_acked = set()
        self.deliveries = collections.Counter()
        self.epoch = 0
        self.seen = set()
        self.countdown = {}
        self.kill = None

    def aim(self, kind, count, kill) -> None:
        """Kill at the moment when so many of a kind have been confirmed."""
        self.countdown = {kind: count}
        self.kill = kill

    def confirmed(self, kind, name) -> None:
        """One more promise, `sent` or `acked`. A kill comes before it could be kept belatedly."""
        if kind in self.countdown:
            self.countdown[kind] -= 1
            if not self.countdown[kind]:
                self.kill()
        getattr(self, kind).add(name)

    def delivered(self, message) -> None:
        """One more delivery, which must be allowed."""
        name = message.payload
        assert name in self.sent | self.maybe_sent, f"{name} was never sent"
        assert name not in self.acked, f"{name} came back after its ack"
        # Within the life of one owner no lease ends here.
        assert (self.epoch, name) not in self.seen, f"{name} went to two receivers at once"
        self.seen.add((self.epoch, name))
        self.deliveries[name] += 1
        assert message.attempt >= self.deliveries[name]


async def produce(queue, ledger, names) -> None:
    """Send until the owner is gone."""
    with contextlib.suppress(LocalStoreError):
        while True:
            part = [next(names) for _ in range(3)]
            ledger.maybe_sent.update(part)
            await queue.send(part[0])
            ledger.confirmed("sent", part[0])
            outcomes = await queue.send_batch(part[1:])
            for name, outcome in zip(part[1:], outcomes, strict=True):
                if outcome.status == "sent":
                    ledger.confirmed("sent", name)
                else:
                    assert outcome.status == "unknown"
                    raise LocalStoreError(outcome.code, outcome.message)


async def consume(queue, ledger, chance) -> None:
    """Receive, and acknowledge most of it, until the owner is gone."""
    with contextlib.suppress(LocalStoreError):
        while True:
            messages = await queue.receive(chance.randint(1, 10))
            for message in messages:
                ledger.delivered(message)
            done = [m for m in messages if chance.random() < 0.8]
            # An ack that is under way may have been carried out.
            ledger.maybe_acked.update(m.payload for m in done)
            for message, outcome in zip(
                done, await queue.ack_batch([m.receipt_handle for m in done]), strict=True
            ):
                if outcome.status == "acknowledged":
                    ledger.confirmed("acked", message.payload)


@pytest.mark.once
@pytest.mark.parametrize(
    "drivers",
    [["sqlite3"], ["turso"], ["sqlite3", "turso", "turso", "sqlite3"]],
    ids=["sqlite3", "turso", "in turn"],
)
async def test_a_killed_owner_keeps_its_word(tmp_path, drivers, spawn):
    """An acknowledged send is never lost, an acknowledged ack never comes back, and each message
    is with one receiver at a time; what was in flight comes back after its lease.
    """
    turns = itertools.cycle(drivers)
    chance = random.Random()
    names = (f"m{n}" for n in range(10**9))
    ledger = Ledger()
    made = await asyncio.to_thread(ask, tmp_path, {"command": "create", "resource": "jobs"})
    port = 0
    for _ in range(ROUNDS):
        actor = spawn("owner.py", tmp_path, port, next(turns), ledger.epoch * LEASE)
        address = actor.answer()
        port = int(address.rpartition(":")[2])
        ledger.aim(("sent", "acked")[ledger.epoch % 2], chance.randint(20, 300), actor.process.kill)
        async with (
            LocalHttpQueue(f"{address}/queues/jobs", made["token"]) as queue,
            asyncio.TaskGroup() as workers,
        ):
            for _ in range(PRODUCERS):
                workers.create_task(produce(queue, ledger, names))
            for _ in range(CONSUMERS):
                workers.create_task(consume(queue, ledger, chance))
        actor.kill()
        ledger.epoch += 1
    actor = spawn("owner.py", tmp_path, port, next(turns), ledger.epoch * LEASE)
    async with LocalHttpQueue(f"{actor.answer()}/queues/jobs", made["token"]) as queue:
        left = await queue.stats()
        assert (0, 0) == (left.in_flight, left.delayed)
        while messages := await queue.receive(10):
            for message in messages:
                ledger.delivered(message)
            outcomes = await queue.ack_batch([m.receipt_handle for m in messages])
            assert {"acknowledged"} == {outcome.status for outcome in outcomes}
            ledger.acked.update(message.payload for message in messages)
        assert 0 == (await queue.stats()).total
    lost = ledger.sent - ledger.acked - ledger.maybe_acked
    assert set() == lost
    assert len(ledger.acked) > 20 * ROUNDS


async def test_a_full_disk_loses_nothing_that_was_acknowledged(tmp_path, driver, spawn):
    """Sends fail, receives may as well, and with room on the disk all goes on."""
    made = await asyncio.to_thread(ask, tmp_path, {"command": "create", "resource": "jobs"})
    actor = spawn("owner.py", tmp_path, 0, driver, 0)
    address = await asyncio.to_thread(actor.answer)
    limit = (actor.process.pid, resource.RLIMIT_FSIZE)
    before = resource.prlimit(*limit)
    async with LocalHttpQueue(f"{address}/queues/jobs", made["token"]) as queue:
        sent = []
        resource.prlimit(*limit, (400_000, before[1]))
        refused = None
        while refused is None and len(sent) < 100:
            try:
                await queue.send([len(sent), "x" * 20_000])
            except LocalStoreError as error:
                refused = error
            else:
                sent.append(len(sent))
        assert sent
        assert ("QUEUE_OPERATION_FAILED", 502) == (refused.code, refused.http_status_code)
        # A failed commit may have made room; then this one is a promise like the others.
        (outcome,) = await queue.send_batch([["batch", "x" * 20_000]])
        assert outcome.status in {"unknown", "sent"}
        sent += ["batch"] * (outcome.status == "sent")
        resource.prlimit(*limit, before)
        await queue.send(["last", ""])
        found = []
        while messages := await queue.receive(10):
            found += [message.payload[0] for message in messages]
            await queue.ack_batch([message.receipt_handle for message in messages])
    # What failed may be there all the same: nobody was told that it is not.
    assert sent == [name for name in found if name in sent]
    assert "last" == found[-1]
