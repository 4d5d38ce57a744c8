"""The suite under pytest: green only when every property was seen to hold, whatever pytest says."""

import pytest

pytestmark = pytest.mark.once


CONFORMS = "4 of 4 properties held: conforms"
FIRST = "fake.first"
FAILING = """
class Engine(Engine):
    async def act(self, id, number=0):
        if (id, number) == ("fake.second", 2):
            raise ValueError("two is odd")
"""


@pytest.fixture(params=[(), ("-n2",)], ids=["plain", "xdist"])
def workers(request):
    """Return what to say for running in one process, and in several."""
    return request.param


def incomplete(place, *arguments, why, status=1, held=3):
    """Run, and expect an incomplete verdict that names the reason."""
    _, said = place.pytest(*arguments, check=status)
    assert f"{held} of 4 properties held: incomplete" in said, said
    assert why in said, said
    return said


def broken(place, *arguments, why, held=3):
    """Run, and expect that the engine does not conform."""
    _, said = place.pytest(*arguments, check=1)
    assert f"{held} of 4 properties held: does-not-conform" in said, said
    assert why in said, said
    return said


def test_conforms(place, workers):
    """An engine that holds everything is green."""
    assert CONFORMS in place.pytest(*workers, check=0)[1]


def test_names(place):
    """The tests are named after the properties, and say what is promised."""
    _, said = place.pytest("-vv", check=0)
    assert "test_contract.py::test_fake_first PASSED" in said
    place.write(
        "say.py", "from alkstore_contract.conformance import test_fake_first as t; print(t.__doc__)"
    )
    assert "The first holds. (fake.first)\n" == place.command("say", check=0)[1]


def test_fails(place, workers):
    """A property that does not hold fails its test, which shows id, sentence and reason."""
    place.engine(FAILING)
    said = broken(place, *workers, why="failed: fake.second: ValueError: two is odd")
    assert "fake.second: The second holds three times." in said
    assert "case 2: Traceback" in said


@pytest.mark.parametrize(
    "how", [("-k", "second or third or last"), ("--deselect", "test_contract.py::test_fake_first")]
)
def test_deselected(place, workers, how):
    """A property that was deselected is missing."""
    incomplete(place, *workers, *how, why="missing: fake.first: it did not run")


def test_all_deselected(place, workers):
    """A session that deselected the whole suite and ran something else is not green."""
    place.write("test_unrelated.py", "def test_unrelated(): pass")
    incomplete(place, *workers, "-k", "unrelated", why="exactly one engine", held=0)


def test_one_by_name(place):
    """A session of one test, asked for by its name, is not green."""
    incomplete(place, "test_contract.py::test_fake_first", why="missing: other.last", held=1)


def test_others_by_name(place):
    """Tests beside the suite can be run by their names, and no verdict is said."""
    place.write(
        "test_contract.py", "from alkstore_contract.conformance import *\ndef test_x(): pass"
    )
    assert "properties held" not in place.pytest("test_contract.py::test_x", check=0)[1]


def test_stopped(place):
    """After `-x` has stopped the session the rest is missing."""
    place.write("test_a.py", "def test_fails(): assert False")
    incomplete(place, "-x", why="missing: fake.first: it did not run", held=0)


def test_maximum_stopped_later(place):
    """A failure that stops the session makes it not conform, and the rest missing."""
    place.engine(FAILING)
    broken(place, "-x", why="missing: fake.third: it did not run", held=1)


MARK = """
from alkstore_contract.conformance import *
import pytest
test_fake_second = pytest.mark.{mark}(test_fake_second)
"""


@pytest.mark.parametrize("mark", ["skip", "skipif(True, reason='no')"])
def test_skipped(place, workers, mark):
    """A property that was skipped is missing."""
    place.write("test_contract.py", MARK.format(mark=mark))
    incomplete(place, *workers, why="missing: fake.second: it was skipped")


@pytest.mark.parametrize("mark", ["xfail", "xfail(strict=True)"])
def test_expected_failure(place, mark):
    """A property that was expected to fail, and does, does not hold."""
    place.engine(FAILING)
    place.write("test_contract.py", MARK.format(mark=mark))
    broken(place, why="failed: fake.second: ValueError: two is odd")


@pytest.mark.parametrize("mark", ["xfail", "xfail(strict=True)"])
def test_unexpected_pass(place, workers, mark):
    """A property that was expected to fail, and passes, is an error."""
    place.write("test_contract.py", MARK.format(mark=mark))
    broken(place, *workers, why="failed: fake.second")


def test_expected_failure_unrun(place):
    """A property that was not even run for its mark is missing."""
    place.write("test_contract.py", MARK.format(mark="xfail(run=False)"))
    incomplete(place, why="missing: fake.second: it was marked as expected to fail")


def test_redefined(place, workers):
    """A test of the user's under the same name is not the property's."""
    text = "from alkstore_contract.conformance import *\ndef test_fake_second(): pass"
    place.write("test_contract.py", text)
    incomplete(place, *workers, why="missing: fake.second: it did not run")


def test_redefined_with_marking(place):
    """A test that even says whose it is leaves no record of the kit's."""
    text = """
    from alkstore_contract.conformance import *
    def test_fake_second(): pass
    test_fake_second.alkstore_property = "fake.second"
    """
    place.write("test_contract.py", text)
    incomplete(place, why="missing: fake.second: it left no record")


@pytest.mark.parametrize(
    "how",
    [
        "manifest()['fake.first'].function.__code__ = nothing.__code__",
        "object.__setattr__(manifest()['fake.first'], 'function', nothing)",
        "object.__setattr__(p := manifest()['fake.first'], 'function', wraps(p.function)(nothing))",
    ],
    ids=["code", "function", "wrapper"],
)
def test_emptied(place, how):
    """A property whose body was replaced is not the kit's, though it passes."""
    place.write(
        "conftest.py",
        f"""
        from functools import wraps
        from alkstore_contract import manifest

        async def nothing(case):
            pass

        {how}
        """,
    )
    incomplete(place, why="missing: fake.first: what ran is not the kit's own")


def test_fewer_cases(place):
    """A property that was run with fewer cases is not the kit's."""
    text = """
    from alkstore_contract import manifest
    object.__setattr__(manifest()["fake.second"], "cases", (1, 3))
    """
    place.write("conftest.py", text)
    incomplete(place, why="missing: fake.second: what ran is not the kit's own")


def test_ended_in_the_middle(place):
    """A worker that ends in the middle, with a good status, loses its property."""
    place.engine("import os\n" + FAILING.replace('raise ValueError("two is odd")', "os._exit(0)"))
    _, said = place.pytest("-n2", check=1)
    assert "properties held: incomplete" in said
    assert "missing: fake.second: only its setup passed" in said


def test_optimized(place):
    """Under `-O` the suite cannot even be collected."""
    _, said = place.pytest(options=("-O",), check=2)
    assert "not judged under `python -O`" in said


def test_delivered_twice(place):
    """Reports that come twice, as each worker runs everything, count once."""
    assert CONFORMS in place.pytest("-n2", "--dist=each", check=0)[1]


FIXTURE = """
from alkstore_contract.conformance import *
import pytest

@pytest.fixture(autouse=True)
def around(request):
    here = "second" in request.node.name
    {before}
    yield
    {after}
"""


def test_failing_fixture(place):
    """A property whose set-up failed did not run."""
    text = FIXTURE.format(before="assert not here, 'no room'", after="pass")
    place.write("test_contract.py", text)
    incomplete(place, why="missing: fake.second: its set-up failed")


def test_failing_teardown(place, workers):
    """A property whose tear-down failed does not hold."""
    place.write("test_contract.py", FIXTURE.format(before="pass", after="assert not here, 'left'"))
    broken(place, *workers, why="failed: fake.second: teardown: ")


def test_missing_fact(place, workers):
    """Without all facts nothing is tried."""
    place.engine("Engine.facts = None")
    incomplete(place, *workers, why="have to be a Facts(", held=0)


def test_no_harness(place):
    """Without a harness nothing is tried, and the message says how to name it."""
    incomplete(place, "--alkstore-harness", "", why="name the engine's harness", held=0)


def test_harness_in_the_configuration(place):
    """The configuration may name the harness."""
    place.write("pytest.ini", "[pytest]\nalkstore_harness = fake_engine:Engine")
    assert CONFORMS in place.pytest("--alkstore-harness", "", check=0)[1]


def test_own_fixture(place):
    """A fixture of the user's may give the harness."""
    place.write(
        "conftest.py",
        """
        import fake_engine, pytest

        @pytest.fixture(scope="session")
        def alkstore_harness():
            return fake_engine.Engine()
        """,
    )
    assert CONFORMS in place.pytest("--alkstore-harness", "", check=0)[1]


@pytest.mark.parametrize("how", ["items[:] = items[1:]", "items.clear()"], ids=["one", "all"])
def test_removed_by_a_hook(place, workers, how):
    """A property that a hook took away from the collection is missing."""
    place.write("conftest.py", f"def pytest_collection_modifyitems(items): {how}")
    status = 5 if "clear" in how else 1
    held = 0 if "clear" in how else 3
    incomplete(place, *workers, why="missing: fake.first", status=status, held=held)


def test_collected_only(place):
    """Collecting is not running."""
    incomplete(place, "--collect-only", why="exactly one engine", held=0)


REWRITE = """
import pytest

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    report = yield
    {change}
    return report
"""


def test_rewritten_outcome(place, workers):
    """A hook that calls a failure a pass does not deceive: the kit's record says what was."""
    place.engine(FAILING)
    change = "report.outcome, report.longrepr = 'passed', None"
    place.write("conftest.py", REWRITE.format(change=change))
    _, said = place.pytest(*workers, check=1)
    assert "4 passed" in said
    assert "failed: fake.second: ValueError: two is odd" in said
    assert "properties held: does-not-conform" in said


def test_dropped_record(place):
    """A hook that takes the record away as well leaves nothing that could hold."""
    place.engine(FAILING)
    change = "report.outcome = 'passed'; report.user_properties = report.user_properties[:1]"
    place.write("conftest.py", REWRITE.format(change=change))
    incomplete(place, why="missing: fake.second: it left no record", held=0)


def test_run_again(place):
    """A property that held only when it was run again does not hold."""
    change = "if report.when == 'call' and 'first' in report.nodeid: report.outcome = 'rerun'"
    place.write("conftest.py", REWRITE.format(change=change))
    incomplete(place, why="missing: fake.first: pytest calls it rerun")


def test_run_again_unseen(place):
    """Nor does it when nobody hears that it was run twice."""
    place.engine(
        FAILING.replace('== ("fake.second", 2)', '== ("fake.first", 0) and not self.was()')
    )
    with (place.engine_home / "fake_engine/__init__.py").open("a") as file:
        file.write("    def was(self, seen=[]):\n        return seen or seen.append(1)\n")
    place.write(
        "conftest.py",
        """
        from _pytest.runner import runtestprotocol

        def pytest_runtest_protocol(item, nextitem):
            for _ in range(2):
                reports = runtestprotocol(item, nextitem=nextitem, log=False)
            for report in reports:
                item.ihook.pytest_runtest_logreport(report=report)
            return True
        """,
    )
    broken(place, why="failed: fake.first: ValueError: two is odd")


def test_made_green(place):
    """A hook that makes the session green after the verdict does not."""
    place.write(
        "conftest.py",
        """
        import pytest

        @pytest.hookimpl(trylast=True)
        def pytest_sessionfinish(session):
            session.exitstatus = 0
        """,
    )
    incomplete(place, "-k", "first", why="missing: fake.third: it did not run", held=1)


def test_without_the_plugin(place):
    """Where the plugin is switched off, no test of the kit passes."""
    fixture = "@pytest.fixture\ndef alkstore_harness(): return fake_engine.Engine()"
    place.write("conftest.py", f"import fake_engine, pytest\n{fixture}")
    options = ("pytest", "-q", "-p", "no:alkstore_contract", "-k", "first")
    place.write("test_contract.py", "from alkstore_contract.conformance import *")
    _, said = place.command(*options, check=1)
    assert "nobody judges" in said


def test_failed_by_pytest(place):
    """What pytest itself calls a failure is one, though the property held."""
    change = "if report.when == 'call' and 'first' in report.nodeid: report.outcome = 'failed'"
    place.write("conftest.py", REWRITE.format(change=change))
    broken(place, why="failed: fake.first")


def test_not_called(place):
    """A hook that does not call the test leaves no record."""
    text = "def pytest_pyfunc_call(pyfuncitem): return 'first' in pyfuncitem.name or None"
    place.write("conftest.py", text)
    incomplete(place, why="missing: fake.first: it left no record")


def test_core_is_not_pinned(place):
    """An engine that admits other cores is not certified, though everything held."""
    place.engine(core="alkstore-core")
    incomplete(place, why="does not pin the contract", held=4)


def test_inert(place):
    """Where the suite is not used, the plugin says nothing, changes nothing, imports little."""
    place.write(
        "test_contract.py",
        """
        import sys

        def test_something():
            loaded = set(sys.modules)
            assert "alkstore_contract.pytest_plugin" in loaded
            late = {"accounting", "conformance", "running", "suite", "verdict"}
            assert not loaded & {f"alkstore_contract.{name}" for name in late}
            assert not loaded & {"hypothesis", "rich", "sqlalchemy"}
        """,
    )
    _, said = place.pytest(check=0)
    assert "contract" not in said
