"""Connection URLs: libpq's, taken by asyncpg as they are."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

import asyncpg

from alkstore_core import DatabaseError

_SCHEMES: Final = ("postgresql", "postgresql+asyncpg")
_SHAPE: Final = "a Postgres URL is postgresql://user:password@host:port/database?sslmode=…"


def dsn(url: str) -> str:
    """The URL for asyncpg: `sslmode` and its like, several hosts and sockets as in libpq.

    Raises:
        DatabaseError: another scheme, or no URL; the message holds nothing of it, because it
            may hold a password.

    """
    scheme, separator, rest = url.partition("://")
    if scheme.lower() not in _SCHEMES or not separator:
        raise DatabaseError(_SHAPE)
    return f"postgresql://{rest}"


def describe(url: str) -> str:
    """What errors call the database; without user and password."""
    try:
        parts = urlsplit(url)
        where = parts.netloc.rpartition("@")[2]
        path = parts.path.lstrip("/")
    except ValueError:
        return "the Postgres database"
    return f"Postgres database {path or '(default)'} at {where or 'the default host'}"


async def connect(url: str, **options: Any) -> asyncpg.Connection:
    """Connect as the URL says.

    Raises:
        DatabaseError: the URL makes no sense; what asyncpg says of it may hold a password.
        Exception: whatever asyncpg raises when the server cannot be reached or refuses.

    """
    try:
        return await asyncpg.connect(dsn(url), **options)
    except OSError:
        # A certificate that does not verify is a ValueError as well.
        raise
    except (asyncpg.InterfaceError, ValueError):
        raise DatabaseError(f"the URL cannot be used; {_SHAPE}") from None
