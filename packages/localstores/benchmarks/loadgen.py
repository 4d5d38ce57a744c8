"""A load generator that costs next to nothing: one request over and over, on many connections.

    loadgen.py HOST PORT PATH TOKEN CONNECTIONS SECONDS

Prints the answers a second, as JSON; ends with an error at the first answer that is not `null`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

BODY = (
    b'{"operation":"send","message":{"type":"json","data":'
    b'{"image":4711,"sizes":[64,128,256],"task":"thumbnail"}}}'
)


class Sender(asyncio.Protocol):
    """One connection: the next request goes out when the answer to the last one is there."""

    def __init__(self, request: bytes, ends: float) -> None:
        self._request = request
        self._ends = ends
        self._got = b""
        self.count = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = transport
        transport.write(self._request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        """Go on when the answer is whole."""
        self._got += data
        if not self._got.endswith(b"\r\n\r\nnull"):
            if b"\r\n\r\n" in self._got and not self._got.endswith(b"\r\n\r\n"):
                self.done.set_exception(RuntimeError(self._got.decode()))
                self._transport.close()
            return
        self._got = b""
        self.count += 1
        if time.perf_counter() < self._ends:
            self._transport.write(self._request)  # type: ignore[attr-defined]
        else:
            self.done.set_result(None)
            self._transport.close()


async def main(host: str, port: str, path: str, token: str, count: str, seconds: str) -> None:
    """Load, and print the rate."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n"
    )
    loop = asyncio.get_running_loop()
    start = time.perf_counter()
    senders = []
    for _ in range(int(count)):
        _, sender = await loop.create_connection(
            lambda: Sender(head.encode() + BODY, start + float(seconds)), host, int(port)
        )
        senders.append(sender)
    await asyncio.gather(*(sender.done for sender in senders))
    spent = time.perf_counter() - start
    print(json.dumps(sum(sender.count for sender in senders) / spent))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
