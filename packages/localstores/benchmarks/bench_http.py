"""Rates of the queue's owner over HTTP, and of its client.

    python packages/localstores/benchmarks/bench_http.py [--rounds 3] [--seconds 2] [--json FILE]

The owner is a process of its own, and so is the load generator, which does next to nothing. A
stub that answers without looking at the request tells what this machine and the generator can do
at most; rates mean little while others use the cores. With `--check` the exit status tells
whether each target was met.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from alkstore_localstores import LocalHttpQueue
from alkstore_localstores.owner.admin import ask

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
CONNECTIONS = 50
MESSAGE = {"task": "thumbnail", "image": 4711, "sizes": [64, 128, 256]}

OWNER_TARGET = 4000.0
CLIENT_TARGET = 1000.0
"""Sends a second, with 50 connections and with 50 tasks, on two cores."""

STUB = """
import asyncio
class Stub(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
    def data_received(self, data):
        self.transport.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 4\\r\\n\\r\\nnull")
async def main():
    server = await asyncio.get_running_loop().create_server(Stub, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    print("{\\"address\\": \\"http://127.0.0.1:%d\\"}" % port, flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


@contextlib.contextmanager
def running(*command: str | Path) -> Iterator[str]:
    """A server in a process of its own, which says its address in its first line."""
    process = subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["address"]
    finally:
        process.terminate()
        process.communicate()


def load(endpoint: str, token: str, seconds: float) -> float:
    """What the load generator gets, in answers a second."""
    parts = urlsplit(endpoint)
    options = (parts.hostname, parts.port, parts.path, token, CONNECTIONS, seconds)
    command = [sys.executable, HERE / "loadgen.py", *map(str, options)]
    found = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return float(json.loads(found.stdout))


async def client(endpoint: str, token: str, seconds: float, tasks: int) -> float:
    """What so many tasks get through one `LocalHttpQueue`, in sends a second."""
    async with LocalHttpQueue(endpoint, token) as queue:
        start = time.perf_counter()

        async def send() -> int:
            count = 0
            while time.perf_counter() - start < seconds:
                await queue.send(MESSAGE)
                count += 1
            return count

        done = sum(await asyncio.gather(*(send() for _ in range(tasks))))
        return done / (time.perf_counter() - start)


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """All rates, of rounds that take turns."""
    found: dict[str, list[float]] = {"stub": [], "owner": [], "client": [], "one task": []}
    with tempfile.TemporaryDirectory(prefix="alkstore-bench-", dir=options.dir) as home:
        serve = ("-m", "alkstore_localstores.cli", "serve", "--state-dir", home, "--port", "0")
        with (
            running("-c", STUB) as stub,
            running(*serve, "--json", "--driver", options.driver),
        ):
            made = ask(home, {"command": "create", "resource": "bench"})
            owner = (made["endpoint"], made["token"])
            for _ in range(options.rounds):
                found["stub"].append(load(f"{stub}/", "none", options.seconds))
                found["owner"].append(load(*owner, options.seconds))
                found["client"].append(asyncio.run(client(*owner, options.seconds, CONNECTIONS)))
                found["one task"].append(asyncio.run(client(*owner, options.seconds, 1)))
    targets = {"owner": OWNER_TARGET, "client": CLIENT_TARGET}
    return [
        {"name": name, "rate": statistics.median(rates), "target": targets.get(name)}
        for name, rates in found.items()
    ]


def main(options: argparse.Namespace) -> int:
    """Measure and print."""
    lines = measure(options)
    names = {
        "stub": f"stub, {CONNECTIONS} connections",
        "owner": f"owner, {CONNECTIONS} connections",
        "client": f"LocalHttpQueue, {CONNECTIONS} tasks",
        "one task": "LocalHttpQueue, one task",
    }
    met = True
    for line in lines:
        target = line["target"]
        missed = target is not None and line["rate"] < target
        met &= not missed
        wanted = "" if target is None else f"  (at least {target:,g}{': MISSED' if missed else ''})"
        print(f"{options.driver}: {names[line['name']]:<32} {line['rate']:>9,.0f} sends/s{wanted}")
    if options.json:
        Path(options.json).write_text(json.dumps({"lines": lines}, indent=2))
    return 0 if met or not options.check else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--driver", choices=("sqlite3", "turso"), default="sqlite3")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each rate in each round")
    parser.add_argument("--dir", help="where to put the files; a disk, not memory")
    parser.add_argument("--json", help="write the lines to a file as well")
    parser.add_argument("--check", action="store_true", help="fail when a target was missed")
    sys.exit(main(parser.parse_args()))
