"""The contract as pytest tests: `from alkstore_contract.conformance import *` in a test module.

There is one test for each property, named after its id. The harness comes from the fixture
`alkstore_harness`, which takes it from `--alkstore-harness` or from the configuration.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from attrs import asdict

from alkstore_contract.accounting import RECORD
from alkstore_contract.properties import manifest
from alkstore_contract.pytest_plugin import PROPERTY, WATCH
from alkstore_contract.running import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from alkstore_contract.harness import Harness
    from alkstore_contract.properties import Property

if sys.flags.optimize:
    raise RuntimeError("the contract is not judged under `python -O`: asserts would be gone")


def _test(prop: Property) -> Callable[..., None]:
    def test(alkstore_harness: Harness, request: pytest.FixtureRequest) -> None:
        if not request.config.pluginmanager.has_plugin(WATCH):
            pytest.fail("without the plugin of alkstore-contract nobody judges", pytrace=False)
        outcome = run(alkstore_harness, prop)
        record = {**asdict(outcome), "engine": alkstore_harness.distribution}
        request.node.user_properties.append((RECORD, record))
        if outcome.error is not None:
            pytest.fail(f"{prop.id}: {prop.sentence}\n\n{outcome.error}", pytrace=False)

    test.__name__ = test.__qualname__ = f"test_{prop.id.replace('.', '_')}"
    test.__doc__ = f"{prop.sentence} ({prop.id})"
    setattr(test, PROPERTY, prop.id)
    return test


def _tests() -> dict[str, Any]:
    tests: dict[str, Any] = {}
    for prop in manifest().values():
        test = _test(prop)
        if test.__name__ in tests:
            raise RuntimeError(f"two properties would be the test {test.__name__}")
        tests[test.__name__] = test
    return tests


_TESTS = _tests()
globals().update(_TESTS)
__all__ = list(_TESTS)
