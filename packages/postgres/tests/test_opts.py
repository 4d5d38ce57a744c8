"""What a store's options refuse."""

import pytest

from alkstore_postgres import PostgresOpts

SECONDS = ("pool_timeout", "connect_timeout", "statement_timeout", "poll_interval")


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        *((name, value, "seconds above 0") for name in SECONDS for value in (0, -1, True, "1")),
        ("pool_timeout", None, "seconds above 0"),
        ("pool_size", 0, "a number of 1 or more"),
        ("pool_size", True, "a number of 1 or more"),
        ("migrate", 1, "True or False"),
        ("pgbouncer", None, "True or False"),
        ("schema", "ü" * 32, "a name of 1 to 63 bytes"),
        ("schema", "a\0b", "a name of 1 to 63 bytes"),
        ("schema", "PG_mine", "keeps pg_ for itself"),
        ("listen_url", 7, "takes a URL, not int"),
    ],
)
def test_refusals(name, value, told):
    """A value that cannot work is refused where it is given, by the option's name."""
    with pytest.raises(ValueError, match=rf"PostgresOpts\.{name} .*{told}"):
        PostgresOpts(**{name: value})


def test_no_interval_is_no_polling():
    """Listening is what a store does unless an interval is given."""
    assert None is PostgresOpts().poll_interval
    assert None is PostgresOpts(poll_interval=None).poll_interval
