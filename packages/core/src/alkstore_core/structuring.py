"""From typed objects to JSON's types and back, by cattrs, without silent conversion."""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
import functools
import threading
from typing import TYPE_CHECKING, Any, get_origin

import attrs
from cattrs import transform_error
from cattrs.preconf.json import make_converter

from alkstore_core.errors import CodecError
from alkstore_core.integers import with_article

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MAX_DEPTH = 500  # Well below the interpreter's recursion limit, and the same on each version.
_SCALARS = frozenset({str, int, float, bool, type(None)})
_ARRAYS = (collections.abc.Sequence, collections.abc.Set, collections.deque)


def unstructure(value: Any) -> Any:
    """The fields of an attrs or data class instance as a dict, nested ones too.

    Raises:
        CodecError: cattrs cannot, or the instance contains itself or more than 500 levels.

    """
    # CPython 3.13.0 lets cattrs recurse without end instead of raising `RecursionError`.
    if _is_bounded(value):
        try:
            return _converter.unstructure(value)
        except RecursionError:
            problem = "it is nested too deep"
        except Exception as error:  # noqa: BLE001 - classes and hooks raise what they please.
            problem = f"{type(error).__name__} while reading its fields"
    else:
        problem = f"it contains itself or more than {MAX_DEPTH} levels"
    raise CodecError(f"cannot encode a {type(value).__name__}: {problem}")


def has_fields(kind: type) -> bool:
    """Whether instances of a class are taken apart: an attrs or a data class."""
    return _field_names(kind) is not None


def structure_value(value: Any, target: Any) -> Any:
    """Build a `target` of decoded JSON.

    Raises:
        CodecError: it is not one, or cattrs does not know the type.

    """
    try:
        return _converter.get_structure_hook(target)(value, target)
    except RecursionError:
        places = ["it is nested too deep"]
    except _OtherTypeError as error:
        raise CodecError(f"the payload is {_told(error, target)}") from None
    except Exception as error:  # noqa: BLE001 - classes and their hooks raise what they please.
        # The errors below quote the payload, so they are told, not chained.
        places = transform_error(error, format_exception=_told)
    raise CodecError(f"the payload is no {_name(target)}: {'; '.join(places[:5])}")


class _OtherTypeError(TypeError):
    """What was decoded is of a type that does not become the wanted one."""

    def __init__(self, value: Any, wanted: Any) -> None:
        super().__init__()
        self.found = type(value)
        self.wanted = wanted


@functools.lru_cache(maxsize=1024)
def _field_names(kind: type) -> tuple[str, ...] | None:
    if attrs.has(kind):
        return tuple(field.name for field in attrs.fields(kind))
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    return None


def _is_bounded(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        # One of each: a cycle through several references would double the level each time.
        parts = (part for item in level for part in _parts(item))
        level = list({id(part): part for part in parts if type(part) not in _SCALARS}.values())
        if not level:
            return True
    return False


def _parts(value: Any) -> Iterable[Any]:
    kind: type = type(value)
    names = _field_names(kind)
    if names is not None:
        return [getattr(value, name, None) for name in names]
    if isinstance(value, collections.abc.Mapping):
        return value.values()
    return value if isinstance(value, _ARRAYS) and not isinstance(value, str | bytes) else ()


def _told(error: BaseException, wanted: Any) -> str:
    if isinstance(error, _OtherTypeError):
        return f"{_one(error.found)}, not {_one(error.wanted if wanted is None else wanted)}"
    problem = "missing" if isinstance(error, KeyError) else type(error).__name__
    return problem if wanted is None else f"{problem}, expected {_name(wanted)}"


def _one(target: Any) -> str:
    if target is None or target is type(None):
        return "None"
    return with_article(_name(target))


def _name(target: Any) -> str:
    return target.__name__ if isinstance(target, type) else str(target)


def _json_type(target: Any) -> tuple[type, ...]:
    """Which decoded types may become a `target`; none given, cattrs may take any."""
    kind = get_origin(target) or target
    if not isinstance(kind, type):
        return ()
    if issubclass(kind, (str, bytes)):
        return (str,)
    if issubclass(kind, _ARRAYS):
        return (list,)
    if issubclass(kind, collections.abc.Mapping) or has_fields(kind):
        return (dict,)
    return ()


class _Building(threading.local):
    """The types for which this thread asks cattrs' own hook right now."""

    def __init__(self) -> None:
        self.ids: set[int] = set()


_building = _Building()


def _is_guarded(target: Any) -> bool:
    return bool(_json_type(target)) and id(target) not in _building.ids


def _guard(target: Any) -> Callable[[Any, Any], Any]:
    """What cattrs would do, refusing what it would convert: a string is an iterable to it."""
    wanted = _json_type(target)
    _building.ids.add(id(target))
    try:
        inner = _converter.get_structure_hook(target, cache_result=False)
    finally:
        _building.ids.discard(id(target))

    def hook(value: Any, _: Any) -> Any:
        if type(value) not in wanted:
            raise _OtherTypeError(value, target)
        return inner(value, target)

    return hook


def _exactly_none(value: Any, _: Any) -> None:
    if value is not None:
        raise _OtherTypeError(value, None)


def _exactly(*wanted: type) -> Callable[[Any, Any], Any]:
    """A hook for a class and its subclasses, such as enums, that calls it with a `wanted`."""

    def hook(value: Any, target: Any) -> Any:
        if type(value) not in wanted:
            raise _OtherTypeError(value, target)
        return target(value)

    return hook


# Tuples become arrays like any other sequence: the declared field turns them back.
_converter = make_converter(unstruct_collection_overrides={tuple: list})
_converter.register_structure_hook(str, _exactly(str))
_converter.register_structure_hook(int, _exactly(int))
_converter.register_structure_hook(bool, _exactly(bool))
_converter.register_structure_hook(float, _exactly(float, int))
_converter.register_structure_hook(type(None), _exactly_none)
_converter.register_structure_hook_factory(_is_guarded, _guard)
