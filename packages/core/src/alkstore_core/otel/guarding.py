"""What fails within tracing changes nothing of what is traced."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from alkstore_core.policy.errortext import storable_error
from alkstore_core.worker.outcomes import Fail, Retry

if TYPE_CHECKING:
    from types import TracebackType

_log: Final = logging.getLogger(__name__)


class Guard:
    """Makes steps of tracing; each failing one is logged, the first of its kind as a warning."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def step(self, what: str) -> _Step:
        """A block that is left where it fails; what comes after it goes on."""
        return _Step(self, what)

    def tell(self, what: str, error: Exception) -> None:
        """Log a failure: with its traceback, or, when it is not the first of these, for debugging.

        A tracer that is broken fails at each message, and each log line costs more than it.
        """
        first = what not in self._told
        self._told.add(what)
        _log.log(
            logging.WARNING if first else logging.DEBUG,
            "tracing: %s failed, nothing else does: %s",
            *(what, storable_error(error)),
            exc_info=error if first else None,
        )


class _Step:
    """A class, as a generator would make a `StopIteration` something else."""

    def __init__(self, guard: Guard, what: str) -> None:
        self._guard = guard
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self._guard.tell(self._what, error)
        return True


def error_text(error: BaseException) -> str:
    """What a job's `last_error` would say of an error: a text, also where it has none."""
    if isinstance(error, (Retry, Fail)) and error.reason is not None:
        return storable_error(error.reason)
    return storable_error(error)
