"""How a `SqliteStore` behaves."""

from __future__ import annotations

from typing import Literal, get_args

import attrs

Synchronous = Literal["FULL", "NORMAL"]


def _positive(_: object, attribute: attrs.Attribute[float], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        message = f"SqliteOpts.{attribute.name} is {value!r}; it takes seconds above 0"
        raise ValueError(message)


def check_synchronous(value: object) -> None:
    """Refuse what would make a commit less than durable against a crashed process.

    Raises:
        ValueError: `value` is neither `"FULL"` nor `"NORMAL"`.

    """
    if value not in get_args(Synchronous):
        message = (
            f"synchronous is {value!r}; it takes 'FULL' (a commit survives a power cut) or "
            "'NORMAL' (it survives a crash of the process)"
        )
        raise ValueError(message)


@attrs.frozen(kw_only=True)
class SqliteOpts:
    """Options of one store. They concern this process only; nothing of them is stored."""

    poll_interval: float = attrs.field(default=0.001, validator=_positive)
    """Seconds between two looks at the file for other processes' commits, while somebody
    waits. 1 ms costs about 4 % of a core, 2 ms under 3 %."""

    synchronous: Synchronous = attrs.field(
        default="FULL", validator=lambda _self, _attribute, value: check_synchronous(value)
    )
    """With `"FULL"` an acknowledged commit survives a power cut. With `"NORMAL"` it survives a
    crash of the process, but the last ones may be undone by a power cut."""

    busy_timeout: float = attrs.field(default=5.0, validator=_positive)
    """Seconds a write waits for its turn, in this process and behind others, before it is a
    `DatabaseError`."""
