"""Random histories: sequences of calls, each answer compared with that of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alkstore_contract import machine
from alkstore_contract.machine import run_histories
from alkstore_contract.properties import prop

if TYPE_CHECKING:
    from alkstore_contract.harness import Harness

STEPS = 200


@prop("histories.queues", decided="Queues", group="model", seconds=300)
def queues(harness: Harness) -> None:
    """In random histories of enqueues, claims and their handles each answer is the model's."""
    run_histories(machine.Queues, harness, histories=30, steps=STEPS)


@prop("histories.outbox", decided="Outbox", group="model", seconds=300)
def outbox(harness: Harness) -> None:
    """In random histories of messages and deliveries each answer is the model's."""
    run_histories(machine.Outboxes, harness, histories=12, steps=STEPS)


@prop("histories.streams", decided="Streams", group="model", seconds=300)
def streams(harness: Harness) -> None:
    """In random histories of events, consumers and subscriptions each answer is the model's."""
    run_histories(machine.Streams, harness, histories=15, steps=STEPS)


@prop("histories.locks", decided="Locks", group="model", seconds=300)
def locks(harness: Harness) -> None:
    """In random histories of leases each answer is the model's."""
    run_histories(machine.Locks, harness, histories=12, steps=STEPS)


@prop("histories.scheduler", decided="Scheduler", group="model", seconds=300)
def scheduler(harness: Harness) -> None:
    """In random histories of schedules and their runners each boundary fires as in the model."""
    run_histories(machine.Schedules, harness, histories=15, steps=STEPS)


@prop("histories.transactions", decided="Transactions", group="model", seconds=300)
def transactions(harness: Harness) -> None:
    """In random histories of transactions and what they get in the way of, each is all or none."""
    run_histories(machine.Transactions, harness, histories=25, steps=STEPS)


@prop("histories.notify", decided="Notify", group="model", seconds=300)
def notify(harness: Harness) -> None:
    """In random histories receivers wake after each commit that concerns them, never before."""
    run_histories(machine.Wakes, harness, histories=20, steps=STEPS)


@prop("histories.all", decided="Guarantees in one table", group="model", seconds=300)
def everything(harness: Harness) -> None:
    """In random histories of all mechanisms on one database each answer is the model's."""
    run_histories(machine.Whole, harness, histories=25, steps=STEPS)
