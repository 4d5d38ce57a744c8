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
        streak.take(now)
        now += busy
        streak.give(now)
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


def test_a_lock_that_others_had_for_long_begins_anew():
    """Then the next streak is this one's first."""
    streak = Streak()
    streak.take(10.0)
    streak.give(10.04)
    streak.take(10.05)
    streak.give(10.09)
    assert 0.0 == streak.pause(10.09)


def test_all_who_share_a_streak_wait_together():
    """The pause of one is not for the others of its process, whoever of them asks, and when."""
    streak = Streak()
    streak.take(10.0)
    streak.give(10.06)

    assert [0.003, 0.001, 0.0] == pytest.approx([streak.pause(t) for t in (10.06, 10.062, 10.064)])


def test_what_may_not_be_free_yet_is_left_alone_from_the_next_try_on():
    """Its COMMIT may take as long as it likes; when it is through the pause begins again."""
    streak = Streak()
    streak.take(10.0)
    streak.give(10.06, surely=False)
    assert 0.003 == pytest.approx(streak.pause(10.08))
    streak.give(10.082)
    assert 0.003 == pytest.approx(streak.pause(10.082))
    assert 0.0 == streak.pause(10.086)


def test_a_commit_that_nobody_saw_the_end_of_is_no_gap():
    """Unless it would have taken longer than a streak."""
    for gap, pause in ((0.02, 0.003), (0.06, 0.0)):
        streak = Streak()
        streak.take(10.0)
        streak.give(10.03, surely=False)
        streak.take(10.03 + gap)
        streak.give(10.06 + gap)
        assert pause == pytest.approx(streak.pause(10.06 + gap))
