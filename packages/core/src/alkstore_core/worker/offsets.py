"""How far a consumer has come, and how much of that its stream knows."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from alkstore_core.errors import AlkstoreError, DatabaseError
from alkstore_core.worker.alarm import Alarm

if TYPE_CHECKING:
    from alkstore_core.store import Store
    from alkstore_core.streams import StreamHandle
    from alkstore_core.worker.logs import Events

_log = logging.getLogger(__name__)

SAVE_EVERY: Final = 100
SAVE_AFTER_S: Final = 1.0


class Offsets:
    """Remembers what was handled, and saves it each hundred events or a second after."""

    def __init__(
        self, store: Store, stream: StreamHandle, name: str, label: str, event: Events
    ) -> None:
        self._store = store
        self._stream = stream
        self._name = name
        self._label = label
        self._event = event
        self._handled = 0
        self._saved = 0
        self._unsaved = 0
        self._dirty = Alarm(store)

    async def load(self) -> None:
        """Begin where the stream says."""
        self._handled = self._saved = await self._stream.get_offset(self._name)
        self._unsaved = 0

    def committed(self, offset: int) -> None:
        """An event was handled, and its offset saved with its effects."""
        self._handled = self._saved = offset

    def skipped(self, offset: int) -> None:
        """An event is left behind."""
        self._handled = offset
        self._dirty.ring()

    async def handled(self, offset: int) -> None:
        """An event was handled; saves if that is due."""
        self._handled = offset
        self._unsaved += 1
        if self._unsaved == 1:
            self._dirty.ring()
        elif self._unsaved >= SAVE_EVERY:
            await self.save()

    async def save_in_time(self) -> None:
        """Save a second after there was something to save, for ever."""
        while True:
            await self._dirty.wait()
            await self._store.sleep_until(self._store.mark() + SAVE_AFTER_S)
            await self.save()

    async def save(self) -> None:
        """Save how far we came; what fails is told, and done with the next events."""
        handled, self._unsaved = self._handled, 0
        if handled <= self._saved:
            return
        try:
            await self._stream.save_offset(self._name, handled)
        except AlkstoreError as error:
            told = self._event("offset.refused", offset=handled)
            _log.warning("%s: cannot save offset %d: %s", self._label, handled, error, extra=told)
            self._dirty.ring()
        else:
            self._saved = max(self._saved, handled)

    async def can_be_saved(self) -> bool:
        """Whether the database takes a write; this one changes nothing."""
        try:
            await self._stream.save_offset(self._name, 0)
        except DatabaseError:
            return False
        return True
