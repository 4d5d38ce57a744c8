"""`listen`: the wakes of a channel, as they come."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import click

from alkstore_core.cli.amounts import stamp
from alkstore_core.cli.ending import run_until_told
from alkstore_core.cli.escaping import shown
from alkstore_core.cli.opening import opened
from alkstore_core.cli.output import emit
from alkstore_core.cli.params import Integer, Seconds, json_option, url_option
from alkstore_core.cli.statuses import Refused, say

if TYPE_CHECKING:
    from collections.abc import Awaitable


@click.command(short_help="Print a line for each wake of a channel.")
@click.argument("channel")
@click.option("--count", type=Integer(1), metavar="N", help="End after so many wakes.")
@click.option("--timeout", type=Seconds(), help="End after so long, with status 1.")
@json_option
@url_option
def listen(
    channel: str, url: str | None, count: int | None, timeout: int | None, *, as_json: bool
) -> None:
    """Print a line for each wake of CHANNEL, until ctrl-C.

    A wake says "read again", and carries nothing; several notifications may make one. One whose
    channel is `__alkstore_listener_reconnected__` follows a lost connection.
    """
    try:
        run_until_told(lambda _: _within(_listen(url, channel, count, as_json=as_json), timeout))
    except TimeoutError:
        raise Refused(f"the timeout of {timeout} s is over") from None


async def _within(listening: Awaitable[None], seconds: int | None) -> None:
    async with asyncio.timeout(seconds):
        await listening


async def _listen(url: str | None, channel: str, count: int | None, *, as_json: bool) -> None:
    async with opened(url) as store, store.listen(channel) as wakes:
        say(f"listening to {channel!r}")
        seen = 0
        async for wake in wakes:
            now = int(time.time())
            if as_json:
                emit({"at": now, "channel": wake.channel})
            else:
                click.echo(f"{stamp(now)}  {shown(wake.channel)}")
            seen += 1
            if seen == count:
                return
