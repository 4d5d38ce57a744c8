"""The error: its fields, its envelope and its codes."""

import pickle

import pytest

from alkstore_localstores import LocalStoreError, errors


@pytest.mark.parametrize(
    ("code", "status", "retryable"),
    [
        (errors.INVALID_INPUT, 400, False),
        (errors.BINDING_NOT_CONFIGURED, 400, False),
        (errors.BINDING_CONFIG_INVALID, 400, False),
        (errors.OPERATION_NOT_SUPPORTED, 501, False),
        (errors.LOCAL_FILESYSTEM_ERROR, 500, True),
        (errors.BINDING_SETUP_FAILED, 500, False),
        (errors.KV_OPERATION_FAILED, 502, True),
        (errors.QUEUE_OPERATION_FAILED, 502, True),
        (errors.LOCAL_QUEUE_UNAUTHORIZED, 401, False),
        (errors.LOCAL_QUEUE_OWNER_NOT_READY, 503, True),
    ],
)
def test_codes(code, status, retryable):
    """A code carries its HTTP status and whether the call may be made again."""
    error = LocalStoreError(code, "no")
    assert (status, retryable, False) == (
        error.http_status_code,
        error.retryable,
        error.internal,
    )


def test_envelope():
    """The envelope is camelCase, holds what is there, and nests the source."""
    source = LocalStoreError(errors.LOCAL_FILESYSTEM_ERROR, "disk", internal=True)
    error = LocalStoreError(
        errors.INVALID_INPUT, "bad key", context={"key": "/"}, hint="choose another", source=source
    )
    assert error.envelope() == {
        "code": "INVALID_INPUT",
        "message": "bad key",
        "context": {"key": "/"},
        "hint": "choose another",
        "retryable": False,
        "internal": False,
        "httpStatusCode": 400,
        "source": {
            "code": "LOCAL_FILESYSTEM_ERROR",
            "message": "disk",
            "retryable": True,
            "internal": True,
            "httpStatusCode": 500,
        },
    }
    assert LocalStoreError.from_envelope(error.envelope()).envelope() == error.envelope()


@pytest.mark.parametrize(
    "envelope",
    [
        {},
        {"code": "X"},
        {"code": 1, "message": "m"},
        {"code": "X", "message": "m", "retryable": "yes"},
        {"code": "X", "message": "m", "httpStatusCode": "400"},
        {"code": "X", "message": "m", "source": "s"},
    ],
)
def test_bad_envelope(envelope):
    """What is no envelope is refused, not guessed at."""
    with pytest.raises(ValueError, match="error envelope"):
        LocalStoreError.from_envelope(envelope)


def test_pickling():
    """An error survives a process boundary with all it says."""
    error = LocalStoreError("A", "m", context={"n": 1}, hint="h", retryable=True, internal=True)
    again = pickle.loads(pickle.dumps(error))
    assert (error.envelope(), str(error)) == (again.envelope(), str(again))
