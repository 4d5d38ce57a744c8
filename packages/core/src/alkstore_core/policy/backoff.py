"""How long a failed job waits for its next attempt."""

from __future__ import annotations

import random

MAX_BACKOFF_S = 3600

_jitter = random.Random()  # noqa: S311 - spreads retries, keeps no secret.


def backoff_delay(base: int, attempt: int, rng: random.Random = _jitter) -> int:
    """Whole seconds to wait after `attempt` (counted from 1) failed.

    Uniform in `[d // 2, d]` with `d = min(3600, base * 2 ** (attempt - 1))`, both ends
    included: jobs that failed together do not come back together. A base of 0 or less does
    not wait.
    """
    if base <= 0:
        return 0
    # From the 13th attempt on even a base of 1 is at the limit: no giant powers.
    doublings = min(max(attempt - 1, 0), 12)
    longest = min(MAX_BACKOFF_S, base << doublings)
    return rng.randint(longest // 2, longest)
