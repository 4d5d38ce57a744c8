"""What the child processes have in common: a way to say "ready", and a parent to outlive not."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Coroutine


def say(line: str) -> None:
    """Tell the parent something."""
    print(line, flush=True)


def run(main: Coroutine[None, None, None]) -> None:
    """Run `main` to its end, or until the parent is gone, however it went."""

    async def guarded() -> None:
        task = asyncio.ensure_future(main)
        loop = asyncio.get_running_loop()
        stdin = sys.stdin.fileno()

        def orphaned() -> None:
            loop.remove_reader(stdin)
            task.cancel()

        # The parent never writes to this pipe: it becomes readable when its other end closes.
        loop.add_reader(stdin, orphaned)
        try:
            await task
        except asyncio.CancelledError:
            sys.exit(1)
        finally:
            loop.remove_reader(stdin)

    asyncio.run(guarded())
