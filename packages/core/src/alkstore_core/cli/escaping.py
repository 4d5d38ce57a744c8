"""What others have written, made fit to be shown: nothing of it may speak to the terminal."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from alkstore_core import CodecError, decode_payload
from alkstore_core.showing import BODY_LIMIT, laid_out

# Up to the last @ of the line: a password that was not encoded may hold spaces, slashes and more.
_PASSWORD = re.compile(r"(://[^:/@\s]*):.*@")
_PASSWORD_FIELD = re.compile(r"(?i)(pass(?:word|wd|phrase|file)?=)[^&\s'\"]*")


def shown(text: str) -> str:
    """The text with everything that is not a printable character as a backslash escape.

    Escape sequences, line ends, marks that turn the direction of text and lone surrogates among
    them.
    """
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text
    )


def safe(text: str) -> str:
    """The text as `shown` line by line, and `***` for each password of a URL in it."""
    text = _PASSWORD_FIELD.sub(r"\1***", _PASSWORD.sub(r"\1:***@", text))
    return lines(text)


def lines(text: str) -> str:
    """The text as `shown`, but for its line feeds, which stay."""
    return "\n".join(map(shown, text.split("\n")))


def payload_line(data: bytes, most: int = 200) -> str:
    """The beginning of a payload as it is stored, in one line, for a table."""
    # A character has four bytes at most; the cut may fall into one, which is not shown then.
    text = data[: 4 * most + 4].decode(errors="backslashreplace")
    return shown(text) if len(text) <= most else f"{shown(text[:most])}…"


def payload_text(data: bytes) -> tuple[str, bool]:
    """A payload in lines, JSON with indents and else as escaped text, and whether it was cut."""
    try:
        text, cut = laid_out(data)
    except CodecError as error:
        head = data[:BODY_LIMIT].decode(errors="backslashreplace")
        return f"{error} ({len(data)} bytes): {shown(head)}", len(data) > BODY_LIMIT
    return lines(text), cut


def payload_fields(data: bytes) -> dict[str, Any]:
    """A payload for scripts: `payload`, or `payload_base64` for what cannot be printed as JSON.

    That is what is none, and numbers that Python has no equal of, such as 1e999.
    """
    try:
        payload = decode_payload(data)
        # Tried a little deeper than it is going to be printed.
        json.dumps([[[[[payload]]]]], allow_nan=False)
    except (CodecError, RecursionError, ValueError):
        return {"payload_base64": base64.b64encode(data).decode()}
    return {"payload": payload}
