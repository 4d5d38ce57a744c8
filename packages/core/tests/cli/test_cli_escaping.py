"""What others have stored never speaks to the terminal, and no password is told."""

import json
import sys

import pytest

from alkstore_core.cli.escaping import payload_fields, payload_line, payload_text, safe, shown


@pytest.mark.parametrize(
    ("raw", "escaped"),
    [
        ("ünï 漢字 ✓", "ünï 漢字 ✓"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\r\nb\tc\0", r"a\r\nb\tc\x00"),
        ("\x9b31m", r"\x9b31m"),
        ("a\u202eb\u2028", r"a\u202eb\u2028"),
        ("\ud800", r"\ud800"),
        ("\x7f", r"\x7f"),
    ],
)
def test_what_is_not_printable_is_escaped(raw, escaped):
    """Escape sequences, line ends, turned text and lone surrogates are shown as escapes."""
    assert escaped == shown(raw)
    assert escaped.isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:hunter2@host/db",
        "Got unexpected extra argument (postgresql://me:hun/ter2@x:hunter2@host/db)",
        "postgresql://host/db?user=me&password=hunter2&x=1",
        "cannot use sqlite:///a and postgresql+asyncpg://:hunter2@host",
        "postgresql://me:my hunter2 is@home @host/db",
    ],
)
def test_passwords_are_never_told(text):
    """A URL's password becomes stars, wherever it stands, and the rest is told."""
    told = safe(text)

    assert "hunter2" not in told
    assert "***" in told


def test_messages_keep_their_lines():
    """The lines of a message stay lines; what else is in it is escaped."""
    assert "one\n\\x1b[2Jtwo" == safe("one\n\x1b[2Jtwo")


def test_a_payload_that_is_no_json_is_escaped_and_said_to_be_none():
    """Foreign bytes are shown as escapes, and given to scripts in base64."""
    assert r"\x00\xff\x1b" == payload_line(b"\0\xff\x1b")
    text, cut = payload_text(b"\0\xff\x1b")
    assert r"cannot decode the payload: byte 1 is not UTF-8 (3 bytes): \x00\xff\x1b" == text
    assert not cut
    assert {"payload_base64": "AP8b"} == payload_fields(b"\0\xff\x1b")
    assert {"payload": None} == payload_fields(b"null")


def test_numbers_that_cannot_be_printed_are_given_as_they_are_stored():
    """Infinity would be no JSON, and an integer beyond the interpreter's limit a traceback."""
    assert {"payload_base64": "WzFlOTk5XQ=="} == payload_fields(b"[1e999]")
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert {"payload_base64"} == set(payload_fields(b"9" * 700))
    finally:
        sys.set_int_max_str_digits(before)
    assert {"payload": 10**4_000} == payload_fields(b"1" + b"0" * 4_000)


@pytest.mark.parametrize("depth", range(900, 1_000, 5))
def test_what_is_given_to_scripts_can_be_printed(depth):
    """However deep it is nested."""
    json.dumps({"jobs": [payload_fields(b"[" * depth + b"]" * depth)]})


def test_a_payload_is_indented_json():
    """All of it, with its own letters."""
    data = json.dumps({"to": "ädä", "n": [1, "\x9b\x7f"]}, ensure_ascii=False).encode()

    text, cut = payload_text(data)
    lines = text.split("\n")

    assert "{" == lines[0]
    assert '  "to": "ädä",' == lines[1]
    assert r'    "\x9b\x7f"' == lines[4]
    assert not cut


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 400 + b",".join([b"1"] * 20_000) + b"]" * 400,
        b'"' + b"x" * 1_000_000 + b'"',
        b"\xff" * 1_000_000,
        b"[" * 100_000,
    ],
)
def test_a_payload_is_cut_where_it_would_flood_the_terminal(data):
    """However long it is, or becomes when it is laid out."""
    text, cut = payload_text(data)

    assert cut
    assert 60_000 < len(text) < 300_000


def test_a_huge_payload_is_cut_in_tables():
    """A megabyte becomes a short line that says there was more."""
    line = payload_line(b'"' + "ä".encode() * 500_000 + b'"', 20)

    assert '"' + "ä" * 19 + "…" == line
