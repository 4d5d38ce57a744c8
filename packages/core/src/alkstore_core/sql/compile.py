"""Core statements to SQL text, once per statement and dialect.

For drivers that run DBAPI connections without SQLAlchemy. Bind and result processors are not
applied: the tables use types whose Python values the drivers take and give as they are.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import Dialect, Executable


class Compiled(NamedTuple):
    """SQL text with positional parameters, and how to put named ones into their places."""

    sql: str
    arguments: Callable[[Mapping[str, Any]], Sequence[Any]]
    needs_now: bool
    gives_rows: bool


def _nothing(_: Mapping[str, Any]) -> Sequence[Any]:
    return ()


class Compiler:
    """Compiles for one dialect, which has to be of a positional parameter style."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._done: dict[Executable, Compiled] = {}

    def __call__(self, statement: Executable) -> Compiled:
        """Return the compiled statement; module-level statements compile once."""
        done = self._done.get(statement)
        if done is None:
            done = self._done[statement] = self._compile(statement)
        return done

    def _compile(self, statement: Executable) -> Compiled:
        compiled = statement.compile(  # type: ignore[attr-defined]
            dialect=self._dialect, compile_kwargs={"render_postcompile": True}
        )
        names: tuple[str, ...] = tuple(compiled.positiontup or ())
        constants = {name: value for name, value in compiled.params.items() if value is not None}
        needs_now = "now" in names
        gives_rows = statement.is_select or bool(compiled.effective_returning)
        if not names:
            return Compiled(compiled.string, _nothing, needs_now, gives_rows)
        if constants:
            pick = _picker(names)
            return Compiled(
                compiled.string,
                lambda given: pick({**constants, **given}),
                needs_now,
                gives_rows,
            )
        return Compiled(compiled.string, _picker(names), needs_now, gives_rows)


def _picker(names: tuple[str, ...]) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    if len(names) == 1:
        (name,) = names
        return lambda given: (given[name],)
    return itemgetter(*names)
