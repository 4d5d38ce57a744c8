"""The kit under pytest. Installed everywhere pytest runs, so it does nothing until it is asked.

Once a test of the kit was collected, whatever becomes of it later, the session ends with the
verdict, and with an exit status other than 0 unless that is `conforms`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alkstore_contract.accounting import Accounting
    from alkstore_contract.harness import Harness
    from alkstore_contract.verdict import State, Verdict

PROPERTY = "alkstore_property"
"""Under this name a test and its reports say of which property they are."""

WATCH = "alkstore_contract_watch"
SHOWN = 20
"""So many properties of a kind are named; that there are more is said."""


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


def pytest_configure(config: pytest.Config) -> None:
    """Watch for tests of the kit."""
    config.pluginmanager.register(_Watch(config), WATCH)


class _Watch:
    """What one pytest process knows of the kit's tests; nothing, where there are none."""

    def __init__(self, config: pytest.Config) -> None:
        # A worker of xdist reports to its controller, and only that judges.
        self._output: dict[str, Any] | None = getattr(config, "workeroutput", None)
        self._accounting: Accounting | None = None
        self._verdict: Verdict | None = None

    def _begin(self) -> Accounting:
        if self._accounting is None:
            from alkstore_contract.accounting import Accounting  # noqa: PLC0415 - as above

            self._accounting = Accounting()
        return self._accounting

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Name the property in all reports of its test, also in one that says it was skipped."""
        id_ = getattr(getattr(item, "obj", None), PROPERTY, None)
        if id_ is None:
            return
        item.user_properties.append((PROPERTY, id_))
        if self._output is None:
            self._begin()
        else:
            self._output[PROPERTY] = True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take a phase of a test of the kit into account."""
        if self._output is None:
            for key, value in report.user_properties:
                if key == PROPERTY:
                    self._begin().hear(report, str(value))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Hear of a worker that collected the suite, whether it ran any of it or not."""
        if getattr(node, "workeroutput", {}).get(PROPERTY):
            self._begin()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        """Judge; a session that is green without conforming is not green."""
        if self._accounting is not None:
            self._verdict = self._accounting.verdict()
        self._redden(session)
        yield
        self._redden(session)  # also when another hook has made it green since

    def _redden(self, session: pytest.Session) -> None:
        if self._verdict is None or self._verdict.status == "conforms":
            return
        if session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say the verdict and what is wanting."""
        if self._verdict is None:
            return
        from alkstore_contract.verdict import gist  # noqa: PLC0415 - as above

        verdict = self._verdict
        terminalreporter.section("the contract of alkstore")
        states: tuple[State, ...] = ("failed", "missing")
        for state in states:
            wanting = list(verdict.in_state(state).items())
            for id_, standing in wanting[:SHOWN]:
                terminalreporter.write_line(f"{state}: {id_}: {gist(standing.why or '')}")
            if len(wanting) > SHOWN:
                terminalreporter.write_line(f"{state}: {len(wanting) - SHOWN} more")
        for reason in verdict.reasons:
            terminalreporter.write_line(f"* {reason}")
        held = len(verdict.in_state("held"))
        terminalreporter.write_line(
            f"{held} of {len(verdict.standings)} properties held: {verdict.status}",
            green=verdict.status == "conforms",
            red=verdict.status != "conforms",
        )
