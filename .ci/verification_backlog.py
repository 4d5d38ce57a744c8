"""What the specification wants verified on every engine, and which properties do it."""

from __future__ import annotations

from typing import Final

from attrs import frozen


@frozen(kw_only=True)
class Item:
    """One entry of the specification's verification backlog."""

    wanted: str
    """What is to be shown, in our words."""

    shown_by: tuple[str, ...]
    """The ids of the properties that show it; a last `.` takes all that begin so."""


BACKLOG: Final = (
    Item(
        wanted="A named lock lapses and can be acquired again; acquiring it anew as its owner does "
        "not move the deadline",
        shown_by=("locks.acquire.", "locks.same_owner.", "locks.renew.", "locks.release."),
    ),
    Item(
        wanted="Wakes name their channel, merge, follow the commit and are never missed",
        shown_by=("notify.", "receivers.level", "receivers.attached", "processes.wakes."),
    ),
    Item(
        wanted="`save_offset_tx` with a business write in one transaction is exactly once",
        shown_by=("streams.save.exactly_once", "streams.save.tx", "joins.commit", "joins.rollback"),
    ),
    Item(
        wanted="Losers of a lock that many want at once get a value, not an error",
        shown_by=("locks.acquire.one_winner", "locks.race", "processes.locks"),
    ),
    Item(
        wanted="The scheduler leads, catches up, skips and loses its leadership alike; claims "
        "lapse, jobs die and sweeps leave nothing behind alike",
        shown_by=(
            "scheduler.fire.",
            "scheduler.catch_up",
            "scheduler.catch_up.",
            "scheduler.takeover",
            "scheduler.two_runners",
            "scheduler.lost",
            "queues.claim.lapsed",
            "queues.claim.exhausted",
            "queues.dead.",
            "queues.sweep.",
        ),
    ),
    Item(
        wanted="Backoff and the resolution of stamps come out the same on every engine",
        shown_by=("queues.backoff.", "queues.stamps.", "queues.enqueue.resolved"),
    ),
    Item(
        wanted="A job's handle is valid while its own claim lives: late, lost and raced calls are "
        "refused, singly and in batches, and the texts of dead jobs are given",
        shown_by=(
            "queues.ack.",
            "queues.ack_batch.",
            "queues.retry.",
            "queues.fail.",
            "queues.heartbeat.",
            "queues.release.",
            "queues.claim.exhausted",
        ),
    ),
    Item(
        wanted="`outbox_enqueue_tx` commits with its transaction, checks names and stamps alike",
        shown_by=("outbox.tx.", "outbox.stamps"),
    ),
    Item(
        wanted="Events are read in one order, by whichever way, keys and fields intact",
        shown_by=(
            "streams.order",
            "streams.offsets.",
            "streams.publish.",
            "streams.read.",
            "streams.subscribe.",
        ),
    ),
    Item(
        wanted="`publish_with_key_tx` commits with its transaction and checks its key",
        shown_by=(
            "streams.publish.key_refused",
            "streams.subscribe.tx",
            "transactions.publish.headers",
            "transactions.rollback",
            "names.empty_tx",
        ),
    ),
    Item(
        wanted="`PayloadTooLarge` occurs where the engine has a limit, and nowhere else",
        shown_by=("notify.payload.limit", "notify.payload.tx"),
    ),
    Item(
        wanted="`trim_to` deletes up to its horizon, renumbers nothing and loses no reader",
        shown_by=("streams.trim.",),
    ),
    Item(
        wanted="Saved offsets never go back, whichever form saves them",
        shown_by=("streams.save.",),
    ),
    Item(
        wanted="Payloads are stored as the same bytes and read back as equal values",
        shown_by=("payloads.bytes", "payloads.claimed", "payloads.carried", "payloads.as_mismatch"),
    ),
    Item(
        wanted="Options of an enqueue and of a schedule resolve alike, with and without a handle",
        shown_by=(
            "queues.enqueue.",
            "queues.stamps.tx",
            "scheduler.fire.stamps",
            "transactions.enqueue.",
            "outbox.options",
        ),
    ),
    Item(
        wanted="A transaction reads its own writes; nobody else does before the commit",
        shown_by=("transactions.own.", "transactions.invisible", "transactions.rollback"),
    ),
    Item(
        wanted="A handle that is dropped rolls back and is in nobody's way",
        shown_by=("transactions.dropped", "transactions.dropped.", "transactions.block_left"),
    ),
    Item(
        wanted="The queue of a schedule is checked when it is registered",
        shown_by=("scheduler.target", "names.target"),
    ),
    Item(
        wanted="Receivers end, go on or raise as the engine says, and saves never go back",
        shown_by=(
            "receivers.",
            "errors.family",
            "lifecycle.close.receivers",
            "streams.save.monotone",
        ),
    ),
    Item(
        wanted="Extents clamp to nothing, durations are refused, boundaries are total",
        shown_by=("numbers.",),
    ),
    Item(
        wanted="What cannot be encoded is `CodecError`, and nothing is stored in its place",
        shown_by=("payloads.refused", "payloads.refused_tx", "queues.enqueue.refused"),
    ),
    Item(
        wanted="The path of a SQLite file is a path, whatever characters it has: the harness of "
        "that engine keeps its file under a name that reads like a URI's query",
        shown_by=("durability.", "lifecycle.open.together", "processes.first_open"),
    ),
    Item(
        wanted="SQLite's watcher wakes by its poll interval; that the option sets it is tested "
        "with that engine",
        shown_by=("notify.wakes", "processes.wakes.", "queues.wakes.enqueue"),
    ),
)


def ids_of(item: Item, known: list[str]) -> list[str]:
    """The ids that an item means, out of those there are, in order.

    Raises:
        LookupError: something that it names is not there.

    """
    found: dict[str, None] = {}
    for part in item.shown_by:
        named = [id_ for id_ in known if id_ == part or (part[-1] == "." and id_.startswith(part))]
        if not named:
            raise LookupError(f"no property {part!r} shows {item.wanted!r}")
        found.update(dict.fromkeys(named))
    return list(found)
