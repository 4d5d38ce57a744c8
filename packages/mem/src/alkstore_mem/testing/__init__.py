"""For the tests of what uses a store: run what is enqueued, and look at what was sent.

Works with every engine, and needs no pytest; the fixtures are in `alkstore_mem.pytest_plugin`.
"""

from alkstore_mem.testing.asserting import assert_enqueued, assert_published
from alkstore_mem.testing.draining import Handled, drain
from alkstore_mem.testing.likeness import ANYTHING

__all__ = ["ANYTHING", "Handled", "assert_enqueued", "assert_published", "drain"]
