"""From a function with annotations to a call per job or event."""

from __future__ import annotations

import asyncio
import functools
import inspect
import types
import typing
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from alkstore_core.jobs import JobHandle
from alkstore_core.payload import decode_payload
from alkstore_core.store import Store
from alkstore_core.transactions import TxHandle
from alkstore_core.values import Job, StreamEvent

if TYPE_CHECKING:
    from alkstore_core.worker.threads import Threads

T = TypeVar("T")

Handler: TypeAlias = Callable[..., object]
"""An async or plain function; its annotations say what it is given."""

CallNext: TypeAlias = Callable[[], Awaitable[object]]
"""What a middleware awaits to go on towards the handler."""

Middleware: TypeAlias = Callable[[T, CallNext], Awaitable[object]]
"""Wraps each call of a handler: `async def timed(handle, call_next): await call_next()`."""

Source: TypeAlias = Callable[[T], Any]
"""How an argument is taken from a job's handle or an event."""

_KNOWN = (Job, JobHandle, StreamEvent, Store, TxHandle)
"""What no payload can become."""

_OF_THE_LOOP: frozenset[type] = frozenset({JobHandle, Store, TxHandle})
_ANYTHING = (inspect.Parameter.empty, Any, object)


class Callee:
    """A handler whose signature was read once.

    `given` maps the classes it may ask for by annotation, also as `Optional`, to where they come
    from, beside the store. The one other parameter without a default is the payload. What
    `functools.partial` has bound, and other parameters with a default, keep it.
    """

    def __init__(
        self,
        function: Handler,
        store: Store,
        given: Mapping[type, Source[Any]],
        carrier: Source[Any],
    ) -> None:
        if not callable(function):
            raise TypeError(f"a handler must be callable, not {type(function).__name__}")
        self.name: str = getattr(function, "__name__", type(function).__name__)
        if _is_generator(function):
            raise TypeError(f"handler {self.name} is a generator, whose body nobody would run")
        self.is_async: bool = _is_async(function)
        self.asked: dict[type, type] = {}
        self._function = function
        self._carrier = carrier
        self._positional: list[Source[Any]] = []
        self._named: dict[str, Source[Any]] = {}
        self._read({**given, Store: lambda _: store})
        self._check(store)

    def call(self, threads: Threads) -> Callable[[Any], Awaitable[object]]:
        """What calls the handler for one job or event; plain functions run in `threads`."""
        function: Callable[..., Any] = self._function
        sources, named = tuple(self._positional), tuple(self._named.items())
        if self.is_async and len(sources) == 1 and not named:
            (only,) = sources
            return lambda item: _answer_of(function(only(item)))
        if self.is_async:
            return lambda item: _answer_of(
                function(
                    *(source(item) for source in sources),
                    **{key: source(item) for key, source in named},
                )
            )

        def call_in_thread(item: Any) -> Awaitable[object]:
            arguments = [source(item) for source in sources]
            keywords = {key: source(item) for key, source in named}
            return threads.run(_answered, function, arguments, keywords)

        return call_in_thread

    def _read(self, given: Mapping[type, Source[Any]]) -> None:
        parameters = [
            parameter
            for parameter in self._signature().parameters.values()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        bound = self._function.keywords if isinstance(self._function, functools.partial) else {}
        sources: dict[str, Source[Any]] = {}
        others: list[inspect.Parameter] = []
        for parameter in parameters:
            if parameter.name in bound:
                continue
            if (asked := self._among(given, parameter)) is None:
                others.append(parameter)
                continue
            kind, self.asked[kind] = asked
            sources[parameter.name] = given[kind]
        payload = self._payload_among(others, given)
        if payload is not None:
            sources[payload.name] = self._payload(payload.annotation)
        for parameter in parameters:
            name, source = parameter.name, sources.get(parameter.name)
            if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
                if source is not None:
                    self._positional.append(source)
                elif parameter.kind is not inspect.Parameter.VAR_POSITIONAL:
                    self._positional.append(_always(parameter.default))
            elif source is not None:
                self._named[name] = source

    def _payload_among(
        self, others: list[inspect.Parameter], given: Mapping[type, Source[Any]]
    ) -> inspect.Parameter | None:
        """Which of these parameters is the payload."""
        rest = [p for p in others if p.kind is inspect.Parameter.VAR_POSITIONAL]
        single = [p for p in others if p.kind is not inspect.Parameter.VAR_POSITIONAL]
        required = [p for p in single if p.default is inspect.Parameter.empty]
        if len(required) > 1:
            classes = ", ".join(kind.__name__ for kind in given)
            raise TypeError(
                f"handler {self.name} asks for a second payload with {required[1].name!r}; "
                f"make one of both, such as a dataclass; beside it a handler may ask for {classes} "
                "by annotation"
            )
        if required:
            return required[0]
        if rest and all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in single):
            return rest[0]
        for parameter in single:
            # Beside what else it asks for it may do without a payload, as `def f(job: Job, n=n)`
            # in a loop does. But nobody keeps a `None` there.
            if not self.asked or parameter.default is None:
                raise TypeError(
                    f"handler {self.name} may mean its payload by {parameter.name!r}, which has "
                    "a default: leave the default out, or bind what is no payload by "
                    f"functools.partial(..., {parameter.name}=...)"
                )
        return None

    def _among(
        self, given: Mapping[type, Source[Any]], parameter: inspect.Parameter
    ) -> tuple[type, type] | None:
        """Which class this parameter asks for, and as what; `None` if it is a payload's."""
        classes = list(_classes(parameter.annotation))
        known = [kind for kind in classes if isinstance(kind, type) and issubclass(kind, _KNOWN)]
        if not known:
            return None
        wanted = known[0]
        if any(other is not wanted and other is not types.NoneType for other in classes):
            raise TypeError(
                f"handler {self.name} asks for a {wanted.__name__} or something else with "
                f"{parameter.name!r}: annotate one of them"
            )
        for kind in given:
            if issubclass(wanted, kind):
                return kind, wanted
        names = ", ".join(kind.__name__ for kind in given)
        raise TypeError(
            f"handler {self.name} asks for a {wanted.__name__} with {parameter.name!r}, which is "
            f"not to be had here; beside its payload it may ask for {names}"
        )

    def _check(self, store: Store) -> None:
        if not isinstance(store, Store):
            raise TypeError(
                f"a worker takes the asynchronous store, not a {type(store).__name__}: on a "
                "SyncStore call its run(app), or give a worker its `wrapped`"
            )
        wanted = self.asked.get(Store, Store)
        if not isinstance(store, wanted):
            raise TypeError(
                f"handler {self.name} asks for {wanted.__name__}, but its store is of class "
                f"{type(store).__name__}"
            )
        for kind in self.asked.keys() & _OF_THE_LOOP:
            if not self.is_async:
                instead = "use a SyncStore" if kind is Store else "do without"
                raise TypeError(
                    f"handler {self.name} runs in a thread, where a {kind.__name__} cannot be "
                    f"used: make it an `async def`, or {instead}"
                )

    def _signature(self) -> inspect.Signature:
        try:
            return inspect.signature(self._function, eval_str=True)
        except (NameError, SyntaxError, AttributeError) as error:
            raise TypeError(
                f"an annotation of handler {self.name} cannot be resolved ({error}): it has to "
                "be importable where the handler is defined, not only for the type checker"
            ) from error
        except ValueError as error:
            raise TypeError(
                f"handler {self.name} has no signature that can be read: call it in a function "
                "of your own, whose parameters say what it is given"
            ) from error

    def _payload(self, annotation: Any) -> Source[Any]:
        carrier = self._carrier
        if any(annotation is anything for anything in _ANYTHING):
            return lambda item: decode_payload(carrier(item).payload)
        return lambda item: carrier(item).payload_as(annotation)


def wrapped(
    call: Callable[[T], Awaitable[object]], middlewares: Iterable[Middleware[T]]
) -> Callable[[T], Awaitable[object]]:
    """Put middlewares around a call, the first one outermost."""
    for middleware in reversed(list(middlewares)):
        call = _around(middleware, call)
    return call


def _around(
    middleware: Middleware[T], inner: Callable[[T], Awaitable[object]]
) -> Callable[[T], Awaitable[object]]:
    async def call_inner(item: T) -> object:
        # Arguments are taken here, so that a middleware sees a payload that does not fit.
        return await inner(item)

    return lambda item: _answer_of(
        middleware(item, functools.partial(call_inner, item)), "middleware"
    )


async def _answer_of(call: Awaitable[object], who: str = "handler") -> object:
    """What a call returns; a cancellation that it has not met is met here."""
    answer = _answer(await call, who)
    if is_cancelled():
        await asyncio.sleep(0)
    return answer


def is_cancelled() -> bool:
    """Whether this task was cancelled, and may not have noticed yet: its next wait would.

    Who cancels its own task and returns has not met that: waiting for nothing raises it, and does
    nothing where a handler has met it and goes on all the same.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _answered(function: Handler, arguments: list[Any], keywords: dict[str, Any]) -> object:
    return _answer(function(*arguments, **keywords))


def _answer(result: object, who: str = "handler") -> object:
    """What was returned, if that was no promise: to take one for done loses the work."""
    if result is None:
        return None
    advice = None
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        advice = f"whose body nobody would run: do the work in the {who}, without `yield`"
    elif inspect.isawaitable(result):
        advice = (
            f"which nobody would await: await it in the {who}, and declare that, and what wraps "
            "it, with `async def`"
        )
    elif isinstance(result, Future):
        advice = f"which nobody would wait for: wait for its `result()` in the {who}"
    if advice is None:
        return result
    if inspect.isgenerator(result) or inspect.iscoroutine(result):
        result.close()
    raise TypeError(f"the {who} returned a {type(result).__name__}, {advice}")


def _called(function: Any) -> tuple[Any, Any]:
    """The function of a partial, and what it does if it is an object that can be called."""
    while isinstance(function, functools.partial):
        function = function.func
    return function, getattr(function, "__call__", None)  # noqa: B004 - not whether it has one.


def _is_async(function: Any) -> bool:
    return any(map(inspect.iscoroutinefunction, _called(function)))


def _is_generator(function: Any) -> bool:
    return any(
        inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called)
        for called in _called(function)
    )


def _always(value: Any) -> Source[Any]:
    return lambda _: value


def _classes(annotation: Any) -> Iterator[Any]:
    """What an annotation is a union of, or itself."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        yield from _classes(typing.get_args(annotation)[0])
    elif origin is typing.Union or origin is types.UnionType:
        for argument in typing.get_args(annotation):
            yield from _classes(argument)
    else:
        yield annotation
