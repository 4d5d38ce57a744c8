"""What a saboteur can replace, and how: exactly one thing, and it is put back."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import sys
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from attrs import evolve

from alkstore_contract.harness import Facts, Harness
from alkstore_core.spi import Engine, Session, Signals, Subscription, TxSession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from alkstore_core import Job
    from alkstore_core.jobspec import JobSpec

Change = Any
"""`f(real, *args, **kwargs)`, giving a value or an awaitable."""


class Trail(NamedTuple):
    """What a property came by on a sound engine."""

    ran: set[tuple[str, str]]
    """Our code that ran: file and qualified name."""

    named: set[str]
    """Every name in that code."""

    def has_method(self, name: str) -> bool:
        """Whether a method of this name ran, whichever class has it."""
        return any(where.endswith(f".{name}") for _, where in self.ran)


class Patch:
    """Nothing replaced yet."""

    target: str
    """What is replaced, to be told."""

    facts: dict[str, Any]
    harness: dict[str, Change]

    def __init__(self, target: str) -> None:
        self.target = target
        self.facts = {}
        self.harness = {}

    def installed(self) -> contextlib.AbstractContextManager[None]:
        """The code is changed within the block."""
        return contextlib.nullcontext()

    def seize(self, engine: Engine, notes: dict[Any, Any]) -> None:
        """Change an engine that was not opened yet."""

    def touched_by(self, trail: Trail) -> bool:  # noqa: ARG002 - here it makes no difference
        """Whether a property that left this trail can notice; yes, when in doubt."""
        return True


class Real:
    """The object as it was, with all its methods unsabotaged."""

    def __init__(self, target: Any, engine: Engine, notes: dict[Any, Any]) -> None:
        self._target = target
        self.engine = engine
        self.notes = notes

    @property
    def in_tx(self) -> bool:
        """Whether this is a session in a transaction."""
        return self._target is not self.engine.auto

    def __getattr__(self, name: str) -> Any:
        method = getattr(type(self._target), name, None)
        if method is not None and hasattr(method, "__get__"):
            return method.__get__(self._target)
        return getattr(self._target, name)


def _replace(target: Any, name: str, change: Change, engine: Engine, notes: dict) -> None:
    """Replace a method of one object. Replacing it again changes nothing."""
    if name in vars(target):
        return
    real = Real(target, engine, notes)
    method = getattr(target, name)

    if inspect.iscoroutinefunction(method):

        async def replaced(*args: Any, **kwargs: Any) -> Any:
            value = change(real, *args, **kwargs)
            return await value if inspect.isawaitable(value) else value
    else:

        def replaced(*args: Any, **kwargs: Any) -> Any:
            return change(real, *args, **kwargs)

    setattr(target, name, replaced)


def _tap(target: Any, name: str, then: Callable[[Any], None]) -> None:
    """Call `then` with whatever a method gives."""
    method = getattr(target, name)
    if inspect.iscoroutinefunction(method):

        async def tapped(*args: Any, **kwargs: Any) -> Any:
            value = await method(*args, **kwargs)
            then(value)
            return value
    else:

        def tapped(*args: Any, **kwargs: Any) -> Any:
            value = method(*args, **kwargs)
            then(value)
            return value

    setattr(target, name, tapped)


class _Method(Patch):
    """A method of the seam."""

    def __init__(self, owner: type, name: str, change: Change) -> None:
        if not hasattr(owner, name):
            raise ValueError(f"{owner.__name__} has no method {name!r}")
        super().__init__(f"{owner.__name__}.{name}")
        self._name = name
        self._change = change

    def touched_by(self, trail: Trail) -> bool:
        return trail.has_method(self._name)


class _Primitive(_Method):
    def __init__(self, name: str, change: Change, where: Literal["all", "auto", "tx"]) -> None:
        super().__init__(TxSession if hasattr(TxSession, name) else Session, name, change)
        self._where = where

    def seize(self, engine: Engine, notes: dict[Any, Any]) -> None:
        def sabotage(session: Session) -> None:
            if hasattr(session, self._name):
                _replace(session, self._name, self._change, engine, notes)

        if self._where != "tx":
            _tap(engine, "open", lambda _: sabotage(engine.auto))
        if self._where != "auto":
            _tap(engine, "begin", sabotage)
            if hasattr(engine, "joined_session"):
                _tap(engine, "joined_session", sabotage)


class _EngineMethod(_Method):
    def seize(self, engine: Engine, notes: dict[Any, Any]) -> None:
        _replace(engine, self._name, self._change, engine, notes)


class _SignalsMethod(_Method):
    def seize(self, engine: Engine, notes: dict[Any, Any]) -> None:
        def sabotage(_: None) -> None:
            _replace(engine.signals, self._name, self._change, engine, notes)

        _tap(engine, "open", sabotage)


class _SubscriptionMethod(_Method):
    def seize(self, engine: Engine, notes: dict[Any, Any]) -> None:
        def sabotage(subscription: Subscription) -> None:
            _replace(subscription, self._name, self._change, engine, notes)

        def reach(_: None) -> None:
            _tap(engine.signals, "subscribe", sabotage)

        _tap(engine, "open", reach)


_MISSING = object()


class _Code(Patch):
    """Something in a module, replaced in each module that has it; or something in a class."""

    def __init__(self, reference: str, make: Callable[[Any], Any]) -> None:
        super().__init__(reference)
        self._module, _, self._path = reference.partition(":")
        self._make = make

    def _find(self) -> tuple[Any, str, Any]:
        owner: Any = importlib.import_module(self._module)
        *outer, name = self._path.split(".")
        for part in outer:
            owner = getattr(owner, part)
        # Not by `getattr`, which would bind a method of the class and run a property.
        real = inspect.getattr_static(owner, name, _MISSING)
        if real is _MISSING:
            raise AttributeError(f"there is no {self.target}")
        return owner, name, real

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        owner, name, real = self._find()
        places = [(owner, name)]
        if inspect.ismodule(owner):
            places = [
                (module, bound)
                for key, module in tuple(sys.modules.items())
                if key.startswith("alkstore_")
                for bound, value in vars(module).items()
                # Small integers are one object everywhere: those only under their own name.
                if value is real and (bound == name or callable(real))
            ]
        inherited = name not in vars(owner)
        changed = self._make(real)
        for place, bound in places:
            setattr(place, bound, changed)
        forget_answers()
        try:
            yield
        finally:
            for place, bound in places:
                if inherited:
                    delattr(place, bound)
                else:
                    setattr(place, bound, real)
            forget_answers()

    def touched_by(self, trail: Trail) -> bool:
        _, name, real = self._find()
        inner = real.fget if isinstance(real, property) else getattr(real, "__func__", real)
        if inspect.isfunction(inner) and not hasattr(inner, "__wrapped__"):
            return (inner.__code__.co_filename, inner.__code__.co_qualname) in trail.ran
        return name in trail.named


def forget_answers() -> None:
    """Empty every cache of a function: what it remembers was answered by other code."""
    for key, module in tuple(sys.modules.items()):
        if key.startswith("alkstore_") and not key.startswith("alkstore_contract"):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


class _Facts(Patch):
    def __init__(self, changes: dict[str, Any]) -> None:
        super().__init__(f"facts {', '.join(sorted(changes))}")
        if unknown := changes.keys() - {known.name for known in Facts.__attrs_attrs__}:
            raise ValueError(f"there are no facts {', '.join(sorted(unknown))}")
        self.facts = changes


class _HarnessMethod(Patch):
    def __init__(self, name: str, change: Change) -> None:
        if not hasattr(Harness, name):
            raise ValueError(f"Harness has no method {name!r}")
        super().__init__(f"Harness.{name}")
        self.harness = {name: change}
        self._name = name

    def touched_by(self, trail: Trail) -> bool:
        return trail.has_method(self._name)


def primitive(name: str, change: Change, *, where: Literal["all", "auto", "tx"] = "all") -> Patch:
    """Replace a primitive of the sessions."""
    return _Primitive(name, change, where)


def result(name: str, change: Callable[[Any], Any], **options: Any) -> Patch:
    """Change what a primitive gives."""

    async def changed(real: Any, *args: Any, **kwargs: Any) -> Any:
        return change(await getattr(real, name)(*args, **kwargs))

    return primitive(name, changed, **options)


def arguments(name: str, change: Callable[..., tuple[Any, ...]], **options: Any) -> Patch:
    """Change what a primitive gets: `change` takes its positional arguments and gives others."""

    async def changed(real: Any, *args: Any, **kwargs: Any) -> Any:
        return await getattr(real, name)(*change(*args), **kwargs)

    return primitive(name, changed, **options)


def spec(**changes: Callable[[Any], Any]) -> Patch:
    """Store jobs with other options: each change is a function of what was asked for."""

    def insert(real: Any, queue: str, payloads: Any, given: JobSpec, **wake: Any) -> Any:
        changed = {name: change(getattr(given, name)) for name, change in changes.items()}
        return real.insert_jobs(queue, payloads, evolve(given, **changed), **wake)

    return primitive("insert_jobs", insert)


def claimed(**changes: Callable[[Job], Any]) -> Patch:
    """Hand claimed jobs out with other fields: each change is a function of the job."""

    def change(jobs: list[Job]) -> list[Job]:
        return [evolve(job, **{name: f(job) for name, f in changes.items()}) for job in jobs]

    return result("claim", change)


def nothing(name: str, value: Any = None, **options: Any) -> Patch:
    """Let a primitive do nothing, and say it gave `value`."""
    return primitive(name, lambda *_, **__: value, **options)


def engine(name: str, change: Change) -> Patch:
    """Replace a method of the engine."""
    return _EngineMethod(Engine, name, change)


def signals(name: str, change: Change) -> Patch:
    """Replace a method of the engine's signals."""
    return _SignalsMethod(Signals, name, change)


def subscription(name: str, change: Change) -> Patch:
    """Replace a method of each subscription to the engine's signals."""
    return _SubscriptionMethod(Subscription, name, change)


def code(reference: str, change: Change) -> Patch:
    """Replace a function, method or property, wherever it is bound."""

    def make(real: Any) -> Any:
        if isinstance(real, property):
            return property(lambda self: change(real.fget, self))
        inner = real.__func__ if isinstance(real, staticmethod | classmethod) else real

        @functools.wraps(inner)
        def replaced(*args: Any, **kwargs: Any) -> Any:
            return change(inner, *args, **kwargs)

        return type(real)(replaced) if inner is not real else replaced

    return _Code(reference, make)


def core(reference: str, change: Change) -> Patch:
    """Replace a function, method or property of core."""
    return code(f"alkstore_core.{reference}", change)


def op(reference: str, change: Change) -> Patch:
    """Replace an op of the shared SQL."""
    return code(f"alkstore_core.sql.{reference}", change)


def constant(reference: str, value: Any) -> Patch:
    """Replace a constant of core."""
    return _Code(f"alkstore_core.{reference}", lambda _: value)


def statement(reference: str, change: Callable[[Any], Any]) -> Patch:
    """Replace a statement of the shared SQL by what `change` makes of it."""
    return _Code(f"alkstore_core.sql.{reference}", change)


def facts(**changes: Any) -> Patch:
    """Let the engine declare something else than it does."""
    return _Facts(changes)


def harness(name: str, change: Change) -> Patch:
    """Replace a method of the harness."""
    return _HarnessMethod(name, change)
