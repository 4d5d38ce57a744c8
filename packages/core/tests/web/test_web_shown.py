"""How values are shown."""

from __future__ import annotations

import json
import sys

import pytest

from alkstore_core.web import shown


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (3_600, "1 h"),
        (3_661, "1 h 1 min"),
        (86_405, "1 d"),
        (-90_061, "1 d 1 h"),
        (2**63 - 1, "106,751,991,167,300 d 15 h"),
    ],
)
def test_duration(seconds, text):
    """A duration has its two greatest units."""
    assert text == shown.duration(seconds)


@pytest.mark.parametrize(("moment", "text"), [(100, "now"), (40, "1 min ago"), (105, "in 5 s")])
def test_distance(moment, text):
    """A moment is told by how far away it is."""
    assert text == shown.distance(moment, 100)


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (0, "1970-01-01 00:00:00"),
        (253_402_300_799, "9999-12-31 23:59:59"),
        (253_402_300_800, "unix 253402300800"),
        (2**63 - 1, f"unix {2**63 - 1}"),
        (-1, "unix -1"),
    ],
)
def test_calendar(moment, text):
    """A moment stands in the calendar, if it has it."""
    assert text == shown.calendar(moment)


@pytest.mark.parametrize(
    ("payload", "text", "form"),
    [
        (b'{"a":[1,"\xc3\xa9"]}', '{\n  "a": [\n    1,\n    "é"\n  ]\n}', "JSON"),
        (b"[1e999]", "[\n  1e999\n]", "JSON"),
        (b"not JSON", "not JSON", "text"),
        (b"\x00\xff\x10", "00ff10", "bytes, in hex"),
        (b"\x00\xff\x10\x80\x81", "00ff1080 81", "bytes, in hex"),
        (b"[" * 30_000 + b"]" * 30_000, "[" * 30_000 + "]" * 30_000, "text"),
    ],
)
def test_body(payload, text, form):
    """JSON is laid out; other text stands as it is, other bytes in hex."""
    assert shown.Body(text=text, form=form, size=len(payload), cut=False) == shown.body(payload)


@pytest.mark.parametrize(
    "payload",
    [
        b'"' + b"x" * 10**6 + b'"',
        b"[" * 400 + b",".join([b"1"] * 20_000) + b"]" * 400,
        "é".encode() * 50_000,
        b"x" + "é".encode() * 50_000,
        b"\xff" * 10**6,
    ],
)
def test_body_is_cut(payload):
    """However long a payload is, or becomes when it is laid out, what is shown of it is short."""
    body = shown.body(payload)
    assert body.cut
    assert 1_000 < len(body.text) <= shown.BODY_LIMIT
    assert "\ufffd" not in body.text


def test_long_integers():
    """An integer that this interpreter would not convert is shown as it stands."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(700)
    try:
        assert "9" * 800 == shown.body(b"9" * 800).text
    finally:
        sys.set_int_max_str_digits(before)


def test_excerpt():
    """An excerpt is the beginning, on one line."""
    payload = json.dumps({"text": "é" * 500}, ensure_ascii=False).encode()
    assert '{"text": "ééé' == shown.excerpt(payload)[:13]
    assert shown.EXCERPT == len(shown.excerpt(payload))
    assert "a b" == shown.shortened("a\n\n   b\t")
