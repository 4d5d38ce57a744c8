"""alkstore in memory: one process, nothing on disk; the engine for tests.

Its names are imported when they are first used: pytest loads the plugin in this package with
every run, also where no test has anything to do with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alkstore_mem.database import MemDatabase
    from alkstore_mem.store import MemStore, engine_from_url

    __version__: str

__all__ = ["MemDatabase", "MemStore", "engine_from_url"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - as below

        value: Any = version("alkstore-mem")
    elif name in __all__:
        from alkstore_mem import database, store  # noqa: PLC0415 - see above

        value = getattr(database if name == "MemDatabase" else store, name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
