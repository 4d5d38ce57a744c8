"""Questions to the person before what cannot be undone, and names that are not there."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import click

from alkstore_core.cli.statuses import Refused, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alkstore_core import Store


def ask(question: str, *, yes: bool) -> None:
    """Go on if the person says so, or has said so.

    Raises:
        Refused: they do not, or nobody is there to ask.

    """
    if yes:
        return
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        click.echo(err=True)
        agreed = False
    if not agreed:
        raise Refused("nothing was done, since nobody said yes (--yes is not to ask)")


async def mention_absence(store: Store, kind: str, name: str) -> bool:
    """Say so when nothing is stored under a name: it may be mistyped as well as empty."""
    names = {"queue": store.queues, "outbox": store.outboxes, "stream": store.streams}
    known = await names[kind]()
    if name in known:
        return False
    if kind == "queue" and name in await store.outboxes():
        say(f"no queue {name!r} holds a job, but an outbox of that name does: add --outbox")
    elif kind == "outbox" and name in await store.queues():
        say(f"no outbox {name!r} holds a message, but a queue of that name does: omit --outbox")
    else:
        say(absence(kind, name, known))
    return True


def absence(kind: str, name: str, known: Sequence[str]) -> str:
    """The sentence about a name that nothing is stored under."""
    what = {"queue": "a job", "outbox": "a message", "stream": "an event or an offset"}[kind]
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"no {kind} {name!r} holds {what}; did you mean {near[0]!r}?"
    if not known:
        return f"no {kind} {name!r} holds {what}, and no other one does"
    listed = ", ".join(map(repr, known[:10])) + (", …" if len(known) > 10 else "")  # noqa: PLR2004
    return f"no {kind} {name!r} holds {what}; those that do: {listed}"
