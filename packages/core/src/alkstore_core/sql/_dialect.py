"""What differs between the databases: each difference has a name and its one home here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    Integer,
    LargeBinary,
    Text,
    bindparam,
    case,
    func,
    literal_column,
    type_coerce,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

if TYPE_CHECKING:
    from sqlalchemy import Dialect
    from sqlalchemy.sql.compiler import SQLCompiler
    from sqlalchemy.sql.elements import ColumnElement

__all__ = ["FOREVER", "NOW", "Bytes", "Elements", "later", "unindexed", "upsert"]

upsert = insert
"""`INSERT … ON CONFLICT`; Postgres' construct, which SQLite's compiler takes as well."""


class Bytes(LargeBinary):
    """Bytes as the drivers take and give them, without a conversion on either way."""

    def bind_processor(self, dialect: Dialect) -> None:
        """Hand bytes over as they are."""

    def result_processor(self, dialect: Dialect, coltype: object) -> None:
        """Take bytes as they are."""


FOREVER: ColumnElement[int] = literal_column("9223372036854775807", BigInteger)
"""The last second there is; sums that would pass it stop here."""


class _Now(FunctionElement[int]):
    type = BigInteger()
    inherit_cache = True


@compiles(_Now)
def _compile_now(element: _Now, compiler: SQLCompiler, **kw: Any) -> str:
    return compiler.process(element.clauses.clauses[0], **kw)


NOW: ColumnElement[int] = _Now(bindparam("now", type_=BigInteger))
"""The engine's time when the op runs, put into the parameter `now` by the driver."""


def later(seconds: ColumnElement[int]) -> ColumnElement[int]:
    """`seconds` from now, or `FOREVER`; NULL for NULL.

    SQLite turns a sum that leaves the range into a float, so the sum is not made.
    """
    return case((seconds > FOREVER - NOW, FOREVER), else_=NOW + seconds)


class _Unindexed(FunctionElement[Any]):
    inherit_cache = True


@compiles(_Unindexed)
def _compile_unindexed(element: _Unindexed, compiler: SQLCompiler, **kw: Any) -> str:
    return compiler.process(element.clauses.clauses[0], **kw)


@compiles(_Unindexed, "sqlite")
def _compile_unindexed_sqlite(element: _Unindexed, compiler: SQLCompiler, **kw: Any) -> str:
    return f"+{compiler.process(element.clauses.clauses[0], **kw)}"


def unindexed(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """The column, in a condition that must not choose the index: rows are found by their ids.

    SQLite takes a list of ids for 25 rows and an index range for fewer, whatever stands in it.
    """
    return _Unindexed(column)


class _Blob(FunctionElement[bytes]):
    type = Bytes()
    inherit_cache = True


@compiles(_Blob)
def _compile_blob(element: _Blob, compiler: SQLCompiler, **kw: Any) -> str:
    return f"CAST({compiler.process(element.clauses.clauses[0], **kw)} AS BLOB)"


class Elements:
    """A JSON array parameter as a row set: many rows are one parameter.

    Elements are scalars, or arrays whose items are read by position. Payloads travel as text:
    they are JSON in UTF-8, so turning that text back into bytes gives exactly what was sent.
    """

    def __init__(self, parameter: str) -> None:
        function = func.json_each(bindparam(parameter, type_=Text))
        self.table = function.table_valued("key", "value", name=parameter)
        self.ordinal: ColumnElement[int] = self.table.c.key
        self._value = self.table.c.value

    @property
    def integer(self) -> ColumnElement[int]:
        """The element, an integer."""
        return self._typed(self._value, Integer)

    @property
    def text(self) -> ColumnElement[str]:
        """The element, a string."""
        return self._typed(self._value, Text)

    @property
    def blob(self) -> ColumnElement[bytes]:
        """The element, a string, as UTF-8 bytes."""
        return _Blob(self._value)

    def integer_at(self, position: int) -> ColumnElement[int]:
        """An item of the element, an integer or null."""
        return self._typed(self._item(position), Integer)

    def text_at(self, position: int) -> ColumnElement[str]:
        """An item of the element, a string or null."""
        return self._typed(self._item(position), Text)

    def blob_at(self, position: int) -> ColumnElement[bytes]:
        """An item of the element, a string, as UTF-8 bytes."""
        return _Blob(self._item(position))

    def _item(self, position: int) -> ColumnElement[Any]:
        return func.json_extract(self._value, literal_column(f"'$[{position}]'"))

    @staticmethod
    def _typed(value: ColumnElement[Any], type_: Any) -> ColumnElement[Any]:
        return type_coerce(value, type_)
