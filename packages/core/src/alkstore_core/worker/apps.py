"""Handlers by decorator: which queue, outbox or stream is whose."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, TypeVar

from alkstore_core.worker.checks import check_options, checked_middlewares
from alkstore_core.worker.consumers import Consumer
from alkstore_core.worker.logs import event
from alkstore_core.worker.running import run
from alkstore_core.worker.workers import OutboxWorker, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from contextlib import AbstractAsyncContextManager

    from alkstore_core.jobs import JobHandle
    from alkstore_core.stop import StopToken
    from alkstore_core.store import Store
    from alkstore_core.values import StreamEvent
    from alkstore_core.worker.handlers import Handler, Middleware
    from alkstore_core.worker.runner import Runner

_log = logging.getLogger(__name__)

H = TypeVar("H", bound="Handler")


class App:
    """The handlers of a process, without a store: modules register, the main program runs.

    What a decorator does not say is as given here. `middlewares` wrap all handlers of jobs and
    messages, outside of a handler's own. `lifespan(store)` is an asynchronous context manager,
    entered before the first job is claimed and left once the last handler has ended: for what the
    handlers need, such as clients and engines, and for what looks at the store, such as metrics.

    Raises:
        TypeError: an option is of another type; the text says what to pass instead.

    """

    def __init__(
        self,
        *,
        concurrency: int = 10,
        timeout: float | None = None,
        grace: float = 30.0,
        middlewares: Iterable[Middleware[JobHandle]] = (),
        lifespan: Callable[[Store], AbstractAsyncContextManager[object]] | None = None,
    ) -> None:
        if lifespan is not None and not callable(lifespan):
            raise TypeError(f"lifespan is a function of the store, not {lifespan!r}")
        self._lifespan = lifespan
        self._concurrency = concurrency
        self._timeout = timeout
        self._grace = grace
        self._middlewares = checked_middlewares(middlewares)
        self._makers: dict[tuple[str, ...], Callable[[Store, int], Runner]] = {}

    def handler(
        self,
        queue: str,
        *,
        concurrency: int | None = None,
        timeout: float | None = None,
        middlewares: Iterable[Middleware[JobHandle]] = (),
    ) -> Callable[[H], H]:
        """The function decorated handles the jobs of a queue; see `Worker`.

        Raises:
            TypeError: no queue is named.
            ValueError: the queue has a handler.

        """
        _check_names('handler("queue")', queue)
        make = self._worker(Worker, queue, concurrency, timeout, middlewares)
        return self._registering(("queue", queue), make)

    def outbox(
        self,
        name: str,
        *,
        concurrency: int | None = None,
        timeout: float | None = None,
        middlewares: Iterable[Middleware[JobHandle]] = (),
    ) -> Callable[[H], H]:
        """The function decorated delivers the messages of an outbox; see `OutboxWorker`.

        Raises:
            TypeError: no outbox is named.
            ValueError: the outbox has a handler.

        """
        _check_names('outbox("name")', name)
        make = self._worker(OutboxWorker, name, concurrency, timeout, middlewares)
        return self._registering(("outbox", name), make)

    def consumer(
        self,
        stream: str,
        name: str,
        *,
        max_attempts: int | None = None,
        on_poison: Literal["stop", "skip"] = "stop",
        lease: int = 30,
        middlewares: Iterable[Middleware[StreamEvent]] = (),
    ) -> Callable[[H], H]:
        """The function decorated handles a stream's events under this name; see `Consumer`.

        Raises:
            TypeError: no stream or no consumer is named.
            ValueError: the consumer has a handler.

        """
        _check_names('consumer("stream", "name")', stream, name)
        around = checked_middlewares(middlewares)

        def make(store: Store, function: Handler, _: int) -> Consumer:
            return Consumer(
                store,
                stream,
                name,
                function,
                max_attempts=max_attempts,
                on_poison=on_poison,
                lease=lease,
                grace=self._grace,
                middlewares=around,
            )

        return self._registering(("consumer", name, "stream", stream), make)

    @property
    def handled(self) -> list[tuple[str, str]]:
        """What has a handler, as kind and name: `("queue", "mail")`, or an outbox or consumer.

        A consumer's name stands here once, on however many streams.
        """
        return list(dict.fromkeys((kind, name) for kind, name, *_ in self._makers))

    def runners(
        self,
        store: Store,
        *,
        queues: Iterable[str] | None = None,
        outboxes: Iterable[str] | None = None,
        consumers: Iterable[str] | None = None,
        concurrency: int | None = None,
    ) -> list[Runner]:
        """A worker or consumer for each handler, not begun yet.

        With `queues`, `outboxes` or `consumers` it is only for the handlers of those, whatever the
        consumer's stream; for none, if they are empty. `concurrency` takes the place of what the
        `App` was given: a decorator's own stands.

        Raises:
            TypeError: a handler's signature cannot be served.
            ValueError: an option is out of range, or what is named has no handler.
            InvalidName: a name is not legal; `ReservedName` likewise.

        """
        default = self._concurrency if concurrency is None else concurrency
        check_options(concurrency=default)
        chosen = self._chosen(queue=queues, outbox=outboxes, consumer=consumers)
        return [make(store, default) for key, make in self._makers.items() if key[:2] in chosen]

    async def run(
        self,
        store: Store,
        *,
        schedules: bool = True,
        stop: StopToken | None = None,
        signals: bool = True,
        queues: Iterable[str] | None = None,
        outboxes: Iterable[str] | None = None,
        consumers: Iterable[str] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Run everything on an open store, its schedules too, until a signal; see `run`.

        Or only some of it: the last four are those of `runners`.
        """
        runners = self.runners(
            store, queues=queues, outboxes=outboxes, consumers=consumers, concurrency=concurrency
        )
        if not runners and schedules:
            told = event("app.no_handler")
            _log.warning("the App runs no handler here, only schedules are fired", extra=told)
        async with self.lifespan(store):
            await run(*runners, schedules=store if schedules else None, stop=stop, signals=signals)

    def lifespan(self, store: Store) -> AbstractAsyncContextManager[object]:
        """What has to be open while `runners(store)` run; nothing, if none was given.

        Raises:
            TypeError: what was given as `lifespan` does not return a context manager.

        """
        if self._lifespan is None:
            return contextlib.nullcontext()
        found = self._lifespan(store)
        if not hasattr(found, "__aenter__"):
            raise TypeError(
                f"lifespan returned {type(found).__name__}, and no asynchronous context manager: "
                "decorate it with contextlib.asynccontextmanager"
            )
        return found

    def _chosen(self, **names: Iterable[str] | None) -> Collection[tuple[str, ...]]:
        asked = {kind: _listed(kind, some) for kind, some in names.items() if some is not None}
        if not asked:
            return self.handled
        chosen = {(kind, name) for kind, some in asked.items() for name in some}
        if unknown := chosen.difference(self.handled):
            has = _told(self.handled) or "nothing"
            raise ValueError(f"there is no handler for {_told(unknown)}, but for {has}")
        return chosen

    def _worker(
        self,
        kind: type[Worker | OutboxWorker],
        name: str,
        concurrency: int | None,
        timeout: float | None,
        middlewares: Iterable[Middleware[JobHandle]],
    ) -> Callable[[Store, Handler, int], Runner]:
        around = (*self._middlewares, *checked_middlewares(middlewares))

        def make(store: Store, function: Handler, default: int) -> Runner:
            return kind(
                store,
                name,
                function,
                concurrency=default if concurrency is None else concurrency,
                timeout=self._timeout if timeout is None else timeout,
                grace=self._grace,
                middlewares=around,
            )

        return make

    def _registering(
        self, key: tuple[str, ...], make: Callable[[Store, Handler, int], Runner]
    ) -> Callable[[H], H]:
        def register(function: H) -> H:
            if key in self._makers:
                raise ValueError(f"{' '.join(key)} has a handler already; give it one function")
            self._makers[key] = lambda store, default: make(store, function, default)
            return function

        return register


def _listed(kind: str, names: Iterable[str]) -> list[str]:
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise TypeError(f"the names of {kind} handlers come as a list, not as {names!r}")
    found = list(names)
    for name in found:
        if not isinstance(name, str):
            raise TypeError(f"{name!r} is no name of a {kind}")
    return found


def _told(handled: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{kind} {name!r}" for kind, name in sorted(handled))


def _check_names(usage: str, *names: object) -> None:
    """Without its parentheses a decorator would take the handler for a name, and never run it."""
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"write @app.{usage}: {name!r} is no name")
