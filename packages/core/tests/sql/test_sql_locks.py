"""Locks: who holds them, for how long, under which token."""

from alkstore_core import LockInfo
from alkstore_core.sql import locks

FOREVER = 2**63 - 1


def test_one_owner_at_a_time(db):
    """A free lock is taken, a held one is not; another name is another lock."""
    token = db(locks.acquire, "l", "a", 60)
    assert None is db(locks.acquire, "l", "b", 60)
    assert db(locks.acquire, "m", "b", 60) > token


def test_the_owner_gets_its_token_again_without_refresh(db):
    """Asking for a lock one holds changes nothing."""
    token = db(locks.acquire, "l", "a", 60)
    db.now = 1_050
    assert token == db(locks.acquire, "l", "a", 60)
    db.now = 1_061
    assert token < db(locks.acquire, "l", "b", 60)


def test_a_lease_lasts_through_its_last_second(db):
    """While now is the deadline the lock is held; a second later it is free."""
    token = db(locks.acquire, "l", "a", 60)
    db.now = 1_060
    assert db(locks.holds, "l", token)
    assert None is db(locks.acquire, "l", "b", 60)
    db.now = 1_061
    assert not db(locks.holds, "l", token)
    assert token < db(locks.acquire, "l", "b", 60)


def test_tokens_only_grow(db):
    """No token is given twice: not after a release, a lapse or the last lock's end."""
    tokens = [db(locks.acquire, "l", "a", 60)]
    assert db(locks.release_lock, "l", tokens[-1])
    tokens.append(db(locks.acquire, "l", "a", 60))
    db.now = 1_061
    tokens.append(db(locks.acquire, "l", "a", 60))
    tokens.append(db(locks.acquire, "m", "a", 60))
    db.connection.exec_driver_sql("DELETE FROM __alkstore_locks")
    tokens.append(db(locks.acquire, "l", "a", 60))
    assert sorted(set(tokens)) == tokens


def test_the_same_owner_after_a_lapse_holds_another_lease(db):
    """An old handle stays old, also when its owner's name holds the lock anew."""
    old = db(locks.acquire, "l", "a", 60)
    db.now = 1_061
    new = db(locks.acquire, "l", "a", 60)
    assert not db(locks.renew, "l", old, 60)
    assert not db(locks.release_lock, "l", old)
    assert not db(locks.holds, "l", old)
    assert db(locks.renew, "l", new, 60)


def test_renew_counts_from_now(db):
    """A live lease ends `ttl` from now; a lapsed one stays lapsed."""
    token = db(locks.acquire, "l", "a", 60)
    db.now = 1_060
    assert db(locks.renew, "l", token, 5)
    db.now = 1_065
    assert db(locks.holds, "l", token)
    db.now = 1_066
    assert not db(locks.renew, "l", token, 60)
    assert not db(locks.renew, "m", token, 60)


def test_release_frees_a_live_lease_only(db):
    """What was released is free; what lapsed is nobody's to release."""
    token = db(locks.acquire, "l", "a", 60)
    assert db(locks.release_lock, "l", token)
    assert not db(locks.release_lock, "l", token)
    token = db(locks.acquire, "l", "b", 60)
    db.now = 1_061
    assert not db(locks.release_lock, "l", token)


def test_a_lease_may_last_for_ever(db):
    """A deadline beyond the last second is the last second."""
    token = db(locks.acquire, "l", "a", FOREVER)
    expected = [LockInfo(name="l", owner="a", token=token, expires_at=FOREVER)]
    assert expected == db(locks.list_locks)
    assert db(locks.renew, "l", token, FOREVER)
    assert expected == db(locks.list_locks)


def test_live_leases_by_name(db):
    """The list shows who holds what now."""
    db(locks.acquire, "c", "a", 5)
    b = db(locks.acquire, "b", "x", 60)
    a = db(locks.acquire, "a", "y", 60)
    db.now = 1_006
    expected = [
        LockInfo(name="a", owner="y", token=a, expires_at=1_060),
        LockInfo(name="b", owner="x", token=b, expires_at=1_060),
    ]
    assert expected == db(locks.list_locks)
