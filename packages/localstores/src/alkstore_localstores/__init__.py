"""Local stores: a key-value store and a queue in SQLite-compatible files."""

from importlib.metadata import version as _version
from typing import TYPE_CHECKING as _CHECKED

from alkstore_localstores.errors import LocalStoreError
from alkstore_localstores.interface import Queue
from alkstore_localstores.kv import KvEntry, KvPage, LocalKv
from alkstore_localstores.messages import AckOutcome, QueueMessage, QueueStats, SendOutcome
from alkstore_localstores.queue import LocalQueue

if _CHECKED:
    from alkstore_localstores.client import LocalHttpQueue

__all__ = [
    "AckOutcome",
    "KvEntry",
    "KvPage",
    "LocalHttpQueue",
    "LocalKv",
    "LocalQueue",
    "LocalStoreError",
    "Queue",
    "QueueMessage",
    "QueueStats",
    "SendOutcome",
]
__version__ = _version("alkstore-localstores")


def __getattr__(name: str) -> type:
    # Importing the package must not need the extra `http`.
    if name == "LocalHttpQueue":
        try:
            from alkstore_localstores.client import LocalHttpQueue  # noqa: PLC0415
        except ModuleNotFoundError as error:
            message = f"{name} needs the extra: pip install 'alkstore-localstores[http]'; {error}"
            raise ModuleNotFoundError(message, name=error.name) from error
        return LocalHttpQueue
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
