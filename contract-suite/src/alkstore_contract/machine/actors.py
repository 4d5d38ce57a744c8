"""Tasks that make calls: an engine with one writer asks which task it is that calls."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from attrs import frozen

from alkstore_contract.expect import UnmetError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Work = Callable[[], Awaitable[Any]]

PATIENCE_SECONDS = 10.0
"""How long a call may take, in real time, before it counts as hanging."""


@frozen
class Answer:
    """What became of a call: a value, or what it raised."""

    value: Any = None
    error: BaseException | None = None


class Actor:
    """One task, which makes one call after the other."""

    def __init__(self, name: str) -> None:
        self._inbox: asyncio.Queue[tuple[Work, asyncio.Future[Answer]]] = asyncio.Queue()
        self._task = asyncio.get_running_loop().create_task(self._serve(), name=name)

    def start(self, work: Work) -> asyncio.Future[Answer]:
        """Let it make a call; call only when it is not in another."""
        answer = asyncio.get_running_loop().create_future()
        self._inbox.put_nowait((work, answer))
        return answer

    async def end(self) -> None:
        """No more calls."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _serve(self) -> None:
        while True:
            work, answer = await self._inbox.get()
            told = await attempt(work)
            if not answer.done():
                answer.set_result(told)
            # A transaction that is dropped must be dropped here too.
            del work, answer, told


async def attempt(work: Work) -> Answer:
    """Make a call, and keep what it raises without the frames that it went through."""
    try:
        return Answer(await work())
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return Answer(error=_bare(error))
    except Exception as error:  # noqa: BLE001 - it is judged, whatever it is
        return Answer(error=_bare(error))


def _bare(error: BaseException) -> BaseException:
    link: BaseException | None = error
    while link is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
    return error


async def settled(answer: asyncio.Future[Answer], what: str) -> Answer:
    """Wait for an answer, not for ever."""
    await asyncio.wait((answer,), timeout=PATIENCE_SECONDS)
    if not answer.done():
        raise UnmetError(f"{what} has not come back after {PATIENCE_SECONDS:g} seconds")
    return answer.result()
