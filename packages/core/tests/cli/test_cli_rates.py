"""What is said of the time between two looks is true."""

import pytest
from attrs import evolve

from alkstore_core import QueueStats, StreamBounds
from alkstore_core.cli.amounts import age, rate
from alkstore_core.cli.looks import Look, Rates
from alkstore_core.overview import ConsumerOverview, Overview, QueueOverview, StreamOverview

STATS = QueueStats(
    ready=10, delayed=1, processing=2, lapsed=3, expired=4, dead=5, oldest_ready_age_s=None
)
QUEUE = QueueOverview(name="q", kind="queue", stats=STATS)
READER = ConsumerOverview(name="c", offset=2, lag=8)
STREAM = StreamOverview(
    name="s", bounds=StreamBounds(first=1, last=90, count=10), consumers=(READER,)
)


def looked(mark, *, queues=(QUEUE,), streams=(STREAM,)):
    """A look at some second."""
    seen = Overview(at=1_000, queues=queues, streams=streams, locks=(), schedules=())
    return Look(seen=seen, mark=mark, took=0.0)


def rates(**after):
    """What two looks that lie two seconds apart tell."""
    return Rates(looked(5.0), looked(7.0, **after))


def test_the_backlog_is_all_that_is_not_dead():
    """A job that moves from one live state to another changes nothing, one that dies does."""
    stats = evolve(STATS, ready=4, delayed=7, processing=1, dead=6)
    queue = evolve(QUEUE, stats=stats)

    assert (-0.5, 0.5) == (rates().backlog(queue), rates().dead(queue))


def test_a_queue_that_was_not_there_has_no_rate():
    """Also an outbox of the name of a queue."""
    assert rates().backlog(evolve(QUEUE, name="new")) is None
    assert rates().dead(evolve(QUEUE, kind="outbox")) is None


@pytest.mark.parametrize(
    ("bounds", "per_s"),
    [
        (StreamBounds(first=1, last=400, count=14), 2.0),
        (StreamBounds(first=1, last=90, count=10), 0.0),
        (StreamBounds(first=50, last=400, count=14), None),
        (StreamBounds(first=0, last=0, count=0), None),
    ],
)
def test_events_are_counted_and_not_offsets(bounds, per_s):
    """Offsets have gaps; and of a stream that was trimmed meanwhile nobody can tell."""
    assert per_s == rates().events(evolve(STREAM, bounds=bounds))


def test_a_lag_changes():
    """By consumer; one that was not there has no rate."""
    consumer = evolve(READER, lag=2)

    assert -3.0 == rates().lag(STREAM, consumer)
    assert rates().lag(STREAM, evolve(consumer, name="new")) is None
    assert rates().lag(evolve(STREAM, name="new"), consumer) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0, "0s"), (59, "59s"), (300, "5m"), (3_725, "1h2m"), (2 * 86_400 + 60, "2d")],
)
def test_ages(seconds, text):
    """Two units, the second left out when there is none of it."""
    assert text == age(seconds)


@pytest.mark.parametrize(
    ("per_second", "text"),
    [(None, "-"), (0.01, "0"), (1.26, "+1.3"), (-2.0, "-2.0"), (-1234.5, "-1,234")],
)
def test_rates_have_a_sign(per_second, text):
    """Growing and shrinking look different."""
    assert text == rate(per_second).plain
