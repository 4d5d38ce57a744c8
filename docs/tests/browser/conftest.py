"""A real browser, and a status page that is really served, of a store on SQLite."""

from __future__ import annotations

import asyncio
import shutil
import socket
import threading

import pytest
import uvicorn
from chromium import FLAGS, REFRESH_S, TOKEN, program
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

from alkstore_core.web import status_app
from alkstore_sqlite import SqliteStore


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """The one browser that all tests use."""
    options = webdriver.ChromeOptions()
    options.binary_location = program()
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    driver.set_script_timeout(20)
    # Pages ask less often what takes long; on a machine under load that would be never.
    still = {"source": "performance.now = () => 0"}
    driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", still)
    yield driver
    driver.quit()


@pytest.fixture
def browser(chromium):
    """The browser as it is when it has never seen a page."""
    yield chromium
    chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    chromium.execute_cdp_cmd("Network.clearBrowserCookies", {})
    first, *others = chromium.window_handles
    for handle in others:
        chromium.switch_to.window(handle)
        chromium.close()
    chromium.switch_to.window(first)
    chromium.get("about:blank")
    chromium.get_log("browser")


class Served:
    """A status page under way. `do` has work done on its store, on its event loop."""

    def __init__(self, path):
        self.requests = 0
        self._path = path
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._started = threading.Event()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._started.wait(20)

    async def _serve(self):
        self.loop = asyncio.get_running_loop()
        async with SqliteStore(self._path) as self.store:
            app = status_app(self.store, token=TOKEN, actions=True)

            async def counted(scope, receive, send):
                self.requests += 1
                await app(scope, receive, send)

            self.server = uvicorn.Server(
                uvicorn.Config(counted, lifespan="off", log_config=None, ws="none")
            )
            self._started.set()
            await self.server.serve(sockets=[self._listener])

    def do(self, work):
        """Run a coroutine there and give what it gives."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(20)

    def end(self):
        """Serve no more."""
        self.server.should_exit = True
        self._thread.join()


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A status page that refreshes itself ten times a second."""
    monkeypatch.setattr("alkstore_core.web.rendering.REFRESH_S", REFRESH_S)
    made = Served(tmp_path / "app.db")
    yield made
    made.end()


@pytest.fixture
def visit(browser, served):
    """Return a function that opens an address, logging in where it is asked to."""

    def go(address=""):
        browser.get(served.url + address)
        asked = browser.find_elements("id", "token")
        if asked:
            asked[0].send_keys(TOKEN)
            asked[0].submit()
            WebDriverWait(browser, 20, 0.02).until(lambda b: b.find_elements("id", "live"))
        return browser

    return go
