"""The web example: a real server, a real client and a real worker, on both engines."""

import contextlib
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import NamedTuple

import httpx
import pytest

from alkstore_core import open_store
from wheelhouse import ROOT

EXAMPLE = ROOT / "docs/examples/fastapi-orders"
PATIENCE = 30.0


class Running(NamedTuple):
    """What a test talks to."""

    database: str
    client: httpx.Client
    environment: dict


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path):
    """An empty database's URL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/orders.db"
    return request.getfixturevalue("postgres_url")


@contextlib.contextmanager
def process(environment, *command):
    """A process of the example's that ends in order when it is told to."""
    started = subprocess.Popen(
        [sys.executable, "-W", "error", *command],
        env=environment,
        cwd=EXAMPLE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield started
        started.send_signal(signal.SIGTERM)
        out, _ = started.communicate(timeout=PATIENCE)
    finally:
        started.kill()
    # uvicorn ends by the signal that it was sent, once it has closed everything.
    assert started.returncode in {0, -signal.SIGTERM}, out
    assert "Traceback" not in out, out


@pytest.fixture
def running(database, webhook):
    """The web process, answering."""
    environment = {
        **os.environ,
        "ORDERS_DATABASE": database,
        "ORDERS_WEBHOOK": webhook.url,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    subprocess.run([sys.executable, "shop.py"], check=True, cwd=EXAMPLE, env=environment)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    base = f"http://127.0.0.1:{port}"
    with (
        process(environment, "-m", "uvicorn", "app:app", "--port", str(port)) as server,
        httpx.Client(base_url=base, timeout=PATIENCE, trust_env=False) as client,
    ):
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                client.get("/events")
                break
            except httpx.ConnectError:
                assert server.poll() is None, server.stdout.read()
                assert time.monotonic() < deadline
                time.sleep(0.05)
        yield Running(database, client, environment)


class Webhook(http.server.ThreadingHTTPServer):
    """Somebody else's server, which remembers what it was told."""

    def __init__(self):
        self.told = []
        super().__init__(("127.0.0.1", 0), Answer)

    @property
    def url(self):
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}/hook"


class Answer(http.server.BaseHTTPRequestHandler):
    """Takes a message."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.told.append((self.headers["Idempotency-Key"], body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def webhook():
    """A server to deliver to."""
    with Webhook() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def until(condition):
    """Wait for what other processes do; return it."""
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return value


async def waiting(database):
    """How many jobs and messages there are, seen from outside."""
    async with open_store(database) as store:
        jobs = await store.queue("confirmations").stats()
        messages = await store.outbox("webhooks").backing.stats()
        return jobs.ready, messages.ready


async def test_order(running, webhook):
    """An order waits for a worker; the worker confirms it and calls the webhook once."""
    answer = running.client.post("/orders", json={"reference": "A-1", "item": "tea"})
    assert 201 == answer.status_code
    order = answer.json()["id"]

    def state():
        return running.client.get(f"/orders/{order}").json()["state"]

    assert "placed" == state()
    assert (1, 1) == await waiting(running.database)

    with process(running.environment, "worker.py"):
        until(lambda: state() == "confirmed")
        until(lambda: webhook.told)

        # The worker waits; this one wakes it.
        running.client.post("/orders", json={"reference": "A-2", "item": "milk"})
        until(lambda: len(webhook.told) == 2)
        until(lambda: len(running.client.get("/events").json()) == 4)

    assert (0, 0) == await waiting(running.database)
    assert (order, {"order": order, "item": "tea"}) == webhook.told[0]
    events = running.client.get("/events").json()
    assert ["placed", "confirmed"] == [e["what"] for e in events if e["order"] == order]
    newer = running.client.get("/events", params={"after": events[1]["offset"]}).json()
    assert events[2:] == newer


async def test_refused_order_leaves_nothing(running, webhook):
    """An order that fails at its end leaves no row, no job, no message and no event."""
    first = running.client.post("/orders", json={"reference": "A-1", "item": "tea"})
    events = running.client.get("/events").json()

    again = running.client.post("/orders", json={"reference": "A-1", "item": "coffee"})

    assert (409, "this reference was used before") == (again.status_code, again.json()["detail"])
    assert (1, 1) == await waiting(running.database)
    assert events == running.client.get("/events").json()
    with process(running.environment, "worker.py"):
        until(lambda: webhook.told)
    assert [first.json()["id"]] == [key for key, _ in webhook.told]
    assert 404 == running.client.get("/orders/none").status_code
