"""Opening a store by URL, so that configuration can name the engine."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final

from alkstore_core.errors import DatabaseError
from alkstore_core.integers import check_class
from alkstore_core.store import Store

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from alkstore_core.clock import Clock

GROUP: Final = "alkstore.engines"
KNOWN: Final = {
    "sqlite": "alkstore-sqlite",
    "postgresql": "alkstore-postgres",
    "mem": "alkstore-mem",
}

_SCHEME = re.compile(r"([a-z][a-z0-9.+-]*):", re.IGNORECASE)


def open_store(url: str, *, clock: Clock | None = None) -> Store:
    """An unopened store of the engine that the URL's scheme names; use it with `async with`.

    `sqlite:///app.db` (after the third slash the path, verbatim), `postgresql://…`,
    `postgresql+asyncpg://…`, `mem:`, or whatever an installed engine registered under the
    entry point group `alkstore.engines`: a callable `factory(url, *, clock=None) -> Store`.

    Raises:
        DatabaseError: no installed engine has this scheme, it cannot be imported, or it does
            not understand the URL. The message never holds the URL, which may hold a password.

    """
    check_class("url", url, str)
    match = _SCHEME.match(url)
    if match is None:
        raise DatabaseError(
            "a store's URL starts with a scheme, such as sqlite:///app.db, postgresql://… or mem:"
        )
    store = _factory(match[1].lower())(url, clock=clock)
    if not isinstance(store, Store):
        raise DatabaseError(f"the engine's factory gave {type(store).__name__}, not a Store")
    return store


def _factory(scheme: str) -> Any:
    family = scheme.partition("+")[0]
    installed = entry_points(group=GROUP)
    for name in (scheme, family):
        found = {entry.value: entry for entry in installed if entry.name == name}
        if len(found) > 1:
            owners = sorted(_owner(entry) for entry in found.values())
            raise DatabaseError(f"several engines claim the scheme {name!r}: {', '.join(owners)}")
        for entry in found.values():
            return _load(entry)
    if family in KNOWN:
        raise DatabaseError(
            f"the engine for {family!r} is not installed: pip install {KNOWN[family]}"
        )
    names = sorted({entry.name for entry in installed})
    known = ", ".join(f"{name} (pip install {package})" for name, package in KNOWN.items())
    hint = "; write postgresql://" if family == "postgres" else ""
    raise DatabaseError(
        f"no engine knows this URL's scheme{hint}; installed: {', '.join(names) or 'none'}; "
        f"available: {known}"
    )


def _load(entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        raise DatabaseError(
            f"the engine {entry.name!r} of {_owner(entry)} cannot be imported: {error}"
        ) from error


def _owner(entry: EntryPoint) -> str:
    return entry.value if entry.dist is None else entry.dist.name
