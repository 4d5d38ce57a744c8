"""The one spec a schedule has: `@every <n><unit>`."""

from __future__ import annotations

import re
from typing import Any

from alkstore_core.errors import InvalidSpec
from alkstore_core.integers import I64_MAX

# `[0-9]` and a plain space, matched to the very end: `\d`, `\s` and `$` take more than that.
# Zeros apart, 19 digits hold every i64.
_SPEC = re.compile(r"@every +0*([1-9][0-9]{0,18})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_every(spec: Any) -> int:
    """The interval in elapsed seconds, so a day is 86,400 of them.

    Raises:
        InvalidSpec: not in the grammar, 0, or more seconds than an i64 holds.

    """
    match = _SPEC.fullmatch(spec) if isinstance(spec, str) else None
    if match is None:
        raise InvalidSpec(spec)
    seconds = int(match[1]) * _SECONDS[match[2]]
    if seconds > I64_MAX:
        raise InvalidSpec(spec)
    return seconds
