"""Where the system's Chromium is.

`ALKSTORE_TEST_CHROMIUM` names another program, or says `off`: then the tests that need it are left
out, and pytest says so.
"""

from __future__ import annotations

import os
import shutil

import pytest

GIVEN = "ALKSTORE_TEST_CHROMIUM"
TOKEN = "a-token-of-sixteen-characters"
REFRESH_S = 0.1

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    # Nothing that would ask the world for anything.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
    "--window-size=1280,900",
)


def program():
    """Where Chromium is.

    Raises:
        LookupError: it is not installed, and nobody said that it need not be.

    """
    given = os.environ.get(GIVEN, "")
    if given == "off":
        pytest.skip(f"{GIVEN}=off: the browser is left out on purpose")
    found = given or shutil.which("chromium") or shutil.which("google-chrome")
    if not found or shutil.which("chromedriver") is None:
        message = (
            "these tests need Chromium and its driver: install the system's packages chromium and "
            f"chromium-driver, name the program in {GIVEN}, or set {GIVEN}=off to do without"
        )
        raise LookupError(message)
    return found
