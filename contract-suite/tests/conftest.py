"""A small kit and an engine, installed, that each test may bend."""

import pytest
from fake_kit import Place, install_kit


@pytest.fixture(scope="session")
def kit(tmp_path_factory):
    """Return where the kit with the small suite is installed; nobody changes it."""
    return install_kit(tmp_path_factory.mktemp("kit"))


@pytest.fixture
def place(kit, tmp_path):
    """Return a directory with an engine of its own to try."""
    return Place(kit, tmp_path)
