"""Options: resolved over the queue's, checked before storage."""

import pytest

from alkstore_core.errors import CodecError, DatabaseError
from alkstore_core.headers import decode_headers, encode_headers
from alkstore_core.jobspec import JobSpec
from alkstore_core.policy.options import OUTBOX, PLAIN, OptionResolver
from alkstore_core.values import EnqueueOpts, QueueOpts, ScheduleOpts

PLAIN_SPEC = JobSpec(
    priority=0,
    delay=None,
    run_at=None,
    expires=None,
    max_attempts=3,
    visibility_timeout_s=300,
    backoff_base_s=5,
    dead_letter_retention_s=None,
    headers=None,
)


def test_a_plain_queue_stamps_300_3_5_none():
    """Without options a job gets the plain defaults, from options that were left out too."""
    assert PLAIN.resolve() == PLAIN_SPEC
    assert PLAIN.resolve(EnqueueOpts()) == PLAIN_SPEC
    assert PLAIN.resolve_scheduled() == PLAIN_SPEC
    assert PLAIN.resolve_scheduled(ScheduleOpts()) == PLAIN_SPEC


def test_an_outbox_stamps_60_5_5_none():
    """An outbox's jobs get the outbox defaults."""
    spec = OUTBOX.resolve()
    assert spec.visibility_timeout_s == 60
    assert spec.max_attempts == 5
    assert spec.backoff_base_s == 5
    assert spec.dead_letter_retention_s is None


def test_no_options_cost_nothing():
    """Without options every job shares one prepared spec."""
    resolver = OptionResolver(QueueOpts())
    assert resolver.resolve() is resolver.resolve()


def test_queue_options_are_stamped():
    """Every option of the queue reaches the job."""
    opts = QueueOpts(
        visibility_timeout_s=1, max_attempts=9, backoff_base_s=-1, dead_letter_retention_s=60
    )
    spec = OptionResolver(opts).resolve(EnqueueOpts(priority=-4))
    assert spec == JobSpec(
        priority=-4,
        delay=None,
        run_at=None,
        expires=None,
        max_attempts=9,
        visibility_timeout_s=1,
        backoff_base_s=-1,
        dead_letter_retention_s=60,
        headers=None,
    )


@pytest.mark.parametrize("delay", [0, -5, 30, 9_223_372_036_854_775_807])
def test_delay_wins_over_run_at(delay):
    """With both given only the delay counts, 0 and negative ones too."""
    spec = PLAIN.resolve(EnqueueOpts(delay=delay, run_at=1000))
    assert (spec.delay, spec.run_at) == (delay, None)


def test_run_at_alone_is_kept():
    """An absolute time without a delay is taken literally."""
    spec = PLAIN.resolve(EnqueueOpts(run_at=-1000))
    assert (spec.delay, spec.run_at) == (None, -1000)


def test_an_own_max_attempts_wins():
    """The job's own number of attempts goes before the queue's."""
    assert PLAIN.resolve(EnqueueOpts(max_attempts=8)).max_attempts == 8
    assert PLAIN.resolve_scheduled(ScheduleOpts(max_attempts=8)).max_attempts == 8


@pytest.mark.parametrize("attempts", [0, -1, -9_223_372_036_854_775_808])
def test_max_attempts_below_1_is_1(attempts):
    """Whoever enqueues wants the job tried at least once."""
    assert OptionResolver(QueueOpts(max_attempts=attempts)).resolve().max_attempts == 1
    assert PLAIN.resolve(EnqueueOpts(max_attempts=attempts)).max_attempts == 1


@pytest.mark.parametrize("seconds", [0, -1, -9_223_372_036_854_775_808])
def test_a_visibility_timeout_of_nothing_is_refused(seconds):
    """A claim that lapses at once is an error where the queue is made."""
    with pytest.raises(DatabaseError) as caught:
        OptionResolver(QueueOpts(visibility_timeout_s=seconds))
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize(
    "field", ["visibility_timeout_s", "max_attempts", "backoff_base_s", "dead_letter_retention_s"]
)
@pytest.mark.parametrize("value", [True, 1.0, "1", 9_223_372_036_854_775_808])
def test_queue_options_are_i64(field, value):
    """Bools, floats, strings and wider ints are refused before storage."""
    with pytest.raises(DatabaseError, match=field):
        OptionResolver(QueueOpts(**{field: value}))


@pytest.mark.parametrize("field", ["delay", "run_at", "priority", "max_attempts", "expires"])
@pytest.mark.parametrize("value", [True, 1.0, "1", 9_223_372_036_854_775_808])
def test_enqueue_options_are_i64(field, value):
    """Bools, floats, strings and wider ints are refused, also when a delay makes them moot."""
    with pytest.raises(DatabaseError, match=field):
        PLAIN.resolve(EnqueueOpts(**{"delay": 1, field: value}))


@pytest.mark.parametrize("field", ["priority", "max_attempts", "expires"])
@pytest.mark.parametrize("value", [True, 1.0, "1", 9_223_372_036_854_775_808])
def test_schedule_options_are_i64(field, value):
    """A schedule's options are checked like an enqueue's."""
    with pytest.raises(DatabaseError, match=field):
        PLAIN.resolve_scheduled(ScheduleOpts(**{field: value}))


@pytest.mark.parametrize("value", [None, "x"])
def test_a_priority_is_asked_for(value):
    """Priority has no unset form."""
    with pytest.raises(DatabaseError, match="priority"):
        PLAIN.resolve(EnqueueOpts(priority=value))


@pytest.mark.parametrize("opts", [{"priority": 1}, QueueOpts(), ScheduleOpts(), 5])
def test_options_of_another_kind_are_refused(opts):
    """A dict, or the options of something else, is a `DatabaseError` with a `TypeError` cause."""
    with pytest.raises(DatabaseError) as caught:
        PLAIN.resolve(opts)
    assert isinstance(caught.value.__cause__, TypeError)


def test_headers_are_encoded():
    """Headers cross the seam as compact JSON text, order kept, non-ASCII as it is."""
    headers = {"traceparent": "00-ab", "b": "é"}
    text = '{"traceparent":"00-ab","b":"é"}'
    assert PLAIN.resolve(EnqueueOpts(headers=headers)).headers == text
    assert PLAIN.resolve_scheduled(ScheduleOpts(headers=headers)).headers == text


@pytest.mark.parametrize("headers", [None, {}, {"a": ""}, {"": "b"}, {"n\0": "\0\n\x1f\x7f"}])
def test_headers_round_trip(headers):
    """What went in comes out, none and empty apart."""
    assert decode_headers(encode_headers(headers)) == headers


def test_no_control_character_is_stored_raw():
    """A NUL in a header is escaped, because Postgres cannot store one in a text."""
    assert encode_headers({"a": "\0"}) == '{"a":"\\u0000"}'


def test_headers_have_room_for_4096_bytes():
    """The limit counts bytes of encoded JSON: 4,096 pass, one more does not."""
    assert len(encode_headers({"k": "é" * 2044}).encode()) == 4096
    with pytest.raises(CodecError) as caught:
        encode_headers({"k": "é" * 2044 + "x"})
    assert str(caught.value) == (
        "headers are 4097 bytes of JSON, at most 4096 are stored; put the data into the payload"
    )


@pytest.mark.parametrize(
    "headers", [{"a": 1}, {1: "a"}, {"a": None}, {"a": b"b"}, {"\ud800": "a"}, [("a", "b")], "a"]
)
def test_headers_are_str_to_str(headers):
    """Everything else is a `CodecError`."""
    with pytest.raises(CodecError):
        PLAIN.resolve(EnqueueOpts(headers=headers))


@pytest.mark.parametrize("text", ["", "[]", '{"a":1}', "{", "null", "[" * 100_000])
def test_stored_headers_that_are_something_else_are_an_error(text):
    """A foreign value in the column is a `CodecError`, not a surprise later."""
    with pytest.raises(CodecError):
        decode_headers(text)
