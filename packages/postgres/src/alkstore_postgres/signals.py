"""Wakes: at once after this store's own commits, by NOTIFY after everybody's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alkstore_core.hub import Hub
from alkstore_core.spi import Fired
from alkstore_postgres.channels import channel_of
from alkstore_postgres.listener import Listener

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    import asyncpg

    from alkstore_core.spi import Subscription, Topic


class PostgresSignals(Hub):
    """A hub whose topics are also listened to in the database.

    What this store commits may wake twice, directly and by its notification. After a connection
    was lost everybody wakes, because nobody knows what was missed.
    """

    def __init__(
        self,
        schema: str,
        connect: Callable[[], Awaitable[asyncpg.Connection]],
        *,
        describe: str,
        **bounds: Any,
    ) -> None:
        """Prepare; nothing is opened before the first subscription."""
        super().__init__()
        self._schema = schema
        self._by_channel: dict[str, Topic] = {}
        self._listener = Listener(
            connect, self._wanted, self._on_notified, self._on_back, describe=describe, **bounds
        )

    async def subscribe(self, topic: Topic) -> Subscription:
        """Attach to a topic once a later commit cannot fail to be heard.

        Raises:
            DatabaseError: the server cannot be reached, or does not let us LISTEN.

        """
        # Keeps the channel wanted meanwhile; what it hears was there before we returned.
        place = self.attach(topic)
        try:
            await self._listener.listen()
            return self.attach(topic)
        finally:
            place.close()

    def changed(self) -> None:
        """Topics have come or gone: channels as well."""
        self._listener.look()

    async def end(self) -> None:
        """End every subscription and the connection."""
        self.close()
        await self._listener.close()

    def _wanted(self) -> Iterable[str]:
        self._by_channel = {channel_of(self._schema, topic): topic for topic in self.topics}
        return self._by_channel

    def _on_notified(self, channel: str) -> None:
        topic = self._by_channel.get(channel)
        if topic is not None:
            self.fire(topic)

    def _on_back(self) -> None:
        self.fire_all(Fired.RECONNECTED)
