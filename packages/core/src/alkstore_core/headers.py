"""Headers: a little metadata beside a payload, such as a trace context, as JSON text."""

from __future__ import annotations

import json
from typing import Any, cast

from alkstore_core.errors import CodecError

MAX_HEADERS_BYTES = 4096

_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def encode_headers(headers: Any) -> str | None:
    """Encode a dict of str to str as JSON text that any engine can store; `None` stays `None`.

    Control characters, NUL among them, are escaped in the text and come back.

    Raises:
        CodecError: not a dict of str to str, a lone surrogate, or more than 4,096 bytes of
            JSON in UTF-8.

    """
    if headers is None:
        return None
    if not isinstance(headers, dict):
        raise CodecError(f"headers must be a dict of str to str, not {type(headers).__name__}")
    for part in (*headers.keys(), *headers.values()):
        if not isinstance(part, str):
            raise CodecError(f"headers must be str to str, found {type(part).__name__}")
    text = _text(headers)
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise CodecError("headers cannot be stored: they hold a lone surrogate") from None
    if size > MAX_HEADERS_BYTES:
        raise CodecError(
            f"headers are {size} bytes of JSON, at most {MAX_HEADERS_BYTES} are stored; "
            "put the data into the payload"
        )
    return text


def decode_headers(text: str | None) -> dict[str, str] | None:
    """Decode what `encode_headers` made.

    Raises:
        CodecError: the text is something else.

    """
    if text is None:
        return None
    try:
        headers = json.loads(text)
    except (ValueError, RecursionError):
        raise CodecError("stored headers are not JSON") from None
    if type(headers) is not dict or not all(type(value) is str for value in headers.values()):
        raise CodecError("stored headers are not an object of strings")
    return cast("dict[str, str]", headers)
