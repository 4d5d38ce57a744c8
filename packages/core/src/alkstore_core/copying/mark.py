"""The mark that a target carries while it is not whole: whose copy it is, and how far."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from attrs import evolve, frozen

from alkstore_core.errors import CodecError, CopyRefused
from alkstore_core.integers import I64_MAX
from alkstore_core.names import RESERVED_PREFIX
from alkstore_core.opentx import begin, spent
from alkstore_core.payload import structure
from alkstore_core.runtime import quietly
from alkstore_core.spi import Record

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from alkstore_core.runtime import Runtime
    from alkstore_core.spi import Session

MARK: Final = RESERVED_PREFIX + "copy"
"""The name of a schedule that never fires: the one row of free form that every engine has, and
whose compare-and-set keeps two copies into one target apart."""


@frozen(kw_only=True)
class Mark:
    """`source` is the digest of what is being copied; `last` and `counts` say how far it is."""

    source: str
    step: int = 0
    last: dict[str, int]
    counts: dict[str, int]

    @property
    def next_fire_at(self) -> int:
        """Another one for each step, and as good as never."""
        return I64_MAX - self.step

    def record(self) -> Record:
        """The mark as it is stored."""
        told = {"source": self.source, "step": self.step, "last": self.last, "counts": self.counts}
        return Record(
            (MARK,),
            {
                "name": MARK,
                "spec": "@every 1d",
                "queue": MARK,
                "payload": json.dumps(told, separators=(",", ":")).encode(),
                "priority": 0,
                "max_attempts": None,
                "expires": None,
                "headers": None,
                "next_fire_at": self.next_fire_at,
            },
        )


async def read_mark(session: Session) -> Mark | None:
    """The mark of a database, if it carries one.

    Raises:
        CopyRefused: it is one of another version.

    """
    for schedule in await session.list_schedules():
        if schedule.name == MARK:
            try:
                return structure(schedule.payload, Mark)
            except CodecError as error:
                raise CopyRefused(
                    f"the mark {MARK!r} of an unfinished copy is not one of this version's; "
                    "start with an empty target"
                ) from error
    return None


class Marked:
    """A target under copy: each change moves the mark in the same transaction."""

    def __init__(self, runtime: Runtime, mark: Mark) -> None:
        self._runtime = runtime
        self.mark: Mark = mark

    async def begin(self, check: Callable[[Session], Awaitable[None]]) -> None:
        """Put the first mark into a target that `check` finds empty."""

        async def put(session: Session) -> None:
            if await read_mark(session) is not None:
                raise CopyRefused(_ANOTHER)
            await check(session)
            await session.load("schedules", [self.mark.record()])

        await self._change(put)

    async def advance(
        self,
        work: Callable[[Session], Awaitable[None]],
        last: dict[str, int],
        count: dict[str, int],
    ) -> None:
        """Do `work` and move the mark, both or neither; `last` and `count` join what is there.

        Raises:
            CopyRefused: somebody else has moved the mark.

        """
        following = evolve(
            self.mark,
            step=self.mark.step + 1,
            last={**self.mark.last, **last},
            counts={**self.mark.counts, **count},
        )

        async def step(session: Session) -> None:
            await self._hold(session, following.next_fire_at)
            await work(session)
            await session.load("schedules", [following.record()])

        await self._change(step)
        self.mark = following

    async def end(self) -> None:
        """The target is whole: the mark is gone."""

        async def remove(session: Session) -> None:
            await self._hold(session, I64_MAX - self.mark.step - 1)
            await session.delete_schedule(MARK)

        await self._change(remove)

    async def _hold(self, session: Session, next_fire_at: int) -> None:
        if not await session.advance(MARK, self.mark.next_fire_at, next_fire_at):
            raise CopyRefused(_ANOTHER)

    async def _change(self, work: Callable[[Session], Awaitable[None]]) -> None:
        tx = await begin(self._runtime)
        try:
            async with tx as session:
                await work(session)
            await tx.commit()
        except BaseException:
            await quietly(tx.end(spent("rolled back, because a step of the copy failed")))
            raise


_ANOTHER = (
    "another copy into this target is under way; let it end, then call again: "
    "a copy that is whole is only verified"
)
