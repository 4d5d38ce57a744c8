"""What the primitives stand on, in a transaction and out of one."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from alkstore_core.spi import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alkstore_core.spi import Topic
    from dictstore.data import Data


class Part(Session):
    """Some of the primitives of a session.

    A primitive first awaits `view` or `change`, and then nothing more. So whatever it does
    happens at one moment, and a call that is cancelled has done everything or nothing. It reads
    the time once, after that wait.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self.now = now

    @abstractmethod
    async def view(self) -> Data:
        """What this session sees."""

    @abstractmethod
    async def change(self, *, urgent: bool = False) -> Data:
        """What this session may change, once it is its turn; urgent calls go first."""

    @abstractmethod
    def wake(self, topics: Sequence[Topic]) -> None:
        """Wake the receivers of `topics`, or remember to at the commit."""
