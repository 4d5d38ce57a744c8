"""The unit of account: a property has a permanent id, a sentence, and a function that shows it."""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
import pkgutil
import re
from typing import TYPE_CHECKING, Any, Literal

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

Group = Literal["quick", "model", "process"]

_ID = re.compile(r"[a-z]+(\.[a-z0-9_]+)+")
_registered: dict[str, Property] = {}


@frozen(kw_only=True)
class Property:
    """One obligation of the contract. Its id never changes its meaning and is never reused."""

    id: str
    """`mechanism.what`, such as `queues.claim.order`."""

    sentence: str
    """What is promised: the first paragraph of the function's docstring."""

    decided: str
    """Where it was decided: a section of the core contract, or a decision record."""

    since: str
    """The contract version it belongs to since."""

    group: Group
    cases: tuple[Any, ...]
    """What the function is called with, one after the other, each on an empty database."""

    seconds: float
    """How long one case may take."""

    function: Callable[..., Awaitable[None] | None]
    """`async def (case, *value)`; in the group `model` `def (harness)`, with loops of its own."""

    @property
    def mechanism(self) -> str:
        """The first part of the id."""
        return self.id.partition(".")[0]

    @property
    def digest(self) -> str:
        """SHA-256 over the source of what would run now, and over its cases."""
        # Neither kept nor taken from the function: somebody may have put another code into it,
        # or another function that says by `__wrapped__` that it is this one.
        code = getattr(self.function, "__code__", None)
        try:
            source = inspect.getsource(code) if code else ""
        except OSError:
            source = ""  # made at run time: none of ours is
        return hashlib.sha256(f"{source}\0{self.cases!r}".encode()).hexdigest()

    @property
    def runs(self) -> int:
        """How many cases there are to hold."""
        return len(self.cases) or 1


def prop(
    id: str,  # noqa: A002 - it is one
    *,
    decided: str,
    since: str = "0.1",
    group: Group = "quick",
    cases: Sequence[Any] | None = None,
    seconds: float = 30.0,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a property. With `cases` the function gets each of them as second argument."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        sentence = " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())
        if not _ID.fullmatch(id):
            raise ValueError(f"{id!r} is no property id: lower case parts joined by dots")
        if id in _registered:
            raise ValueError(f"there are two properties {id!r}")
        if not sentence.endswith("."):
            raise ValueError(f"{id!r} needs a sentence as its docstring, with a full stop")
        if cases is not None and not cases:
            raise ValueError(f"{id!r} has no case")
        _registered[id] = Property(
            id=id,
            sentence=sentence,
            decided=decided,
            since=since,
            group=group,
            cases=() if cases is None else tuple(cases),
            seconds=seconds,
            function=function,
        )
        return function

    return register


@functools.cache
def manifest() -> dict[str, Property]:
    """Every property of this version of the kit, by id, in a fixed order."""
    suite = importlib.import_module("alkstore_contract.suite")
    for module in pkgutil.iter_modules(suite.__path__, f"{suite.__name__}."):
        importlib.import_module(module.name)
    return dict(sorted(_registered.items()))
