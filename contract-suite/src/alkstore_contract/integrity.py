"""Whether the kit in this process is still the one that was loaded.

A property's digest is over its own source. What it calls to compare, to wait, to open a store,
stands elsewhere in the kit; an engine that puts something else there is not tried any more.
This finds what was done in passing. Who wants to deceive can still do so.
"""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any

_PACKAGE = "alkstore_contract"


def snapshot() -> dict[str, tuple[Any, ...]]:
    """Every function, class and method that the loaded modules of the kit name, by its path."""
    found: dict[str, tuple[Any, ...]] = {}
    for name, module in tuple(sys.modules.items()):
        # The child is started as a program.
        if name.partition(".")[0] == _PACKAGE or name == "__main__":
            for attribute, value in tuple(vars(module).items()):
                found |= _described(f"{name}.{attribute}", value)
    return found


def changed(before: dict[str, tuple[Any, ...]]) -> list[str]:
    """What is another thing now, or gone."""
    now = snapshot()
    return sorted(path for path, what in before.items() if now.get(path) != what)


def _described(path: str, value: Any) -> dict[str, tuple[Any, ...]]:
    if isinstance(value, type):
        found = {path: (id(value),)}
        if value.__module__.partition(".")[0] == _PACKAGE:
            for name, member in tuple(vars(value).items()):
                inner = getattr(member, "__func__", member)
                if isinstance(inner, FunctionType | property):
                    found |= _described(f"{path}.{name}", inner)
        return found
    if isinstance(value, FunctionType):
        return {path: (id(value), id(value.__code__), id(value.__defaults__))}
    return {path: (id(value),)} if callable(value) or isinstance(value, property) else {}
