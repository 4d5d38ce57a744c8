"""Queues, streams, locks, schedules, outboxes and notify: the contract and its surface."""

from importlib.metadata import version as _version

from alkstore_core.clock import Clock, ManualClock, SystemClock
from alkstore_core.copying import CopyProgress, CopyReport, Moved, copy_store
from alkstore_core.errors import (
    AlkstoreError,
    Closed,
    CodecError,
    CopyRefused,
    DatabaseError,
    InvalidName,
    InvalidSpec,
    LeadershipLost,
    PayloadTooLarge,
    ReservedName,
)
from alkstore_core.jobs import JobHandle
from alkstore_core.locks import Lock
from alkstore_core.outboxes import Delivery, Outbox
from alkstore_core.payload import decode_payload, encode_payload
from alkstore_core.queues import JobSource, Queue
from alkstore_core.registry import open_store
from alkstore_core.stop import StopToken
from alkstore_core.store import Store
from alkstore_core.streams import EventReceiver, StreamHandle
from alkstore_core.transactions import TxHandle
from alkstore_core.values import (
    ConsumerPosition,
    EnqueueOpts,
    Finding,
    Job,
    JobState,
    LockInfo,
    QueueOpts,
    QueueStats,
    Schedule,
    ScheduleOpts,
    StreamBounds,
    StreamEvent,
    Wake,
)
from alkstore_core.wakes import WakeReceiver

__version__ = _version("alkstore-core")

__all__ = [
    "AlkstoreError",
    "Clock",
    "Closed",
    "CodecError",
    "ConsumerPosition",
    "CopyProgress",
    "CopyRefused",
    "CopyReport",
    "DatabaseError",
    "Delivery",
    "EnqueueOpts",
    "EventReceiver",
    "Finding",
    "InvalidName",
    "InvalidSpec",
    "Job",
    "JobHandle",
    "JobSource",
    "JobState",
    "LeadershipLost",
    "Lock",
    "LockInfo",
    "ManualClock",
    "Moved",
    "Outbox",
    "PayloadTooLarge",
    "Queue",
    "QueueOpts",
    "QueueStats",
    "ReservedName",
    "Schedule",
    "ScheduleOpts",
    "StopToken",
    "Store",
    "StreamBounds",
    "StreamEvent",
    "StreamHandle",
    "SystemClock",
    "TxHandle",
    "Wake",
    "WakeReceiver",
    "__version__",
    "copy_store",
    "decode_payload",
    "encode_payload",
    "open_store",
]
