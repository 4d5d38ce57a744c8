"""The conformance kit: what the contract promises, and whether an engine keeps it."""

from importlib.metadata import version as _version

from alkstore_contract.case import Case
from alkstore_contract.expect import UnmetError, expect, expect_equal, expect_raises
from alkstore_contract.harness import (
    BENCH,
    BENCH_PAGE,
    BENCH_PAYLOAD,
    Caller,
    Facts,
    Harness,
    JoinKind,
    RawRun,
    RawWorkload,
)
from alkstore_contract.processes import Line, Process
from alkstore_contract.properties import Property, manifest

__version__ = _version("alkstore-contract")

__all__ = [
    "BENCH",
    "BENCH_PAGE",
    "BENCH_PAYLOAD",
    "Caller",
    "Case",
    "Facts",
    "Harness",
    "JoinKind",
    "Line",
    "Process",
    "Property",
    "RawRun",
    "RawWorkload",
    "UnmetError",
    "__version__",
    "expect",
    "expect_equal",
    "expect_raises",
    "manifest",
]
