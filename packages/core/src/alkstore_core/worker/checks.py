"""What a worker is made of: checked where it is made, with an error that says what to pass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from alkstore_core.integers import I64_MAX
from alkstore_core.outboxes import Outbox
from alkstore_core.queues import JobSource
from alkstore_core.streams import StreamHandle

if TYPE_CHECKING:
    from collections.abc import Callable

    from alkstore_core.store import Store

T = TypeVar("T")


class _Rule(NamedTuple):
    kinds: type | tuple[type, ...]
    kind: str
    fits: Callable[[Any], bool]
    rule: str
    optional: bool = False


_RULES: Final = {
    "concurrency": _Rule(int, "an int", lambda n: n >= 1, "at least 1"),
    "timeout": _Rule(
        (int, float),
        "a number of seconds or None",
        lambda s: s > 0,
        "above 0 seconds",
        optional=True,
    ),
    "grace": _Rule((int, float), "a number of seconds", lambda s: s >= 0, "at least 0 seconds"),
    "max_attempts": _Rule(int, "an int or None", lambda n: n >= 1, "at least 1", optional=True),
    # Below there is no third to renew at.
    "lease": _Rule(int, "an int", lambda s: s >= 3, "at least 3 seconds"),  # noqa: PLR2004
    "on_poison": _Rule(str, "'stop' or 'skip'", {"stop", "skip"}.__contains__, "'stop' or 'skip'"),
}


def check_options(**options: object) -> None:
    """Each option is of its type, and in range.

    Raises:
        TypeError: one is of another type, such as a bool for a number.
        ValueError: one is out of range, as NaN is.

    """
    for name, value in options.items():
        rule = _RULES[name]
        if value is None and rule.optional:
            continue
        if isinstance(value, bool) or not isinstance(value, rule.kinds):
            raise TypeError(f"{name} must be {rule.kind}, not {value!r}")
        if isinstance(value, int) and value > I64_MAX:
            raise ValueError(f"{name} must be at most 2**63-1, not {value:#x}")
        if not rule.fits(value):
            raise ValueError(f"{name} must be {rule.rule}, not {value!r}")


def checked_middlewares(middlewares: Iterable[T]) -> tuple[T, ...]:
    """All of them, in their order; a function alone is a frequent slip.

    Raises:
        TypeError: they are no collection of functions.

    """
    if isinstance(middlewares, Iterable):
        found = tuple(middlewares)
        if all(map(callable, found)):
            return found
    raise TypeError(f"middlewares must be functions in a list or tuple, not {middlewares!r}")


def check_stream(store: Store, stream: object) -> None:
    """It is a stream of this store or the name of one."""
    if not isinstance(stream, (str, StreamHandle)):
        raise TypeError(f"stream must be a stream or its name, not {stream!r}")
    _check_store(store, stream, "stream")


def check_queue(store: Store, queue: object) -> None:
    """It is a queue of this store or the name of one."""
    if isinstance(queue, Outbox):
        raise TypeError(f"a Worker runs a queue: for outbox {queue.name!r} make an OutboxWorker")
    if not isinstance(queue, (str, JobSource)):
        raise TypeError(f"queue must be a queue or its name, not {queue!r}")
    _check_store(store, queue, "queue")


def check_outbox(store: Store, outbox: object) -> None:
    """It is an outbox of this store or the name of one."""
    if not isinstance(outbox, (str, Outbox)):
        raise TypeError(
            f"an OutboxWorker runs an outbox, or takes its name, not {outbox!r}; for a queue "
            "make a Worker"
        )
    _check_store(store, outbox, "outbox")


def _check_store(store: Store, source: str | JobSource | Outbox | StreamHandle, kind: str) -> None:
    # Its jobs would be claimed in one store and settled by what the other one says.
    if not isinstance(source, str) and source._runtime is not store._runtime:  # noqa: SLF001 - of core, as this.
        raise ValueError(
            f"{kind} {source.name!r} is of another store than the one given: pass its name, or "
            "the store that it came from"
        )
