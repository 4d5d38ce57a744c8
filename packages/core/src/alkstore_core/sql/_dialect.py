"""What differs between the databases: each difference has a name and its one home here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    LargeBinary,
    Text,
    bindparam,
    case,
    literal_column,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

if TYPE_CHECKING:
    from sqlalchemy import Dialect
    from sqlalchemy.sql.compiler import SQLCompiler
    from sqlalchemy.sql.elements import ColumnElement
    from sqlalchemy.sql.selectable import TableValuedAlias

__all__ = ["EMPTY", "FOREVER", "NOW", "Bytes", "Elements", "later", "unindexed", "upsert"]

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


@compiles(_Now, "postgresql")
def _compile_now_postgresql(element: _Now, compiler: SQLCompiler, **kw: Any) -> str:
    # A sub-select is asked once for a statement; the bare call would be made for each row. And
    # floored: a cast rounds.
    given = compiler.process(element.clauses.clauses[0], **kw)
    clock = "floor(extract(epoch FROM clock_timestamp()))::bigint"
    return f"(SELECT coalesce({given}, {clock}))"


NOW: ColumnElement[int] = _Now(bindparam("now", type_=BigInteger))
"""The engine's time when the op runs, put into the parameter `now` by the driver.

Where the database's own clock is the engine's, the driver puts NULL there.
"""


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


@compiles(_Unindexed, "postgresql")
def _compile_unindexed_postgresql(element: _Unindexed, compiler: SQLCompiler, **kw: Any) -> str:
    return f"({compiler.process(element.clauses.clauses[0], **kw)} || '')"


def unindexed(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """The text column, in a condition that must not choose the index: rows are found by ids.

    SQLite takes a list of ids for 25 rows and an index range for fewer, whatever stands in it;
    Postgres believes statistics of an hour when the index was empty.
    """
    return _Unindexed(column)


class _Blob(FunctionElement[bytes]):
    type = Bytes()
    inherit_cache = True


@compiles(_Blob)
def _compile_blob(element: _Blob, compiler: SQLCompiler, **kw: Any) -> str:
    return f"CAST({compiler.process(element.clauses.clauses[0], **kw)} AS BLOB)"


@compiles(_Blob, "postgresql")
def _compile_blob_postgresql(element: _Blob, compiler: SQLCompiler, **kw: Any) -> str:
    return f"convert_to({compiler.process(element.clauses.clauses[0], **kw)}, 'UTF8')"


class _Empty(FunctionElement[bytes]):
    type = Bytes()
    inherit_cache = True


@compiles(_Empty)
def _compile_empty(element: _Empty, compiler: SQLCompiler, **kw: Any) -> str:  # noqa: ARG001
    return "0"


@compiles(_Empty, "postgresql")
def _compile_empty_postgresql(element: _Empty, compiler: SQLCompiler, **kw: Any) -> str:  # noqa: ARG001
    return "''::bytea"


EMPTY: ColumnElement[bytes] = _Empty()
"""The least that stands in for bytes which nobody will read."""


class _Each(FunctionElement[Any]):
    """The rows of a JSON array: `key`, ascending, and `value`."""

    name = "json_each"
    inherit_cache = True


@compiles(_Each)
def _compile_each(element: _Each, compiler: SQLCompiler, **kw: Any) -> str:
    return f"json_each({compiler.process(element.clauses.clauses[0], **kw)})"


@compiles(_Each, "postgresql")
def _compile_each_postgresql(element: _Each, compiler: SQLCompiler, **kw: Any) -> str:
    # Given as text: an application may have its own idea of how the driver encodes JSON.
    array = compiler.process(element.clauses.clauses[0], **kw)
    rows = f"json_array_elements(CAST({array} AS JSON)) WITH ORDINALITY AS each(value, key)"
    return f"(SELECT each.value, each.key FROM {rows})"  # noqa: S608 - no value in it


class _Scalar(FunctionElement[Any]):
    """The value of a row of `_Each`, as text or as a number."""

    name = "value"
    inherit_cache = True

    def __init__(self, type_: type[BigInteger | Text], value: ColumnElement[Any]) -> None:
        self.type = type_()
        super().__init__(value)


@compiles(_Scalar)
def _compile_scalar(element: _Scalar, compiler: SQLCompiler, **kw: Any) -> str:
    return compiler.process(element.clauses.clauses[0], **kw)


@compiles(_Scalar, "postgresql")
def _compile_scalar_postgresql(element: _Scalar, compiler: SQLCompiler, **kw: Any) -> str:
    value = f"({compiler.process(element.clauses.clauses[0], **kw)} #>> '{{}}')"
    return _as_type(element, value)


class _Item(FunctionElement[Any]):
    """An item of the array in a row of `_Each`, as text or as a number."""

    name = "json_extract"
    inherit_cache = True

    def __init__(
        self, type_: type[BigInteger | Text], value: ColumnElement[Any], position: int
    ) -> None:
        self.type = type_()
        super().__init__(value, literal_column(str(position)))


@compiles(_Item)
def _compile_item(element: _Item, compiler: SQLCompiler, **kw: Any) -> str:
    value, position = (compiler.process(clause, **kw) for clause in element.clauses.clauses)
    return f"json_extract({value}, '$[{position}]')"


@compiles(_Item, "postgresql")
def _compile_item_postgresql(element: _Item, compiler: SQLCompiler, **kw: Any) -> str:
    value, position = (compiler.process(clause, **kw) for clause in element.clauses.clauses)
    return _as_type(element, f"({value} ->> {position})")


def _as_type(element: FunctionElement[Any], text: str) -> str:
    return f"{text}::bigint" if isinstance(element.type, BigInteger) else text


class Elements:
    """A JSON array parameter as a row set: many rows are one parameter.

    Elements are scalars, or arrays whose items are read by position. Payloads travel as text:
    they are JSON in UTF-8, so turning that text back into bytes gives exactly what was sent.
    """

    def __init__(self, parameter: str) -> None:
        rows = _Each(bindparam(parameter, type_=Text))
        self.table: TableValuedAlias = rows.table_valued("key", "value", name=parameter)
        self.ordinal: ColumnElement[int] = self.table.c.key
        self._value = self.table.c.value

    @property
    def integer(self) -> ColumnElement[int]:
        """The element, an integer."""
        return _Scalar(BigInteger, self._value)

    @property
    def text(self) -> ColumnElement[str]:
        """The element, a string."""
        return _Scalar(Text, self._value)

    @property
    def blob(self) -> ColumnElement[bytes]:
        """The element, a string, as UTF-8 bytes."""
        return _Blob(_Scalar(Text, self._value))

    def integer_at(self, position: int) -> ColumnElement[int]:
        """An item of the element, an integer or null."""
        return _Item(BigInteger, self._value, position)

    def text_at(self, position: int) -> ColumnElement[str]:
        """An item of the element, a string or null."""
        return _Item(Text, self._value, position)

    def blob_at(self, position: int) -> ColumnElement[bytes]:
        """An item of the element, a string, as UTF-8 bytes."""
        return _Blob(_Item(Text, self._value, position))
