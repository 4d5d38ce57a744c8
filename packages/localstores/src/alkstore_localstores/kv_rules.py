"""What keys, values, limits and lifetimes may be."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Any

from alkstore_localstores.errors import INVALID_INPUT, LocalStoreError, shown
from alkstore_localstores.kv_tokens import I64_MAX

KEY_LIMIT = 512
"""Bytes; a key has at least one."""

VALUE_LIMIT = 24_576
"""Bytes."""

SCAN_LIMIT = 1000
"""Entries of a page, unless another number is asked for."""

_KEY = re.compile(rf"[A-Za-z0-9\-_:.]{{1,{KEY_LIMIT}}}")


def check_key(key: Any, what: str = "key") -> None:
    """Refuse a key, or a prefix, out of its rules.

    Raises:
        LocalStoreError: `INVALID_INPUT`.

    """
    if not isinstance(key, str):
        raise invalid(f"the {what} is of type {type(key).__name__}, and has to be a string")
    if _KEY.fullmatch(key) is None:
        start = key if len(key) <= 80 else f"{key[:80]}…"  # noqa: PLR2004 - enough to find it by
        raise invalid(
            f"the {what} {start!r} is out of its rules: 1 to {KEY_LIMIT} of the characters "
            "A-Z a-z 0-9 - _ : ."
        )


def check_value(value: Any) -> None:
    """Refuse a value that is no bytes, or too many.

    Raises:
        LocalStoreError: `INVALID_INPUT`.

    """
    if not isinstance(value, bytes):
        raise invalid(f"the value is of type {type(value).__name__}, and has to be bytes")
    if len(value) > VALUE_LIMIT:
        raise invalid(f"the value has {len(value)} bytes; {VALUE_LIMIT} are allowed")


def check_limit(limit: Any) -> None:
    """Refuse what is no number of entries.

    Raises:
        LocalStoreError: `INVALID_INPUT`.

    """
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
        raise invalid(f"limit is {shown(limit)}, and has to be an integer of at least 0")


def milliseconds(ttl: Any) -> int:
    """A lifetime in milliseconds, at most those there are.

    Raises:
        LocalStoreError: `INVALID_INPUT`; it is negative, or no lifetime.

    """
    if isinstance(ttl, timedelta):
        whole = ttl // timedelta(milliseconds=1)
    elif isinstance(ttl, int | float) and not isinstance(ttl, bool) and ttl == ttl:  # noqa: PLR0124 - NaN
        # Rounded first: 0.29 s are 290 ms, though the product is a little less.
        whole = I64_MAX if ttl > I64_MAX else math.floor(round(max(ttl, -1) * 1000, 6))
    else:
        raise invalid(f"ttl is {shown(ttl)}, and has to be seconds or a timedelta")
    if whole < 0:
        raise invalid(f"ttl is {shown(ttl)}, and has to be at least 0")
    return whole


def invalid(message: str) -> LocalStoreError:
    """An error of the caller's."""
    return LocalStoreError(INVALID_INPUT, message)
