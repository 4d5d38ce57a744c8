"""How one call of a handler ended, and what follows: one answer for the log and for middlewares."""

from __future__ import annotations

import asyncio
import enum
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, NamedTuple

from attrs import frozen

from alkstore_core.errors import CodecError
from alkstore_core.worker.outcomes import Fail

if TYPE_CHECKING:
    from collections.abc import Callable


class Outcome(enum.StrEnum):
    """What becomes of a job, a message or an event after a call of its handler."""

    ACKED = "acked"
    """It is done."""

    RETRIED = "retried"
    """It failed, and is tried again."""

    DEAD = "dead"
    """It failed and is not tried again: a dead job, or an event that its consumer skips or, as its
    `on_poison` says, stops at."""

    RELEASED = "released"
    """The worker is ending: the job is given back, or left to its claim's lapse."""

    LOST = "lost"
    """Somebody else may do it: the claim, or the consumer's lock, is gone."""

    SETTLED = "settled"
    """The handler settled the `JobHandle` itself, in whatever way."""


@frozen(kw_only=True)
class Ending:
    """How one call ended. What follows is on its way to the database, not there yet."""

    outcome: Outcome
    timed_out: bool = False
    """Whether it took longer than the worker's `timeout`."""


ACKED: Final = Ending(outcome=Outcome.ACKED)
RELEASED: Final = Ending(outcome=Outcome.RELEASED)
LOST: Final = Ending(outcome=Outcome.LOST)
SETTLED: Final = Ending(outcome=Outcome.SETTLED)


class Attempt(NamedTuple):
    """A call under way, as its worker or consumer sees it."""

    number: int
    """The attempt's number, from 1."""

    consumer: str | None
    """The name of the consumer whose event it is; `None` for a worker's job."""

    ending: Callable[[BaseException | None], Ending]
    """What its end by an error, or by none, means."""


attempt_under_way: Final[ContextVar[Attempt | None]] = ContextVar("alkstore_attempt", default=None)


def ends_the_loop(error: BaseException, task: asyncio.Task[None] | None) -> bool:
    """Whether not the handler ended by this, but what runs it: by Ctrl-C, or as nobody runs it.

    Python raises Ctrl-C in the main thread alone, so on another thread's loop it is the handler's
    own. A coroutine that is closed sees a `GeneratorExit`, and not as the task it was. One that a
    handler raises while its task runs is a failure like any other.
    """
    if isinstance(error, KeyboardInterrupt):
        return threading.current_thread() is threading.main_thread()
    if not isinstance(error, GeneratorExit):
        return False
    try:
        return task is None or asyncio.current_task() is not task
    except RuntimeError:
        return True


def ending(error: BaseException | None) -> Ending:
    """For middlewares: what follows if the call that they wrap ends with `error`, or without.

    Ask when the call has ended, and raise the same error then, if any. Outside of workers and
    consumers the error alone decides.
    """
    attempt = attempt_under_way.get()
    if attempt is not None:
        return attempt.ending(error)
    if error is None:
        return ACKED
    if isinstance(error, asyncio.CancelledError):
        return RELEASED
    if isinstance(error, (Fail, CodecError)):
        return Ending(outcome=Outcome.DEAD)
    return Ending(outcome=Outcome.RETRIED)
