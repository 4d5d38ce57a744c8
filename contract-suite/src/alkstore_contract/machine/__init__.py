"""Random histories against an engine, each answer compared with the model's."""

from alkstore_contract.machine.histories import run_histories
from alkstore_contract.machine.whole import (
    Locks,
    Outboxes,
    Queues,
    Schedules,
    Streams,
    Transactions,
    Wakes,
    Whole,
)

__all__ = [
    "Locks",
    "Outboxes",
    "Queues",
    "Schedules",
    "Streams",
    "Transactions",
    "Wakes",
    "Whole",
    "run_histories",
]
