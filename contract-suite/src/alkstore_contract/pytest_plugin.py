"""The kit under pytest. Installed everywhere pytest runs, so it does nothing until it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from alkstore_contract.harness import Harness


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the command line or the configuration name the harness."""
    says = "the harness of the engine under test: MODULE:HARNESS or an installed name"
    parser.getgroup("alkstore").addoption("--alkstore-harness", metavar="HARNESS", help=says)
    parser.addini("alkstore_harness", says)


@pytest.fixture(scope="session")
def alkstore_harness(request: pytest.FixtureRequest) -> Harness:
    """The harness of the engine under test."""
    from alkstore_contract.harness import load_harness  # noqa: PLC0415 - only when it is asked for

    config = request.config
    named = config.getoption("--alkstore-harness") or config.getini("alkstore_harness")
    if not named:
        raise pytest.UsageError(
            "name the engine's harness: --alkstore-harness, or alkstore_harness in the "
            "configuration, as MODULE:HARNESS or by its installed name"
        )
    return load_harness(named)
