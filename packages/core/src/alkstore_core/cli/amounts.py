"""Numbers and times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.text import Text

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def age(seconds: int | None) -> str:
    """A duration in its two greatest units, `-` for none."""
    if seconds is None:
        return "-"
    parts: list[tuple[int, str]] = []
    rest = max(seconds, 0)
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        if count or (parts and len(parts) < 2):  # noqa: PLR2004 - the second of two.
            parts.append((count, unit))
    return "".join(f"{count}{unit}" for count, unit in parts[:2] if count) or "0s"


def until(moment: int, now: int) -> str:
    """How far away a moment is."""
    return f"in {age(moment - now)}" if moment >= now else f"{age(now - moment)} ago"


def stamp(moment: int | None) -> str:
    """A unix second in ISO 8601, or as a number where no calendar reaches; `-` for none."""
    if moment is None:
        return "-"
    try:
        return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return str(moment)


def count(number: int, style: str = "") -> Text:
    """A number; zeros step back."""
    return Text(f"{number:,}", style=style if number else "dim")


def some(number: int, thing: str) -> str:
    """So many of a thing, which takes an s where it is not one."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def rate(per_second: float | None) -> Text:
    """A change per second with its sign; `-` where two looks cannot tell."""
    if per_second is None:
        return Text("-", style="dim")
    if abs(per_second) < 0.05:  # noqa: PLR2004 - half of what is shown.
        return Text("0", style="dim")
    digits = 0 if abs(per_second) >= 100 else 1  # noqa: PLR2004 - three digits tell enough.
    return Text(f"{per_second:+,.{digits}f}")
