"""From a function with annotations to a call per job or event."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from alkstore_core.jobs import JobHandle
from alkstore_core.payload import decode_payload
from alkstore_core.store import Store
from alkstore_core.transactions import TxHandle

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

_SINGLE = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.KEYWORD_ONLY,
)
_OF_THE_LOOP: frozenset[type] = frozenset({JobHandle, Store, TxHandle})
_ANYTHING = (inspect.Parameter.empty, Any, object)


class Callee:
    """A handler whose signature was read once.

    `given` maps the classes it may ask for by annotation, beside the store, to where they come
    from; the first parameter of another annotation, or of none, is the payload.
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
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
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
        function = self._function
        sources, named = tuple(self._positional), tuple(self._named.items())
        if self.is_async:
            asynchronous: Callable[..., Awaitable[object]] = function  # type: ignore[assignment]
            if len(sources) == 1 and not named:
                (only,) = sources
                return lambda item: asynchronous(only(item))
            return lambda item: asynchronous(
                *(source(item) for source in sources), **{key: get(item) for key, get in named}
            )

        def call_in_thread(item: Any) -> Awaitable[object]:
            arguments = [source(item) for source in sources]
            keywords = {key: source(item) for key, source in named}
            return threads.run(_refusing_awaitables, function, arguments, keywords)

        return call_in_thread

    def _read(self, given: Mapping[type, Source[Any]]) -> None:
        has_payload = has_gap = False
        for parameter in self._signature().parameters.values():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                continue
            wanted = _among(given, parameter.annotation)
            if wanted is not None:
                source = given[wanted]
            elif not has_payload:
                source = self._payload(parameter.annotation)
            elif parameter.default is inspect.Parameter.empty and parameter.kind in _SINGLE:
                classes = ", ".join(kind.__name__ for kind in given)
                raise TypeError(
                    f"handler {self.name} asks for a second payload with {parameter.name!r}; "
                    f"beside one it may ask for {classes} by annotation"
                )
            else:
                has_gap = True
                continue
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY or (
                has_gap and parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
            ):
                self._named[parameter.name] = source
            elif not has_gap:
                self._positional.append(source)
            else:
                continue
            if wanted is None:
                has_payload = True
            else:
                self.asked[wanted] = parameter.annotation

    def _check(self, store: Store) -> None:
        wanted = self.asked.get(Store, Store)
        if not isinstance(store, wanted):
            raise TypeError(
                f"handler {self.name} asks for {wanted.__name__}, but its store is of class "
                f"{type(store).__name__}"
            )
        for kind in self.asked.keys() & _OF_THE_LOOP:
            if not self.is_async:
                raise TypeError(
                    f"handler {self.name} runs in a thread, where a {kind.__name__} cannot be "
                    "used: make it an `async def`, or do without"
                )

    def _signature(self) -> inspect.Signature:
        try:
            return inspect.signature(self._function, eval_str=True)
        except (NameError, SyntaxError, AttributeError) as error:
            raise TypeError(
                f"an annotation of handler {self.name} cannot be resolved ({error}): it has to "
                "be importable where the handler is defined, not only for the type checker"
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

    return lambda item: middleware(item, functools.partial(call_inner, item))


def _refusing_awaitables(
    function: Handler, arguments: list[Any], keywords: dict[str, Any]
) -> object:
    result = function(*arguments, **keywords)
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        # To take it for done would lose the work.
        raise TypeError(
            "the handler is no `async def` but returned an awaitable, which nobody awaited: "
            "declare it, and what wraps it, with `async def`"
        )
    return result


def _is_async(function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object that can be called.
    )


def _among(given: Mapping[type, Source[Any]], annotation: Any) -> type | None:
    if not isinstance(annotation, type):
        return None
    return next((kind for kind in given if issubclass(annotation, kind)), None)
