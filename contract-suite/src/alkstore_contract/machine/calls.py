"""Calls that tasks make on stores, and their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define, frozen

from alkstore_contract.expect import UnmetError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from alkstore_contract.machine.actors import Answer
    from alkstore_contract.model import Transaction
    from alkstore_core import Store


@define(eq=False)
class Client:
    """A store; what was made with it ends with it."""

    number: int
    store: Store
    closed: bool = False


@define(eq=False)
class Open:
    """A transaction that was begun, who holds it, and what the model knows of it."""

    name: str
    actor: int
    client: Client
    handle: Any
    wants: Transaction


@frozen
class Call:
    """A call that one of the tasks is to make, and what to think of its answer."""

    actor: int
    client: Client
    text: str
    work: Callable[[], Awaitable[Any]]
    judge: Callable[[Answer], str]
    """Compares with the model, changes the model, and puts the answer into words."""

    writes: bool = True


def value_of(answer: Answer, what: str = "") -> Any:
    """The value that a call gave.

    Raises:
        UnmetError: it raised.

    """
    if answer.error is not None:
        told = f"{what}: " if what else ""
        raise UnmetError(f"{told}expected a value, got {answer.error!r}")
    return answer.value


def raised(answer: Answer, kind: type[BaseException], what: str = "") -> str:
    """The name of the error that a call raised.

    Raises:
        UnmetError: it raised another one, or none.

    """
    if not isinstance(answer.error, kind):
        told = f"{what}: " if what else ""
        got = repr(answer.value) if answer.error is None else repr(answer.error)
        raise UnmetError(f"{told}expected {kind.__name__}, got {got}")
    return type(answer.error).__name__
