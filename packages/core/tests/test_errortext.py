"""Error texts: whatever is given, text is stored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alkstore_core.policy.errortext import storable_error


class BrokenError(Exception):
    """Has no text."""

    def __str__(self):
        raise RuntimeError("no text for you")


class LeavingError(Exception):
    """Has a text that ends the process of who asks for it."""

    def __str__(self):
        raise SystemExit


class WrongError(Exception):
    """Has a text that is none."""

    def __str__(self):
        return 7  # noqa: PLE0307 - that is the point.


class Shout(str):
    """Claims another text than it has."""

    __slots__ = ()

    def __str__(self):
        return "not me"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("boom", "boom"),
        ("", ""),
        ("a\0b", r"a\x00b"),
        ("a\ud800b\udfff", r"a\ud800b\udfff"),
        ("é🐙\n", "é🐙\n"),
        (Shout("me"), "me"),
        (ValueError("bad"), "ValueError: bad"),
        (ValueError(), "ValueError"),
        (BrokenError(), "BrokenError whose text cannot be had"),
        (LeavingError(), "LeavingError whose text cannot be had"),
        (WrongError(), "WrongError whose text cannot be had"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (7, "7"),
        (b"raw", "b'raw'"),
    ],
)
def test_anything_becomes_text(error, text):
    """Texts stay, unstorable characters are escaped, exceptions read as type and text."""
    assert storable_error(error) == text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("x" * 8192, "x" * 8192),
        ("x" * 8193, "x" * 8192),
        ("x" * 50_000_000, "x" * 8192),
        ("é" * 5000, "é" * 4096),
        ("x" + "é" * 5000, "x" + "é" * 4095),
        ("xx" + "🐙" * 5000, "xx" + "🐙" * 2047),
        ("\0" * 5000, r"\x00" * 2048),
    ],
    ids=["fits", "one over", "megabytes", "2 bytes", "odd", "4 bytes", "escaped"],
)
def test_a_long_text_is_cut_at_8_kib(error, text):
    """At most 8,192 bytes of UTF-8 stay, and no character is cut in two."""
    assert storable_error(error) == text


@given(st.text(st.characters(codec=None), max_size=50))
def test_every_text_is_storable(error):
    """The result encodes as UTF-8 and has no NUL."""
    assert b"\0" not in storable_error(error).encode()
