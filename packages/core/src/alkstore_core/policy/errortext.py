"""Error texts may hold anything; what is stored of them is always text."""

from __future__ import annotations

MAX_ERROR_BYTES = 8192


def storable_error(error: object) -> str:
    r"""The text of an error as every engine can store it.

    NUL and lone surrogates become `\x00` and `\udc80`; at most 8,192 bytes of UTF-8 are kept,
    whole characters. An exception reads as `ValueError: text`; an object whose text cannot be
    had as its type, so that the job's transition always lands.
    """
    # Every character takes at least a byte: no megabytes are copied to keep 8 KiB.
    text = _text_of(error)[:MAX_ERROR_BYTES].replace("\0", "\\x00")
    return text.encode("utf-8", "backslashreplace")[:MAX_ERROR_BYTES].decode("utf-8", "ignore")


def _text_of(error: object) -> str:
    if isinstance(error, str):
        return str.__str__(error)
    name = type(error).__name__
    try:
        text = str.__str__(str(error))
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - a broken `__str__` must not keep the job from settling.
        return f"{name} whose text cannot be had"
    if not isinstance(error, BaseException):
        return text
    return f"{name}: {text}" if text else name
