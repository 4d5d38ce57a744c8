"""Version tokens and cursors: their exact bytes, and what is taken for one."""

import base64
import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alkstore_localstores import LocalStoreError
from alkstore_localstores.kv_tokens import (
    I64_MAX,
    cursor_after,
    read_cursor,
    read_version,
    version_token,
)

KEYS = st.text("abcXYZ019-_:.", min_size=1, max_size=30)


def encode(content) -> str:
    """Unpadded base64url of a text, or of something's JSON."""
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def decode(token) -> str:
    """The text within."""
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()


def test_a_version_token_is_what_the_format_says():
    """Compact JSON, its fields in the order of the format, in unpadded base64url."""
    expected = '{"format":1,"key":"a:b","backendVersion":"0f","expiresAtMillis":null}'
    assert expected == decode(version_token("a:b", "0f", None))
    expected = '{"format":1,"key":"a:b","backendVersion":"0f","expiresAtMillis":12}'
    assert expected == decode(version_token("a:b", "0f", 12))
    assert "=" not in version_token("a", "0f", None) + version_token("ab", "0f", None)


def test_a_cursor_is_what_the_format_says():
    """As the token."""
    assert decode(cursor_after("a:", "a:b")) == '{"version":1,"prefix":"a:","last_key":"a:b"}'


@given(KEYS, st.text(), st.none() | st.integers(-(2**63), I64_MAX))
def test_a_version_token_comes_back(key, backend, expires_at):
    """What is written is read, whatever a foreign writer has taken for a version."""
    assert read_version(version_token(key, backend, expires_at), key) == (backend, expires_at)


@given(KEYS, KEYS)
def test_a_cursor_comes_back(prefix, last_key):
    """What is written is read."""
    assert last_key == read_cursor(cursor_after(prefix, last_key), prefix)


@given(KEYS, st.integers(0), st.characters())
def test_a_changed_token_is_refused_or_still_of_this_key(key, place, char):
    """One changed character never makes a token of another key, and never raises anything else."""
    token = version_token(key, "0f" * 16, None)
    place %= len(token)
    changed = token[:place] + char + token[place + 1 :]
    with contextlib.suppress(LocalStoreError):
        read_version(changed, key)
        assert json.loads(decode(changed))["key"] == key


@pytest.mark.parametrize(
    "fields",
    [
        {"backendVersion": "v", "key": "k", "format": 1, "expiresAtMillis": None},
        {"format": 1, "key": "k", "backendVersion": "v"},
        {"format": 1, "key": "k", "backendVersion": "v", "expiresAtMillis": None, "new": [1]},
    ],
)
def test_fields_may_come_in_any_order_with_more_or_without_an_expiry(fields):
    """What later writers add does not hurt."""
    assert read_version(encode(fields), "k") == ("v", None)


GOOD = {"format": 1, "key": "k", "backendVersion": "v", "expiresAtMillis": None}


@pytest.mark.parametrize(
    "token",
    [
        None,
        7,
        "",
        "=",
        "!!!!",
        "ä",
        encode(b"{"),
        encode(b"\xff"),
        encode(b"[" * 100_000),
        encode([]),
        encode("text"),
        encode(None),
        encode(GOOD | {"format": 2}),
        encode(GOOD | {"format": True}),
        encode(GOOD | {"format": 1.0}),
        encode(GOOD | {"format": "1"}),
        encode(GOOD | {"key": "other"}),
        encode(GOOD | {"key": None}),
        encode(GOOD | {"backendVersion": 1}),
        encode({k: v for k, v in GOOD.items() if k != "backendVersion"}),
        encode({k: v for k, v in GOOD.items() if k != "format"}),
        encode(GOOD | {"expiresAtMillis": "1"}),
        encode(GOOD | {"expiresAtMillis": 1.5}),
        encode(GOOD | {"expiresAtMillis": False}),
        encode(GOOD | {"expiresAtMillis": 2**63}),
        encode(b'{"format":1,"format":1,"key":"k","backendVersion":"v"}'),
        encode(b'{"format":1,"key":"k","backendVersion":"v","x":NaN}'),
        encode(GOOD) + "=",
        encode(GOOD) + "==",
        encode(GOOD)[:-1],
        f" {encode(GOOD)}",
        f"{encode(GOOD)}\n",
    ],
)
def test_what_is_no_version_token_is_refused(token):
    """Padding, broken JSON, another format and another key among others."""
    with pytest.raises(LocalStoreError) as caught:
        read_version(token, "k")
    assert caught.value.code == "INVALID_INPUT"


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        encode({"version": 2, "prefix": "a", "last_key": "ab"}),
        encode({"version": 1, "prefix": "b", "last_key": "ab"}),
        encode({"version": 1, "prefix": "a"}),
        encode({"version": 1, "last_key": "ab"}),
        encode({"prefix": "a", "last_key": "ab"}),
        encode({"version": 1, "prefix": "a", "last_key": 7}),
        version_token("a", "v", None),
    ],
)
def test_what_is_no_cursor_is_refused(token):
    """Another version and another prefix among others."""
    with pytest.raises(LocalStoreError) as caught:
        read_cursor(token, "a")
    assert caught.value.code == "INVALID_INPUT"


def test_bits_that_mean_nothing_are_refused():
    """Two texts of base64 that hold the same bytes are not the same token."""
    content = b'{"format":1,"key":"k","backendVersion":"v"} '
    token = encode(content)
    assert len(content) % 3 == 2
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    other = token[:-1] + alphabet[alphabet.index(token[-1]) + 1]
    assert decode(token) == decode(other)
    assert read_version(token, "k").backend == "v"
    with pytest.raises(LocalStoreError):
        read_version(other, "k")


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (lambda t: read_cursor(t, "a"), b'{"version":1,"prefix":"a","last_key":"\\ud800"}'),
        (lambda t: read_version(t, "a"), b'{"format":1,"key":"a","backendVersion":"\\udfff"}'),
    ],
)
def test_half_a_surrogate_pair_is_refused(read, text):
    """It would reach the database otherwise, which fails over it."""
    with pytest.raises(LocalStoreError) as caught:
        read(encode(text))
    assert caught.value.code == "INVALID_INPUT"
