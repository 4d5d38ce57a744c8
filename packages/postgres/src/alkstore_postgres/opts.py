"""How a `PostgresStore` behaves."""

from __future__ import annotations

from typing import Final

import attrs
from attrs.validators import optional

LONGEST_NAME: Final = 63


def _seconds(_: object, attribute: attrs.Attribute[float], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        message = f"PostgresOpts.{attribute.name} is {value!r}; it takes seconds above 0"
        raise ValueError(message)


def _connections(_: object, attribute: attrs.Attribute[int], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        message = f"PostgresOpts.{attribute.name} is {value!r}; it takes a number of 1 or more"
        raise ValueError(message)


def _flag(_: object, attribute: attrs.Attribute[bool], value: object) -> None:
    if not isinstance(value, bool):
        message = f"PostgresOpts.{attribute.name} is {value!r}; it takes True or False"
        raise ValueError(message)  # noqa: TRY004 - as for every other option


def _identifier(_: object, attribute: attrs.Attribute[str], value: object) -> None:
    # Postgres cuts longer names without an error, and would find another schema then.
    if not isinstance(value, str) or not 0 < len(value.encode()) <= LONGEST_NAME or "\0" in value:
        message = f"PostgresOpts.{attribute.name} is {value!r}; it takes a name of 1 to 63 bytes"
        raise ValueError(message)
    if value.lower().startswith("pg_"):
        message = f"PostgresOpts.{attribute.name} is {value!r}; Postgres keeps pg_ for itself"
        raise ValueError(message)


def _url(_: object, attribute: attrs.Attribute[str | None], value: object) -> None:
    if value is not None and not isinstance(value, str):
        message = f"PostgresOpts.{attribute.name} takes a URL, not {type(value).__name__}"
        raise ValueError(message)


@attrs.frozen(kw_only=True)
class PostgresOpts:
    """Options of one store. They concern this process only; nothing of them is stored."""

    schema: str = attrs.field(default="alkstore", validator=_identifier)
    """The schema that holds the tables and nothing else. Several stores of one database may use
    schemas of their own; they share nothing then but the names of notified channels."""

    migrate: bool = attrs.field(default=True, validator=_flag)
    """Whether opening makes the schema or brings it up to date. Without, it is only checked, and
    `alkstore-postgres upgrade` is what changes it."""

    pool_size: int = attrs.field(default=10, validator=_connections)
    """How many connections calls and transactions share at most. An application's own engine
    has its own pool instead."""

    pool_timeout: float = attrs.field(default=10.0, validator=_seconds)
    """Seconds a call waits for a free connection before it is a `DatabaseError`. An
    application's own engine has its own time-out instead."""

    connect_timeout: float = attrs.field(default=10.0, validator=_seconds)
    """Seconds until a connection that does not come about is a `DatabaseError`. Where the URL
    names several servers each of them gets so long."""

    statement_timeout: float = attrs.field(default=30.0, validator=_seconds)
    """Seconds after which the server gives up a statement of ours, which is a `DatabaseError`.
    It bounds how long a call waits for somebody's lock on its rows."""

    listen_url: str | None = attrs.field(default=None, validator=_url, repr=False)
    """Where to LISTEN, when the store's own address is a pooler that cannot carry it."""

    pgbouncer: bool = attrs.field(default=False, validator=_flag)
    """Whether a pooler in transaction mode is in between: no prepared statements with names, no
    settings of a session. Give `listen_url` as well, or a `poll_interval`."""

    poll_interval: float | None = attrs.field(default=None, validator=optional(_seconds))
    """Seconds between two looks at the tables instead of LISTEN, for sites without it. Queues,
    streams and schedules wake that much later; `listen` is refused, because a notify leaves
    nothing in the tables."""
