"""Schedules: their grammar, and what registering one does to an earlier one of its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alkstore_contract.expect import expect, expect_equal, expect_raises
from alkstore_contract.properties import prop
from alkstore_core import (
    CodecError,
    DatabaseError,
    InvalidName,
    InvalidSpec,
    ReservedName,
    Schedule,
    ScheduleOpts,
)

if TYPE_CHECKING:
    from alkstore_contract.case import Case
    from alkstore_core import Store

START = 1_700_000_000
MAX = 2**63 - 1


@prop(
    "scheduler.grammar.valid",
    decided="Scheduler/Schedules",
    cases=(
        ("@every 1s", START + 1),
        ("@every 90s", START + 90),
        ("@every 5m", START + 300),
        ("@every 2h", START + 7_200),
        ("@every 1d", START + 86_400),
        ("@every    7s", START + 7),
        ("@every 007s", START + 7),
        ("@every 9223372036854775807s", MAX),
        ("@every 106751991167300d", MAX),
    ),
)
async def grammar_valid(case: Case, given: tuple[str, int]) -> None:
    """`@every <n><unit>` is so many elapsed seconds, and the first boundary is that far away."""
    spec, boundary = given
    store = await case.store()
    schedule = await store.schedule("tick", spec, "work", None)
    expect_equal((schedule.spec, schedule.next_fire_at), (spec, boundary), "spec and boundary")


@prop(
    "scheduler.grammar.invalid",
    decided="Scheduler/Schedules",
    cases=(
        "",
        " ",
        "@every",
        "@every ",
        "@every 5",
        "@every s",
        "@every 0s",
        "@every 00m",
        "@every -1s",
        "@every +1s",
        "@every 1.5s",
        "@every 1e3s",
        "@every 1_000s",
        "@every 1 s",
        " @every 1s",
        "@every 1s ",
        "@every 1s\n",
        "@every\t1s",
        "@every\u00a01s",
        "@every1s",
        "@Every 1s",
        "@every 1S",
        "@every 1w",
        "@every 1ms",
        "@every 1h30m",
        "@every \u0661s",
        "every 1s",
        "* * * * *",
        "@daily",
        "@every 9223372036854775808s",
        "@every 106751991167301d",
        "@every 99999999999999999999999999s",
        None,
        5,
        b"@every 1s",
    ),
)
async def grammar_invalid(case: Case, spec: Any) -> None:
    """Every other spec is `InvalidSpec`, whose message names the grammar; nothing is stored."""
    store = await case.store()
    with expect_raises(InvalidSpec, f"schedule with {spec!r}") as raised:
        await store.schedule("tick", spec, "work", None)
    expect("@every" in str(raised.error), f"the message names no grammar: {raised.error}")
    expect_equal(await store.schedules(), [], "schedules after the refusal")


@prop("scheduler.grammar.kept", decided="Errors")
async def grammar_kept(case: Case) -> None:
    """A refused call leaves an earlier schedule of the name as it was."""
    store = await case.store()
    before = await store.schedule("tick", "@every 10s", "work", 1)
    await case.advance(5)
    with expect_raises(InvalidSpec, "a bad spec"):
        await store.schedule("tick", "@every", "other", 2)
    with expect_raises(CodecError, "a bad payload"):
        await store.schedule("tick", "@every 5s", "other", {1})
    with expect_raises(InvalidName, "a bad queue"):
        await store.schedule("tick", "@every 5s", "", 2)
    with expect_raises(DatabaseError, "a bad number"):
        await store.schedule("tick", "@every 5s", "q", 2, ScheduleOpts(expires=2**63))
    expect_equal(await store.schedules(), [before], "the schedules")


@prop("scheduler.stored", decided="Scheduler/Schedules")
async def stored(case: Case) -> None:
    """`schedule` gives back what every client finds in `schedules`, sorted by name."""
    store, other = await case.store(), await case.store()
    opts = ScheduleOpts(priority=-3, max_attempts=7, expires=60, headers={"a": "b"})
    tock = await store.schedule("tock", "@every 2m", "other", {"n": [1, None]}, opts)
    tick = await store.schedule("tick", "@every 1s", "work", "x")
    expected = Schedule(
        name="tock",
        spec="@every 2m",
        queue="other",
        payload=b'{"n":[1,null]}',
        priority=-3,
        max_attempts=7,
        expires=60,
        headers={"a": "b"},
        next_fire_at=START + 120,
    )
    expect_equal(tock, expected, "what schedule() gave back")
    expect_equal((tick.priority, tick.max_attempts, tick.expires), (0, None, None), "defaults")
    expect_equal(await other.schedules(), [tick, tock], "what another client finds")


@prop("scheduler.same_spec", decided="Scheduler/Schedules")
async def same_spec(case: Case) -> None:
    """Registering with the same spec keeps the rhythm; queue, payload and options are replaced."""
    store = await case.store()
    await store.schedule("tick", "@every 60s", "work", 1, ScheduleOpts(priority=1, expires=5))
    await case.advance(45)
    opts = ScheduleOpts(max_attempts=9, headers={"a": "b"})
    await store.schedule("tick", "@every 60s", "other", 2, opts)
    expected = Schedule(
        name="tick",
        spec="@every 60s",
        queue="other",
        payload=b"2",
        priority=0,
        max_attempts=9,
        expires=None,
        headers={"a": "b"},
        next_fire_at=START + 60,
    )
    expect_equal(await store.schedules(), [expected], "the schedule")


@prop("scheduler.changed_spec", decided="Scheduler/Schedules")
async def changed_spec(case: Case) -> None:
    """Registering with another spec starts the rhythm anew at now."""
    store = await case.store()
    await store.schedule("tick", "@every 60s", "work", 1)
    await case.advance(45)
    longer = await store.schedule("tick", "@every 90s", "work", 1)
    expect_equal(longer.next_fire_at, START + 45 + 90, "the boundary of a longer interval")
    shorter = await store.schedule("tick", "@every 5s", "work", 1)
    expect_equal(shorter.next_fire_at, START + 45 + 5, "the boundary of a shorter interval")
    expect_equal(await store.schedules(), [shorter], "the schedules")


@prop("scheduler.unschedule", decided="Scheduler/Schedules")
async def unschedule(case: Case) -> None:
    """`unschedule` tells whether there was a schedule, and there is none afterwards."""
    store, other = await case.store(), await case.store()
    await store.schedule("tick", "@every 60s", "work", 1)
    kept = await store.schedule("Tick", "@every 60s", "work", 1)
    expect_equal(await other.unschedule("tick"), True, "of a schedule")
    expect_equal(await store.unschedule("tick"), False, "of one that is gone")
    expect_equal(await store.unschedule("never was"), False, "of one that never was")
    expect_equal(await store.schedules(), [kept], "the schedules that are left")


@prop(
    "scheduler.target",
    decided="Scheduler/Schedules",
    cases=(
        ("", InvalidName),
        (" \t", InvalidName),
        ("a\0b", InvalidName),
        ("a" * 256, InvalidName),
        ("__alkstore_", ReservedName),
        ("__alkstore_anything", ReservedName),
    ),
)
async def target(case: Case, given: tuple[str, type[Exception]]) -> None:
    """The queue that a schedule aims at is checked when it is registered, as every queue's name."""
    name, error = given
    store = await case.store()
    with expect_raises(error, f"schedule into {name!r}"):
        await store.schedule("tick", "@every 1s", name, 1)
    expect_equal(await store.schedules(), [], "schedules after the refusal")


@prop("scheduler.no_runner", decided="Scheduler/Running")
async def no_runner(case: Case) -> None:
    """Nothing fires while nobody runs schedules, however much time passes."""
    store = await case.store()
    schedule = await store.schedule("tick", "@every 1s", "work", 1)
    await case.advance(1_000)
    await _use(store)
    expect_equal(await store.queue("work").jobs(), [], "jobs of a schedule without a runner")
    expect_equal(await store.schedules(), [schedule], "the schedule")


async def _use(store: Store) -> None:
    await store.queue("work").claim_one("worker")
    await store.queue("work").sweep_expired()
    await store.outbox("letters").enqueue(1)
