"""Where jobs come from: two queues and an outbox, through any store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from alkstore_contract.machine.compare import OUTBOX_PREFIX, RESERVED, expected
from alkstore_contract.model.jobs import OUTBOX, PLAIN, Options, Stamps
from alkstore_contract.model.numbers import LAST
from alkstore_core import EnqueueOpts, QueueOpts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alkstore_core import Store

QUEUES = ("work", "mail")
OUTBOXES = ("letters",)
NAMES = (*QUEUES, *(OUTBOX_PREFIX + name for name in OUTBOXES))
WORKERS = ("ann", "bob")

STAMPS = (
    PLAIN,
    Stamps(visibility=10, attempts=2, backoff=4, retention=20),
    Stamps(visibility=1, attempts=1, backoff=0, retention=0),
    Stamps(visibility=60, attempts=0, backoff=2000, retention=None),
)

names: st.SearchStrategy[int] = st.integers(0, len(NAMES) - 1)
queues: st.SearchStrategy[int] = st.integers(0, len(QUEUES) - 1)
workers: st.SearchStrategy[int] = st.integers(0, len(WORKERS) - 1)
stamps: st.SearchStrategy[int] = st.integers(0, len(STAMPS) - 1)

_relative = st.sampled_from([None, None, None, 5, 10, 0, -5, 100, LAST])

options: st.SearchStrategy[Options] = st.builds(
    Options,
    delay=_relative,
    run_at=st.sampled_from([None, None, 1_700_000_005, 1_699_999_999, 0, LAST]),
    priority=st.sampled_from([0, 0, 0, 1, -1, 7, LAST]),
    max_attempts=st.sampled_from([None, None, 1, 2, -3]),
    expires=st.sampled_from([None, None, None, 8, 30, 0, LAST]),
    headers=st.sampled_from([None, None, {"trace": "é"}]),
)
plain_options: st.SearchStrategy[Options] = st.just(Options())
some_options: st.SearchStrategy[Options] = st.one_of(plain_options, plain_options, options)

NONSENSE = float("nan")
"""What is no JSON: refused, and then nothing has been written."""

_json = (None, 1, "letter", {"a": [1, 2]}, "NUL \0 and é")
payloads: st.SearchStrategy[Any] = st.sampled_from([*_json, *_json, NONSENSE])


def sound(payloads: Iterable[object]) -> bool:
    """Whether all of them can be stored."""
    return all(payload is not NONSENSE for payload in payloads)


def encoded(payload: object) -> bytes:
    """The bytes that are stored: compact JSON."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()


def enqueue_opts(given: Options) -> EnqueueOpts | None:
    """The options as the store takes them; default ones are left out."""
    if given == Options():
        return None
    return EnqueueOpts(
        delay=given.delay,
        run_at=given.run_at,
        priority=given.priority,
        max_attempts=given.max_attempts,
        expires=given.expires,
        headers=given.headers,
    )


def told(given: Options) -> str:
    """The options that were given, as arguments."""
    default = Options()
    fields = ("delay", "run_at", "priority", "max_attempts", "expires", "headers")
    values = {name: getattr(given, name) for name in fields}
    return "".join(
        f", {name}={value!r}" for name, value in values.items() if value != getattr(default, name)
    )


def is_outbox(name: str) -> bool:
    """Whether the model's name of a queue means an outbox."""
    return name.startswith(OUTBOX_PREFIX)


def stamps_of(name: str, number: int) -> Stamps:
    """What jobs of this queue get: an outbox has no options of its own."""
    return OUTBOX if is_outbox(name) else STAMPS[number]


def producer(store: Store, name: str, number: int) -> Any:
    """Where jobs are enqueued."""
    if is_outbox(name):
        return store.outbox(name.removeprefix(OUTBOX_PREFIX))
    stamp = STAMPS[number]
    if stamp == PLAIN:
        return store.queue(name)
    return store.queue(
        name,
        QueueOpts(
            visibility_timeout_s=stamp.visibility,
            max_attempts=stamp.attempts,
            backoff_base_s=stamp.backoff,
            dead_letter_retention_s=stamp.retention,
        ),
    )


def source(store: Store, name: str) -> Any:
    """Where jobs are claimed and looked at."""
    if is_outbox(name):
        return store.outbox(name.removeprefix(OUTBOX_PREFIX)).backing
    return store.queue(name)


def check_id(id_: Any, used: set[int]) -> int:
    """An id that was given is a number above 0, and never that of another job."""
    expected(type(id_), int, "type of the id")
    expected(id_ > 0 and id_ not in used, True, f"id {id_} is new and above 0")
    return int(id_)


def reserved(name: str) -> bool:
    """Whether a name belongs to the library."""
    return name.startswith(RESERVED)
