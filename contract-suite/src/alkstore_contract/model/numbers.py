"""Numbers: signed 64-bit integers, whose sums stop at the ends of the range."""

FIRST = -9_223_372_036_854_775_808
LAST = 9_223_372_036_854_775_807


def later(now: int, seconds: int) -> int:
    """`seconds` from `now`; what would leave the range is its end, so a long delay is "never"."""
    return min(max(now + seconds, FIRST), LAST)
