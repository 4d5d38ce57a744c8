"""Values: frozen, plain, and quick to make."""

import copy
import pickle

import attrs
import pytest

from alkstore_core import errors, values
from alkstore_core.values import (
    EnqueueOpts,
    Job,
    JobState,
    QueueOpts,
    ScheduleOpts,
    StreamEvent,
    Wake,
    new_event,
    new_job,
)

ROW = (
    7, "mail", b'{"a":1}', {"trace": "x"}, JobState.PROCESSING, 2, 100, 90, None, 1, 3, 300, 5,
    None, "w1", 101, 401, None, None,
)  # fmt: skip
JOB = Job(
    id=7,
    queue="mail",
    payload=b'{"a":1}',
    headers={"trace": "x"},
    state=JobState.PROCESSING,
    priority=2,
    run_at=100,
    created_at=90,
    expires_at=None,
    attempts=1,
    max_attempts=3,
    visibility_timeout_s=300,
    backoff_base_s=5,
    dead_letter_retention_s=None,
    worker_id="w1",
    claimed_at=101,
    claim_expires_at=401,
    last_error=None,
    died_at=None,
)
EVENT = StreamEvent(
    offset=3, stream="orders", key="k", payload=b"[1,2]", headers=None, created_at=9
)

VALUES = [
    value
    for value in vars(values).values()
    if isinstance(value, type) and attrs.has(value) and value.__module__ == values.__name__
]


def test_the_defaults_are_the_contracts():
    """Options that are left out have the documented values."""
    assert attrs.asdict(EnqueueOpts()) == {
        "delay": None,
        "run_at": None,
        "priority": 0,
        "max_attempts": None,
        "expires": None,
        "headers": None,
    }
    assert attrs.asdict(QueueOpts()) == {
        "visibility_timeout_s": 300,
        "max_attempts": 3,
        "backoff_base_s": 5,
        "dead_letter_retention_s": None,
    }
    assert attrs.asdict(ScheduleOpts()) == {
        "priority": 0,
        "max_attempts": None,
        "expires": None,
        "headers": None,
    }


@pytest.mark.parametrize("cls", VALUES)
def test_values_are_slotted_and_named(cls):
    """Every value takes its fields by name only and has no room for others."""
    assert all(field.kw_only for field in attrs.fields(cls))
    assert "__dict__" not in dir(cls)


@pytest.mark.parametrize("value", [JOB, new_job(*ROW), EVENT, Wake(channel="c"), EnqueueOpts()])
def test_values_are_frozen(value):
    """Fields can be neither set, added nor deleted, however the value was made."""
    name = attrs.fields(type(value))[0].name
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(value, name, 1)
    with pytest.raises((attrs.exceptions.FrozenInstanceError, AttributeError)):
        value.other = 1
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        delattr(value, name)


def test_a_row_makes_the_same_job():
    """`new_job` takes the fields by position and gives what the class gives."""
    job = new_job(*ROW)
    assert type(job) is Job
    assert job == JOB
    assert hash(job) == hash(JOB)
    assert repr(job) == repr(JOB)
    assert attrs.evolve(job, id=8).id == 8


def test_a_row_makes_the_same_event():
    """`new_event` takes the fields by position and gives what the class gives."""
    event = new_event(3, "orders", "k", b"[1,2]", None, 9)
    assert type(event) is StreamEvent
    assert event == EVENT


@pytest.mark.parametrize("row", [ROW[:-1], (*ROW, 1)])
def test_a_row_of_another_length_is_refused(row):
    """A missing or a surplus column is an error, not a shifted job."""
    with pytest.raises(TypeError):
        new_job(*row)


@pytest.mark.parametrize("value", [JOB, new_job(*ROW), EVENT])
def test_values_can_be_copied_and_pickled(value):
    """A copy and an unpickled value equal the original."""
    assert pickle.loads(pickle.dumps(value)) == value
    assert copy.copy(value) == value


def test_values_with_headers_are_hashable():
    """Headers, a dict, do not keep a value out of a set."""
    assert {JOB, new_job(*ROW)} == {JOB}
    assert len({EnqueueOpts(headers={"a": "b"}), EnqueueOpts(headers={"a": "b"})}) == 1


def test_payloads_are_read_as_a_type():
    """`payload_as` builds the type that is asked for."""
    assert JOB.payload_as(dict[str, int]) == {"a": 1}
    assert EVENT.payload_as(list[int]) == [1, 2]


def test_a_payload_of_another_type_is_refused():
    """`payload_as` raises `CodecError` on a mismatch."""
    with pytest.raises(errors.CodecError):
        JOB.payload_as(list)
    with pytest.raises(errors.CodecError):
        EVENT.payload_as(list[str])


def test_states_are_strings():
    """A state compares to its text and comes from it."""
    assert JobState("dead") is JobState.DEAD
    assert [*JobState] == ["pending", "processing", "dead"]


@pytest.mark.parametrize(
    "cls",
    [
        errors.PayloadTooLarge,
        errors.ReservedName,
        errors.InvalidName,
        errors.Closed,
        errors.CodecError,
        errors.DatabaseError,
        errors.InvalidSpec,
        errors.LeadershipLost,
    ],
)
def test_every_error_is_an_alkstore_error(cls):
    """One `except AlkstoreError` catches them all."""
    assert issubclass(cls, errors.AlkstoreError)


def test_payload_too_large_carries_its_numbers():
    """Limit and size are there as data and in the message, also after pickling."""
    error = pickle.loads(pickle.dumps(errors.PayloadTooLarge(limit=7999, size=8000)))
    assert (error.limit, error.size) == (7999, 8000)
    assert str(error) == (
        "the encoded payload is 8000 bytes, this engine carries at most 7999; "
        "store the data and notify its key"
    )


@pytest.mark.parametrize(
    "error",
    [
        errors.Closed("the store is closed"),
        errors.CodecError("no JSON"),
        errors.DatabaseError("refused"),
        errors.LeadershipLost("lease lapsed"),
    ],
)
def test_told_errors_survive_pickling(error):
    """An unpickled error has the same type and message."""
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)


@pytest.mark.parametrize(
    ("changes", "now", "standing"),
    [
        ({}, 401, "processing"),
        ({}, 402, "lapsed"),
        ({"expires_at": 300}, 401, "processing"),
        ({"expires_at": 402}, 402, "expired"),
        ({"state": JobState.PENDING}, 100, "ready"),
        ({"state": JobState.PENDING}, 99, "delayed"),
        ({"state": JobState.PENDING, "expires_at": 99}, 99, "expired"),
        ({"state": JobState.DEAD, "expires_at": 99}, 500, "dead"),
    ],
)
def test_where_a_job_stands(changes, now, standing):
    """To the second: a claim lives through its last one, and a job expires with its own."""
    assert standing == attrs.evolve(JOB, **changes).standing(now)
