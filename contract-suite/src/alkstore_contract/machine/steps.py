"""What a history is made of: steps, and what all of them draw from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable

ACTORS = 3
CLIENTS = 2

who: st.SearchStrategy[int] = st.integers(0, ACTORS - 1)
where: st.SearchStrategy[int] = st.integers(0, CLIENTS - 1)
which: st.SearchStrategy[int] = st.integers(0, 7)
"""Which of the things that are there, counted from the newest."""


@frozen
class Step:
    """A step that a history may take: how often, when, and what it draws."""

    weight: int
    when: Callable[[Any], Any] | None
    draws: st.SearchStrategy[dict[str, Any]]
    function: Callable[..., None]


def step(
    weight: int = 1, *, when: Callable[[Any], Any] | None = None, **draws: st.SearchStrategy[Any]
) -> Callable[[Callable[..., None]], Any]:
    """A method is a step. `when` keeps it from being taken in vain; chance must not decide it."""

    def register(function: Callable[..., None]) -> Any:
        drawn = st.fixed_dictionaries(draws)
        function.step = Step(weight, when, drawn, function)  # type: ignore[attr-defined]
        return function

    return register


Taken = tuple[str, dict[str, Any]]
"""A step that was taken, and what it had drawn."""


class FailedHistoryError(BaseException):
    """A history has left the contract. No `Exception`: Hypothesis would play it again."""

    def __init__(self, lines: list[str], taken: list[Taken]) -> None:
        super().__init__()
        self.lines = lines
        self.taken = taken
