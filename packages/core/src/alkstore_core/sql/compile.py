"""Core statements to SQL text, once per statement and dialect, and ops driven by that text.

For drivers that run DBAPI connections without SQLAlchemy's own execution. Bind and result
processors are not applied: the tables use types whose Python values the drivers take and give
as they are.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from sqlalchemy import Dialect, Executable

    from alkstore_core.sql.op import Op, Result

T = TypeVar("T")


class Request(NamedTuple):
    """What a DBAPI cursor is to execute next.

    `arguments` is a tuple, or a dict where the driver's parameters have names.
    """

    sql: str
    arguments: Any
    gives_rows: bool


class _Compiled(NamedTuple):
    sql: str
    arguments: Callable[[Mapping[str, Any]], Any]
    needs_now: bool
    gives_rows: bool


# Stands for the schema in what is compiled once for all schemas.
_PLACE = "alkstore_schema_goes_here"


class Compiler:
    """Compiles for one dialect, and for the tables of one schema where there are schemas."""

    def __init__(self, dialect: Dialect, schema: str | None = None) -> None:
        self._dialect = dialect
        self._schema = schema
        self._done: dict[Executable, _Compiled] = {}
        self._elsewhere: dict[Executable, _Compiled] = {}
        """What compilers of other schemas have done, with the place of the schema left open."""

    def for_schema(self, schema: str) -> Compiler:
        """A compiler of the same dialect; a statement is compiled once for all of them."""
        other = Compiler(self._dialect, schema)
        other._elsewhere = self._elsewhere
        return other

    def request(self, statement: Executable, given: Mapping[str, Any]) -> Request:
        """A statement with its parameters, the time among them when it needs that."""
        sql, arguments, _, gives_rows = self._compiled(statement)
        return Request(sql, arguments(given), gives_rows)

    def requests(
        self, op: Callable[..., Op[T]], args: Sequence[Any], now: Callable[[], int | None]
    ) -> Generator[Request, Result, T]:
        """An op as SQL text. The time is read once, when the op first needs it."""
        generator = op(*args)
        time: list[int | None] = []
        try:
            statement, given = next(generator)
            while True:
                sql, arguments, needs_now, gives_rows = self._compiled(statement)
                if needs_now:
                    if not time:
                        time.append(now())
                    given = {**given, "now": time[0]}
                result = yield Request(sql, arguments(given), gives_rows)
                statement, given = generator.send(result)
        except StopIteration as stop:
            value: T = stop.value
            return value

    def _compiled(self, statement: Executable) -> _Compiled:
        done = self._done.get(statement)
        if done is None:
            done = self._done[statement] = self._compile(statement)
        return done

    def _compile(self, statement: Executable) -> _Compiled:
        if self._schema is None:
            return self._translate(statement)
        done = self._elsewhere.get(statement)
        if done is None:
            schemas = {"schema_translate_map": {None: _PLACE}, "render_schema_translate": True}
            done = self._elsewhere[statement] = self._translate(statement, **schemas)
        schema = self._dialect.identifier_preparer.quote_schema(self._schema)
        return done._replace(sql=done.sql.replace(f"{_PLACE}.", f"{schema}."))

    def _translate(self, statement: Executable, **options: Any) -> _Compiled:
        compiled = statement.compile(dialect=self._dialect, **options)  # type: ignore[attr-defined]
        # Not by the compiler's `effective_returning`: a statement that was made of another by
        # adding RETURNING after that one was compiled has inherited its memory of having none.
        gives_rows = statement.is_select or bool(getattr(statement, "_returning", ()))
        names: tuple[str, ...]
        if self._dialect.positional:
            names = tuple(compiled.positiontup)
            arguments = _picker(names)
        else:
            names = tuple(compiled.bind_names.values())
            arguments = _subset(names)
        return _Compiled(compiled.string, arguments, "now" in names, gives_rows)


def drive(steps: Generator[Request, Result, T], execute: Callable[[Request], Result]) -> T:
    """Execute an op's requests one after the other, blocking; return the op's value."""
    try:
        request = next(steps)
        while True:
            request = steps.send(execute(request))
    except StopIteration as stop:
        value: T = stop.value
        return value


def _picker(names: tuple[str, ...]) -> Callable[[Mapping[str, Any]], Any]:
    if len(names) > 1:
        return itemgetter(*names)
    return lambda given: tuple(given[name] for name in names)


def _subset(names: tuple[str, ...]) -> Callable[[Mapping[str, Any]], Any]:
    return lambda given: {name: given[name] for name in names}
