"""When a busy writer leaves the lock alone, and when it need not."""

import itertools

import pytest

from alkstore_core.sql.streaks import FREE_SHARE, STREAK_SECONDS, Streak


def pauses(busy, gap, groups):
    """The pauses that are asked for when groups and the gaps between them take so long."""
    streak, now, found = Streak(), 1_000.0, []
    for _ in range(groups):
        pause = streak.pause(now)
        if pause:
            found.append(now)
            now += pause
        now += busy
        streak.end_group(now)
        now += gap
    return found


def test_work_without_a_gap_pauses_once_a_streak():
    """Whoever waits for the lock gets a moment that is as long as its longest wait."""
    found = pauses(0.01, 0.0, 61)
    assert 10 == len(found)
    between = [later - earlier for earlier, later in itertools.pairwise(found)]
    assert between == pytest.approx([STREAK_SECONDS + 0.01 + 0.003] * 9)


@pytest.mark.parametrize(
    ("gap", "pausing"), [(0.9, True), (1.1, False)], ids=["a little less", "a little more"]
)
def test_gaps_are_as_good_as_a_pause(gap, pausing):
    """From a quarter of the time on, others find the lock free often enough."""
    cycle = 0.002
    free = FREE_SHARE * gap * cycle
    assert pausing == bool(pauses(cycle - free, free, 500))


def test_one_long_gap_begins_anew():
    """What came before it does not count."""
    assert [] == pauses(STREAK_SECONDS * 0.9, 0.004, 50)


def test_a_lock_that_others_had_begins_anew():
    """Then the next streak is this one's first."""
    streak = Streak()
    streak.begin(10.0)
    streak.end_group(10.049)
    streak.begin(10.049)
    assert 0.0 == streak.pause(10.051)
    streak.end_group(10.1)
    assert 0.003 == streak.pause(10.1)
