"""Operations on a SQL database, written once as generators.

An op yields SQLAlchemy Core statements with their parameters and gets `Result`s; it never
touches a connection, so the same op runs on the writer thread, inside the caller's own async
or sync transaction, and on another database.

A statement that has a bind parameter called `now` gets the engine's time from the driver, read
once when the op starts to run.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any, TypeVar

from attrs import define
from sqlalchemy import Executable

T = TypeVar("T")


@define
class Result:
    """What a statement gave: its rows (empty for none) and how many rows it changed."""

    rows: list[tuple[Any, ...]]
    count: int


Op = Generator[tuple[Executable, Mapping[str, Any]], Result, T]


class Mode(enum.Enum):
    """How a driver may schedule an op. Inside a transaction all modes are the same."""

    READ = "read"
    WRITE = "write"
    URGENT = "urgent"
    """A write that goes first: heartbeats, renewals and give-backs."""


class Driver(ABC):
    """Runs ops. Takes the op's function and arguments, so that it can run it again."""

    @abstractmethod
    def run(self, mode: Mode, op: Callable[..., Op[T]], *args: Any) -> Awaitable[T]:
        """Run an op to its end and return its value.

        Raises:
            DatabaseError: the database refused; the driver's error is the cause.

        """
