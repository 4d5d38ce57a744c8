"""Ops of the shared SQL in their Postgres forms: other statements, and the wake within them.

An op's rows may be changed by others at the same time here, so what touches many rows locks them
first, in the order of their ids: two such statements then never wait for each other.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from sqlalchemy import ARRAY, CTE, BigInteger, Text, any_, bindparam, func, literal_column, select

from alkstore_core.sql._dialect import Elements
from alkstore_core.sql.op import Op, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import Executable, Select, Table
    from sqlalchemy.sql.elements import ColumnElement

P = ParamSpec("P")
T = TypeVar("T")

Wake = str | None
"""The channel to notify when an op did something."""

_NOTHING: ColumnElement[str] = literal_column("''", Text)

# Once, with the first row that the statement changed.
NOTIFIED: Final = select(func.pg_notify(bindparam("wake", type_=Text), _NOTHING)).scalar_subquery()

_channels = Elements("channels")

NOTIFY_ALL = select(func.pg_notify(_channels.text, _NOTHING)).select_from(_channels.table)


def materialized(chosen: Select[Any], name: str) -> CTE:
    """A query that runs once, to its end, before the rest of its statement."""
    return chosen.cte(name).prefix_with("MATERIALIZED")


def locked(table: Table, *conditions: ColumnElement[bool], skip: bool = False) -> CTE:
    """Rows of a table by their key, locked one after the other in its order.

    With `skip` those that somebody else has locked are left to them.
    """
    (key,) = table.primary_key
    chosen = select(key).where(*conditions).order_by(key)
    return materialized(chosen.with_for_update(of=table, skip_locked=skip), "locked")


def among(column: ColumnElement[int], chosen: CTE | Select[int]) -> ColumnElement[bool]:
    """Whether a row's key is one of those that were chosen.

    As an array, for which the planner reckons with ten elements and so finds each by its key. A
    join it may turn into a scan of the table, when it believes that many were chosen.
    """
    found = select(*chosen.c) if isinstance(chosen, CTE) else chosen
    keys = func.array(found.scalar_subquery(), type_=ARRAY(BigInteger))
    condition: ColumnElement[bool] = column == any_(keys)
    return condition


def waking(statement: Any) -> Executable:
    """An INSERT, UPDATE or DELETE which also notifies the channel `wake` if it changes rows."""
    loud: Executable = statement.returning(NOTIFIED)
    return loud


def adapted(
    forms: Mapping[Any, Executable],
) -> Callable[[Callable[P, Op[T]]], Callable[Concatenate[Wake, P], Op[T]]]:
    """Decorate an op of the shared SQL; it takes a channel to notify before its arguments.

    `forms` says what statements of it are on Postgres.
    """

    def decorate(op: Callable[P, Op[T]]) -> Callable[Concatenate[Wake, P], Op[T]]:
        loud = _Loud(forms)

        def form(wake: Wake, /, *args: P.args, **kwargs: P.kwargs) -> Op[T]:
            steps = op(*args, **kwargs)
            try:
                statement, given = next(steps)
                while True:
                    if wake is None:
                        result = yield forms.get(statement, statement), given
                    else:
                        result = yield loud[statement], {**given, "wake": wake}
                        result = _without_last(result.rows)
                    statement, given = steps.send(result)
            except StopIteration as stop:
                value: T = stop.value
                return value

        functools.update_wrapper(form, op)
        return form

    return decorate


class _Loud(dict[Any, "Executable"]):
    """Statement → its form that notifies."""

    def __init__(self, forms: Mapping[Any, Executable]) -> None:
        super().__init__()
        self._forms = forms

    def __missing__(self, statement: Any) -> Executable:
        form = self[statement] = waking(self._forms.get(statement, statement))
        return form


def _without_last(rows: Sequence[tuple[Any, ...]]) -> Result:
    return Result([row[:-1] for row in rows], len(rows))


def notify_all(channels: str) -> Op[None]:
    """Notify channels, a JSON array of names, when the transaction commits."""
    yield NOTIFY_ALL, {"channels": channels}
