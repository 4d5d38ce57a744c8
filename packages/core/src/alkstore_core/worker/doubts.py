"""Whose fault a `DatabaseError` is: that of who raised it, or of the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alkstore_core.errors import DatabaseError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Doubt:
    """What a `DatabaseError` means that an event's handler, or its commit, has raised.

    A wrong argument is one, and so is a lost connection, which is trouble of the database even
    when it is back at the next moment. So the first one is never a failed try; the next one is,
    provided the database answers after both.
    """

    def __init__(self, answers: Callable[[], Awaitable[bool]]) -> None:
        self._answers = answers
        self._answered = False

    def counts_if_answered(self, error: BaseException) -> bool:
        """Whether it is a failed try, should the database answer now."""
        return self._answered or not isinstance(error, DatabaseError)

    async def counts(self, error: BaseException, *, called: bool) -> bool:
        """Whether it is a failed try; asks the database if need be.

        Before the handler was `called`, a `DatabaseError` is nobody's fault.
        """
        answered_before, self._answered = self._answered, False
        if not isinstance(error, DatabaseError):
            return True
        if called:
            self._answered = await self._answers()
        return answered_before and self._answered
