"""Names: the same rules for the six kinds, and the looser ones for labels."""

import enum
import pickle

import pytest

from alkstore_core.errors import InvalidName, ReservedName
from alkstore_core.names import backing_queue, check_label, check_name

KINDS = ["channel", "stream", "queue", "outbox", "lock", "schedule"]
LABELS = ["worker id", "owner", "consumer", "key"]


class Queue(enum.StrEnum):
    """How a program may keep its names together."""

    MAIL = "mail"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name",
    [
        "mail",
        "Mail",
        " padded ",
        "a b",
        "日本",
        "🐙",
        "_alkstore_x",
        "__alkstore",
        "__ALKSTORE_x",
        " __alkstore_x",
        "line\nbreak",
        "x" * 255,
        "é" * 127,
    ],
)
def test_a_legal_name_is_returned_as_it_is(kind, name):
    """A legal name passes for every kind, untrimmed and case kept, the second time as well."""
    assert check_name(kind, name) == name
    assert check_name(kind, name) == name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name",
    [
        *("", " ", "\t\n", "\u2003\u3000", "a\0b", "\0", "a\ud800", "x" * 256, "é" * 128),
        *(None, 7, b"mail", ["mail"], {"a": 1}),
    ],
)
def test_an_illegal_name_is_invalid(kind, name):
    """Empty, whitespace, NUL, lone surrogates, over 255 bytes and other types are refused."""
    for _ in range(2):
        with pytest.raises(InvalidName):
            check_name(kind, name)


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("value", ["", " ", "a\0b", "a\ud800", "x" * 256, None, 7, b"w"])
def test_an_illegal_label_is_invalid(kind, value):
    """Worker ids, owners, consumers and keys follow the rules of names."""
    with pytest.raises(InvalidName):
        check_label(kind, value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name", ["__alkstore_", "__alkstore_x", "__alkstore_listener_reconnected__"]
)
def test_the_librarys_namespace_is_reserved(kind, name):
    """A name under `__alkstore_` is refused for every kind."""
    with pytest.raises(ReservedName):
        check_name(kind, name)


@pytest.mark.parametrize("kind", LABELS)
def test_a_label_may_be_under_the_reserved_prefix(kind):
    """Labels are the caller's own: no reserved rule."""
    assert check_label(kind, "__alkstore_x") == "__alkstore_x"


def test_a_name_accepted_as_a_label_is_still_reserved():
    """What was accepted once as a label is not remembered as a name."""
    check_label("key", "__alkstore_once")
    with pytest.raises(ReservedName):
        check_name("queue", "__alkstore_once")


def test_an_enum_member_becomes_the_string_it_is():
    """A `StrEnum` member names a queue as a plain str, also before the plain one was seen."""
    assert type(check_name("queue", Queue.MAIL)) is str
    assert check_name("queue", Queue.MAIL) == "mail"
    assert type(check_label("owner", Queue.MAIL)) is str


def test_the_message_names_kind_value_and_problem():
    """The error says which kind of name, which value, and what is wrong with it."""
    with pytest.raises(InvalidName) as caught:
        check_name("stream", "a\0b")
    assert str(caught.value) == r"stream 'a\x00b' holds a NUL character"
    with pytest.raises(InvalidName) as caught:
        check_name("lock", 7)
    assert str(caught.value) == "lock of type int is not a str"


def test_the_message_of_a_reserved_name_says_what_to_do():
    """The error names the prefix to stay away from."""
    with pytest.raises(ReservedName) as caught:
        check_name("queue", "__alkstore_q")
    assert str(caught.value) == (
        "queue '__alkstore_q' is reserved: names that start with '__alkstore_' belong to the "
        "library; choose another"
    )


def test_a_long_name_is_shortened_in_the_message():
    """A name of a megabyte does not make a message of a megabyte."""
    with pytest.raises(InvalidName) as caught:
        check_name("queue", "x" * 1_000_000)
    assert len(str(caught.value)) < 300
    assert "1000000 bytes" in str(caught.value)


def test_an_error_about_a_surrogate_can_be_printed():
    """The message is encodable although the name is not."""
    with pytest.raises(InvalidName) as caught:
        check_name("queue", "a\ud800")
    assert str(caught.value).encode() == rb"queue 'a\ud800' holds a lone surrogate"


@pytest.mark.parametrize("error", [InvalidName("queue", "", "is empty"), ReservedName("lock", "x")])
def test_errors_survive_pickling(error):
    """An unpickled error has the same type, data and message."""
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (copy.kind, copy.name, str(copy)) == (error.kind, error.name, str(error))


def test_the_backing_queue_is_out_of_callers_reach():
    """The queue behind an outbox has a reserved name that holds the outbox's."""
    assert backing_queue("mail") == "__alkstore_outbox:mail"
