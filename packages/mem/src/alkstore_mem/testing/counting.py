"""Numbers that say how many."""

from __future__ import annotations


def check_number(what: str, value: object) -> None:
    """Refuse an argument that is no number of anything.

    Raises:
        TypeError: no int, or a bool.
        ValueError: below 0.

    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} takes an int, 0 or more, not {value!r}")
    if value < 0:
        raise ValueError(f"{what} takes an int, 0 or more, not {value}")
