"""Questions that several readers ask at once, put to the database once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable

T = TypeVar("T")


class Flights:
    """Who asks while the same question is on its way gets the answer to that.

    So counting a million jobs costs the database no more for a hundred readers than for one, and
    a database that does not answer has one question from us of each kind, not ever more.
    """

    def __init__(self) -> None:
        self._under_way: dict[Hashable, asyncio.Task[Any]] = {}

    async def ask(self, question: Hashable, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The answer to a question, by `ask` unless it is under way; who leaves stops nothing."""
        task = self._under_way.get(question)
        if task is None:
            task = self._under_way[question] = asyncio.create_task(ask())

            def landed(done: asyncio.Task[Any]) -> None:
                del self._under_way[question]
                # When all who waited have left, nobody else asks what came of it.
                if not done.cancelled():
                    done.exception()

            task.add_done_callback(landed)
        return cast("T", await asyncio.shield(task))
