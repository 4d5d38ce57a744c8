"""Stores for code that blocks: scripts, Django, Flask, notebooks.

The calls of the asynchronous surface under the same names, as plain methods.
"""

from alkstore_core.sync.jobs import SyncJobHandle
from alkstore_core.sync.locks import SyncLock
from alkstore_core.sync.outboxes import SyncDelivery, SyncOutbox
from alkstore_core.sync.queues import SyncJobSource, SyncQueue
from alkstore_core.sync.receivers import SyncEventReceiver, SyncWakeReceiver
from alkstore_core.sync.store import SyncStore
from alkstore_core.sync.streams import SyncStreamHandle
from alkstore_core.sync.transactions import SyncTransaction, SyncTxHandle

__all__ = [
    "SyncDelivery",
    "SyncEventReceiver",
    "SyncJobHandle",
    "SyncJobSource",
    "SyncLock",
    "SyncOutbox",
    "SyncQueue",
    "SyncStore",
    "SyncStreamHandle",
    "SyncTransaction",
    "SyncTxHandle",
    "SyncWakeReceiver",
]
