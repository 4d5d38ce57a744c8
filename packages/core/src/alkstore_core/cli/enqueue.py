"""`enqueue`: jobs by hand, or out of a pipe."""

from __future__ import annotations

import itertools
import shlex
import sys
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click

from alkstore_core import CodecError, EnqueueOpts, QueueOpts, decode_payload, encode_payload
from alkstore_core.cli.ending import interrupted_at_once
from alkstore_core.cli.opening import opened, run
from alkstore_core.cli.output import emit
from alkstore_core.cli.params import (
    I64,
    LIMIT,
    Moment,
    Seconds,
    header_option,
    json_option,
    outbox_option,
    typed_payload,
    url_option,
)
from alkstore_core.cli.statuses import WRITTEN_WRONG, Refused, say

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence

    from alkstore_core import Store

BATCH: Final = 1000


@click.command(short_help="Put a job into a queue or an outbox.")
@click.argument("queue")
@click.argument("payload", required=False)
@click.option("--lines", is_flag=True, help="A payload on each line of standard input.")
@click.option(
    "--batch",
    type=LIMIT,
    default=BATCH,
    show_default=True,
    help="Lines of one transaction.",
)
@click.option("--delay", type=Seconds(), help="Not before so long from now: 90, 15m, 2h, 7d.")
@click.option("--run-at", type=Moment(), help="Not before: unix seconds or ISO 8601.")
@click.option("--priority", type=I64, default=0, show_default=True, help="Higher is first.")
@click.option("--max-attempts", type=I64, metavar="N", help="Dead after so many.")
@click.option("--expires", type=Seconds(), help="Not any more so long from now.")
@header_option
@click.option("--visibility-timeout", type=Seconds(least=1), help="How long a claim lasts.")
@click.option("--backoff", type=Seconds(), help="The first pause before another attempt.")
@click.option("--retention", type=Seconds(), help="How long it is kept once it is dead.")
@outbox_option
@click.option("--create", is_flag=True, help="Make the database's file if there is none.")
@json_option
@url_option
def enqueue(
    queue: str,
    payload: str | None,
    url: str | None,
    batch: int,
    headers: Sequence[tuple[str, str]],
    visibility_timeout: int | None,
    backoff: int | None,
    retention: int | None,
    *,
    lines: bool,
    outbox: bool,
    create: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Put a job with PAYLOAD, which is JSON, into QUEUE, and print its id.

    PAYLOAD - is standard input, as one payload. Without --visibility-timeout, --backoff and
    --retention the library's defaults are stamped on the job, and not what your application
    sets. With --lines each batch is one transaction, and its ids are printed once it has
    committed.
    """
    if options["delay"] is not None and options["run_at"] is not None:
        raise click.UsageError("say when: --delay, or --run-at")
    opts = EnqueueOpts(headers=dict(headers) or None, **options)
    stamps = {
        "visibility_timeout_s": visibility_timeout,
        "backoff_base_s": backoff,
        "dead_letter_retention_s": retention,
    }
    given = {name: value for name, value in stamps.items() if value is not None}
    if outbox and given:
        raise click.UsageError("messages of an outbox have stamps of their own")
    if lines == (payload is not None):
        raise click.UsageError("give one PAYLOAD, or - for standard input, or --lines")
    payloads: Iterable[tuple[int, Any]]
    if payload is not None:
        # Read before anything is opened: nobody's writer is to wait for a person who types.
        data = _all_of_stdin() if payload == "-" else payload.encode(errors="surrogateescape")
        payloads = [(0, typed_payload(data))]
    else:
        payloads = _parsed(_stdin())
    work = _enqueue(
        url, queue, payloads, batch, opts, given, outbox=outbox, create=create, as_json=as_json
    )
    with interrupted_at_once():
        run(work)


def _stdin() -> BinaryIO:
    if sys.stdin is None:
        raise click.UsageError("standard input is closed, so there is no payload to read")
    return sys.stdin.buffer


def _all_of_stdin() -> bytes:
    try:
        return _stdin().read()
    except OSError as error:
        raise Refused(f"standard input cannot be read: {error.strerror}") from error


def _parsed(lines: BinaryIO) -> Iterator[tuple[int, Any]]:
    """Payloads with the numbers of their lines."""
    for number in itertools.count(1):
        try:
            line = lines.readline()
        except OSError as error:
            raise Refused(f"standard input cannot be read: {error.strerror}") from error
        if not line:
            return
        if line.strip():
            try:
                payload = decode_payload(line)
                # Not all that can be read can be stored, and later its line is not known.
                encode_payload(payload)
            except CodecError as error:
                raise CodecError(f"line {number}: {error}") from None
            yield number, payload


class _Account:
    """What is in, for whoever has to be told when it ends early."""

    def __init__(self, look: str) -> None:
        self._look = look
        self._done = 0
        self._last = (0, 0)
        self._open: Sequence[int] = ()

    def begins(self, lines: Sequence[int]) -> None:
        """The payloads of these lines are on their way, and may be in from now on."""
        self._open = lines

    def refused(self) -> None:
        """None of those on their way is in."""
        self._open = ()

    def ends(self, ids: Sequence[int]) -> None:
        """Those on their way are in."""
        self._done += len(ids)
        self._last = (self._open[-1], ids[-1])
        self._open = ()

    def told(self) -> str:
        """All of it in a sentence."""
        line, number = self._last
        text = "nothing was enqueued"
        if self._done:
            up_to = f", those up to line {line}, the last one with id {number}" if line else ""
            text = f"{_jobs(self._done)} in{up_to or f', with id {number}'}"
        if self._open:
            first, last = self._open[0], self._open[-1]
            which = f"the next {len(self._open)} (lines {first}-{last})" if first else "the job"
            text = f"{text}; " if self._done else ""
            text += f"whether {which} got in is not known, see: {self._look}"
            return f"{text}; the later ones are not in" if first else text
        return f"{text}; the later ones are not in" if line else text


def _jobs(number: int) -> str:
    return "1 job is" if number == 1 else f"{number} jobs are"


async def _enqueue(
    url: str | None,
    name: str,
    payloads: Iterable[tuple[int, Any]],
    batch: int,
    opts: EnqueueOpts,
    stamps: dict[str, int],
    *,
    outbox: bool,
    create: bool,
    as_json: bool,
) -> None:
    account = _Account(shlex.join(["alkstore", "jobs", *["--outbox"][:outbox], "--", name]))
    try:
        async with opened(url, create=create) as store:
            put = (
                _into_outbox(store, name, opts)
                if outbox
                else _into_queue(store, name, opts, stamps)
            )
            rest = iter(payloads)
            while chunk := [*itertools.islice(rest, batch)]:
                account.begins([line for line, _ in chunk])
                try:
                    ids = await put([payload for _, payload in chunk])
                except WRITTEN_WRONG:
                    account.refused()
                    raise
                account.ends(ids)
                for number in ids:
                    if as_json:
                        emit({"id": number})
                    else:
                        click.echo(str(number))
    except BaseException:
        # Also an interruption, and whoever has left or takes no more.
        say(account.told())
        raise


def _into_queue(
    store: Store, name: str, opts: EnqueueOpts, stamps: dict[str, int]
) -> Callable[[list[Any]], Coroutine[Any, Any, list[int]]]:
    queue = store.queue(name, QueueOpts(**stamps))
    return lambda payloads: queue.enqueue_many(payloads, opts)


def _into_outbox(
    store: Store, name: str, opts: EnqueueOpts
) -> Callable[[list[Any]], Coroutine[Any, Any, list[int]]]:
    store.outbox(name)

    async def put(payloads: list[Any]) -> list[int]:
        async with store.transaction() as tx:
            return [await tx.outbox_enqueue_tx(name, payload, opts) for payload in payloads]

    return put
