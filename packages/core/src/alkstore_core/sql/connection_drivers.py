"""Ops inside a transaction that lives on a SQLAlchemy connection, async or sync."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from alkstore_core.completion import to_the_end
from alkstore_core.errors import AlkstoreError
from alkstore_core.sql.compile import Compiler, Request, drive
from alkstore_core.sql.faults import refused
from alkstore_core.sql.op import Driver, Mode, Op, Result

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection, Dialect
    from sqlalchemy.ext.asyncio import AsyncConnection

T = TypeVar("T")

# By kind, not by engine: an application may make and drop engines as it likes.
_compilers: dict[tuple[type[Dialect], str, str | None], Compiler] = {}


class AsyncConnectionDriver(Driver):
    """Runs ops on an `AsyncConnection`, in whatever transaction it is in."""

    def __init__(
        self,
        connection: AsyncConnection,
        now: Callable[[], int | None],
        schema: str | None = None,
    ) -> None:
        self._connection = connection
        self._now = now
        self._schema = schema

    async def run(self, mode: Mode, op: Callable[..., Op[T]], *args: Any) -> T:  # noqa: ARG002
        """Run an op to its end, whatever becomes of the caller; all modes are the same.

        SQLAlchemy gives up a connection whose statement is cancelled, and with it everything
        that the transaction did before.
        """
        work = self._connection.run_sync(run_on, self._now, op, *args, schema=self._schema)
        return await to_the_end(asyncio.ensure_future(work))


class ConnectionDriver(Driver):
    """Runs ops on a `Connection`, in whatever transaction it is in, without ever waiting."""

    def __init__(
        self, connection: Connection, now: Callable[[], int | None], schema: str | None = None
    ) -> None:
        self._connection = connection
        self._now = now
        self._schema = schema

    async def run(self, mode: Mode, op: Callable[..., Op[T]], *args: Any) -> T:  # noqa: ARG002
        """Run an op to its end; all modes are the same."""
        return run_on(self._connection, self._now, op, *args, schema=self._schema)


def run_on(
    connection: Connection,
    now: Callable[[], int | None],
    op: Callable[..., Op[T]],
    *args: Any,
    schema: str | None = None,
) -> T:
    """Run an op on a connection; the whole op sees one time.

    Raises:
        DatabaseError: the database refused; the driver's error is the cause.

    """

    def execute(request: Request) -> Result:
        # As text: passed as parameters of a Core statement, names of columns would be taken for
        # values to insert or update.
        cursor = connection.exec_driver_sql(request.sql, request.arguments)
        rows = [tuple(row) for row in cursor] if request.gives_rows else []
        return Result(rows, cursor.rowcount)

    try:
        return drive(_compiler(connection.dialect, schema).requests(op, args, now), execute)
    except AlkstoreError:
        raise
    except Exception as error:
        raise refused("the database", error) from error


def _compiler(dialect: Dialect, schema: str | None) -> Compiler:
    kind = (type(dialect), dialect.paramstyle, schema)
    compiler = _compilers.get(kind)
    if compiler is None:
        if schema is None:
            compiler = Compiler(dialect)
        else:
            compiler = _compiler(dialect, None).for_schema(schema)
        _compilers[kind] = compiler
    return compiler
