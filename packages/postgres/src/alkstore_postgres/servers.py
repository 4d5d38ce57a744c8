"""Servers: those a URL names, tried one after the other, and whether one will do."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

import asyncpg
from sqlalchemy import text

from alkstore_core import DatabaseError
from alkstore_core.sql.faults import reason
from alkstore_postgres.schema import told
from alkstore_postgres.urls import SHAPE, dsn, places, wanted_attribute

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.ext.asyncio import AsyncEngine

    from alkstore_postgres.urls import Place

STANDBY: Final = "the server is a standby, where nothing can be written"
_ELSEWHERE: Final = "give the address of the primary, or those of all servers"
_READ_ONLY: Final = "the server is read-only by default"

# Of a server that is there and takes nobody in: it starts, shuts down, or is full.
_CLOSED_STATES: Final = ("57P", "08", "53")

_FITNESS: Final = text(
    "SELECT current_setting('server_encoding'), pg_is_in_recovery(), "
    "current_setting('default_transaction_read_only') = 'on'"
)


PARTING: Final = 1.0
"""Seconds for a polite end."""


class UnfitError(ConnectionError):
    """A server was reached, and the store cannot work on it."""


class Connection(asyncpg.Connection):  # type: ignore[misc]
    """asyncpg's, whose end does not wait for ever for a server that says nothing."""

    async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109 - asyncpg's
        """Say goodbye, within a second unless told otherwise; then hang up."""
        # asyncpg's own time-out leaves out what it waits for after a cancelled statement.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PARTING if timeout is None else timeout):
                await super().close()


class Servers:
    """What a URL leads to: one server, or several of which one takes writes.

    Each gets the whole of `timeout`, so one that has fallen silent does not keep the next from
    being asked; whichever was good is asked first the next time.
    """

    def __init__(self, url: str, *, timeout: float, judge: bool = True, **options: Any) -> None:
        """Prepare; `options` are asyncpg's. `judge`: whether what a server says of itself counts.

        Raises:
            DatabaseError: the URL makes no sense.

        """
        self._dsn = dsn(url)
        self._wanted = wanted_attribute(url)
        self._places: tuple[Place | None, ...] = places(url) or (None,)
        self._timeout = timeout
        self._judge = judge
        self._options = options
        self._good = 0

    async def connect(self) -> asyncpg.Connection:
        """Connect to the first that will do.

        Raises:
            DatabaseError: the URL makes no sense; what asyncpg says of it may hold a password.
            OSError: none can be reached, or none will do.
            Exception: whatever else asyncpg raises when a server refuses.

        """
        refusals: list[str] = []
        for number in self._order():
            place = self._places[number]
            try:
                connection = await self._try(place)
            except Exception as error:
                if place is None or not _may_be_elsewhere(error):
                    raise
                refusals.append(_refusal(place, error, self._timeout))
            else:
                self._good = number
                return connection
        raise ConnectionError("; ".join(refusals))

    def _order(self) -> Iterator[int]:
        good = self._good
        yield good
        yield from (number for number in range(len(self._places)) if number != good)

    async def _try(self, place: Place | None) -> asyncpg.Connection:
        where: dict[str, Any] = {} if place is None else place._asdict()
        try:
            connection = await asyncpg.connect(
                self._dsn,
                **where,
                **self._options,
                connection_class=Connection,
                timeout=self._timeout,
                # Only one of several could be chosen by it, and each here is on its own.
                target_session_attrs="any",
            )
        except OSError:
            # A certificate that does not verify is a ValueError as well.
            raise
        except (asyncpg.InterfaceError, ValueError):
            raise DatabaseError(f"the URL cannot be used; {SHAPE}") from None
        if self._judge and (fault := self._fault(connection)) is not None:
            connection.terminate()
            raise UnfitError(fault if place is not None else f"{fault}: {_ELSEWHERE}")
        return connection

    def _fault(self, connection: asyncpg.Connection) -> str | None:
        if is_standby(connection):
            return STANDBY
        if self._wanted == "read-write" and _says(connection, "default_transaction_read_only"):
            return _READ_ONLY
        return None


def is_standby(connection: asyncpg.Connection) -> bool:
    """Whether nothing can be written where it leads to, as far as the server has told."""
    return _says(connection, "in_hot_standby")


async def check_server(engine: AsyncEngine, describe: str, patience: float | None = None) -> None:
    """Refuse a database on which a store cannot keep its promises, within `patience` seconds.

    Raises:
        DatabaseError: it cannot be reached, is not in UTF8, is a standby, or is read-only.

    """
    with told(f"cannot use the {describe}"):
        async with asyncio.timeout(patience), engine.connect() as connection, connection.begin():
            encoding, recovering, read_only = (await connection.execute(_FITNESS)).one()
    if encoding != "UTF8":
        raise DatabaseError(
            f"cannot use the {describe}: its encoding is {encoding}, which does not hold every "
            "text: create one with ENCODING 'UTF8'"
        )
    if recovering:
        raise DatabaseError(
            f"cannot use the {describe}: {STANDBY}: {_ELSEWHERE}, with "
            "target_session_attrs=read-write"
        )
    if read_only:
        raise DatabaseError(
            f"cannot use the {describe}: {_READ_ONLY}: set default_transaction_read_only to off, "
            "for the server, the database or the role, wherever it is on"
        )


def _says(connection: asyncpg.Connection, setting: str) -> bool:
    # The server tells both of its own accord, also when they change; once closed asyncpg has
    # forgotten them, and whoever uses the connection will see that it is.
    return not connection.is_closed() and getattr(connection.get_settings(), setting, "off") == "on"


def _may_be_elsewhere(error: Exception) -> bool:
    """Whether another server may take us in: this one is away, closed or unfit."""
    state = getattr(error, "sqlstate", None)
    return isinstance(error, OSError) or (state or "").startswith(_CLOSED_STATES)


def _refusal(place: Place, error: Exception, timeout: float) -> str:
    silent = isinstance(error, TimeoutError) and not str(error)
    return f"{place}: " + (f"no answer in {timeout:g} s" if silent else reason(error))
