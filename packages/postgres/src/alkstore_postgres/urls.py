"""Connection URLs: libpq's, and what stands in them."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from alkstore_core import DatabaseError

if TYPE_CHECKING:
    from collections.abc import Mapping

_SCHEMES: Final = ("postgresql", "postgresql+asyncpg")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9.+-]*", re.IGNORECASE)
SHAPE: Final = "a Postgres URL is postgresql://user:password@host:port/database?sslmode=…"

PORT: Final = 5432

ATTRIBUTES: Final = ("any", "primary", "read-write")
"""What `target_session_attrs` may ask for: everything else leads to servers that only read."""

# A name, an address or the directory of a socket; IPv6 in brackets; a port.
_PLACE: Final = re.compile(r"(?:\[(?P<six>[^\]]+)\]|(?P<host>[^:]+))(?::(?P<port>\d+))?")


class Place(NamedTuple):
    """One of several servers."""

    host: str
    port: int

    def __str__(self) -> str:
        """As messages name it."""
        return f"{self.host}:{self.port}"


def dsn(url: str) -> str:
    """The URL for asyncpg: `sslmode` and its like, several hosts and sockets as in libpq.

    Raises:
        DatabaseError: another scheme, or no URL; the message holds no more of it than what is
            sure to be a scheme, because it may hold a password.

    """
    scheme, separator, rest = url.partition("://")
    if scheme.lower() not in _SCHEMES or not separator:
        if separator and _SCHEME.fullmatch(scheme):
            driver = scheme.partition("+")[2]
            hint = f" (leave +{driver} out)" if driver else ""
            raise DatabaseError(f"{scheme}:// is not the scheme of a Postgres URL{hint}; {SHAPE}")
        raise DatabaseError(SHAPE)
    return f"postgresql://{rest}"


def check(url: str) -> None:
    """Refuse what is no URL of a database that a store can use, before anything is opened.

    Raises:
        DatabaseError: it makes no sense, or asks for a server on which nothing can be written.

    """
    places(url)
    wanted_attribute(url)


def describe(url: str) -> str:
    """What errors call the database; without user and password."""
    try:
        parts = urlsplit(url)
        where = parts.netloc.rpartition("@")[2]
        path = parts.path.lstrip("/")
    except ValueError:
        return "Postgres database"
    if not where:
        where = ",".join(parse_qs(parts.query).get("host", []))
    return f"Postgres database {path or '(default)'} at {where or 'the default host'}"


def application_name(url: str) -> str | None:
    """How sessions are to be called, if the URL says so."""
    return _last(_query(url), "application_name")


def wanted_attribute(url: str) -> str:
    """Which of the servers will do, by `target_session_attrs`.

    Raises:
        DatabaseError: it asks for a server on which nothing can be written.

    """
    wanted = _last(_query(url), "target_session_attrs") or os.environ.get("PGTARGETSESSIONATTRS")
    if wanted is None:
        return "any"
    if wanted not in ATTRIBUTES:
        raise DatabaseError(
            f"target_session_attrs is {wanted!r} in the Postgres URL: a store writes, so it takes "
            f"{', '.join(ATTRIBUTES[:-1])} or {ATTRIBUTES[-1]}"
        )
    return wanted


def places(url: str) -> tuple[Place, ...]:
    """The servers that are named, where there are several; otherwise none.

    They stand in front of the path, or in the parameter `host`, once with commas as in libpq or
    again and again as in SQLAlchemy; or in `PGHOST`.

    Raises:
        DatabaseError: they make no sense.

    """
    query = _query(url)
    named = urlsplit(dsn(url)).netloc.rpartition("@")[2]
    spec = named or ",".join(query.get("host", [])) or os.environ.get("PGHOST", "")
    entries = spec.split(",")
    if len(entries) == 1:
        return ()
    ports = ",".join(query.get("port", [])) or os.environ.get("PGPORT") or str(PORT)
    given = ports.split(",")
    if len(given) == 1:
        given *= len(entries)
    if len(given) != len(entries):
        raise DatabaseError("the Postgres URL names more ports than hosts, or fewer; " + SHAPE)
    return tuple(_place(entry, port) for entry, port in zip(entries, given, strict=True))


def _place(entry: str, port: str) -> Place:
    found = _PLACE.fullmatch(entry)
    port = (found and found["port"]) or port
    if found is None or not port.isdecimal():
        raise DatabaseError("the hosts of the Postgres URL make no sense; " + SHAPE)
    return Place(unquote(found["six"] or found["host"]), int(port))


def _query(url: str) -> Mapping[str, list[str]]:
    try:
        return parse_qs(urlsplit(dsn(url)).query)
    except ValueError:
        raise DatabaseError(f"the URL cannot be used; {SHAPE}") from None


def _last(query: Mapping[str, list[str]], name: str) -> str | None:
    return query[name][-1] if name in query else None
