"""What a property says about what it saw.

Plain `assert` is not used: under `-O`, or in a module that pytest did not rewrite, it says
nothing. These raise by themselves, and their message shows both sides.
"""

from __future__ import annotations

import contextlib
import reprlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 200
_short.maxlist = _short.maxdict = _short.maxtuple = 20


class UnmetError(AssertionError):
    """A property does not hold."""


def expect(condition: object, what: str) -> None:
    """`condition` is true; `what` is the sentence that is broken when it is not.

    Raises:
        UnmetError: it is false.

    """
    if not condition:
        raise UnmetError(what)


def expect_equal(actual: Any, expected: Any, what: str = "") -> None:
    """Both are equal and of one type: `True` is not 1 and 1.0 is not 1.

    Raises:
        UnmetError: they differ.

    """
    if type(actual) is not type(expected) or actual != expected:
        told = f"{what}: " if what else ""
        raise UnmetError(f"{told}expected {_short.repr(expected)}, got {_short.repr(actual)}")


class Raised:
    """Holds the error of an `expect_raises` block afterwards."""

    error: BaseException


@contextlib.contextmanager
def expect_raises(kind: type[BaseException], what: str = "") -> Iterator[Raised]:
    """The block raises `kind` itself or a subclass; any other error goes through.

    Raises:
        UnmetError: it did not raise.

    """
    raised = Raised()
    try:
        yield raised
    except kind as error:
        raised.error = error
    else:
        told = f"{what}: " if what else ""
        raise UnmetError(f"{told}expected {kind.__name__}, nothing was raised")
