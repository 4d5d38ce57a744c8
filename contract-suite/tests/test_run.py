"""`alkstore-contract run`: only a whole run in which everything held is green."""

import io
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_kit import ENGINE, IDS, install_kit
from rich.console import Console

from alkstore_contract import show
from alkstore_contract.report import read

NAMED = """
class Engine(Engine):
    async def act(self, id, number=0):
        if (id, number) == ("fake.second", 2):
            {then}
"""


def states(report):
    """Return the state of each property."""
    return {id_: o["state"] for id_, o in report["canonical"]["outcomes"].items()}


def alive(pid):
    """Say whether a process runs: one that was killed may wait for its parent to ask for it."""
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def heed_interrupts():
    """A shell's background jobs, and so a CI's, are begun with SIGINT ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


ALL_HELD = dict.fromkeys(IDS, "held")
SECOND_LOST = ALL_HELD | {"fake.second": "missing"}


def test_conforms(place):
    """An engine that holds everything conforms; the report says of which code."""
    _, said, report = place.run(check=0)
    assert "conforms: every property held" in said
    assert ALL_HELD == states(report)
    canonical = report["canonical"]
    assert "conforms" == canonical["verdict"]
    assert "0.1" == canonical["contract"]
    assert 64 == len(canonical["suite"]["digest"])
    assert ("fake-engine", "1.0") == (canonical["engine"]["name"], canonical["engine"]["version"])
    assert 64 == len(canonical["engine"]["digest"])
    assert "volatile" == canonical["facts"]["durability"]
    assert [] == canonical["reasons"]
    assert 3 == canonical["outcomes"]["fake.second"]["cases"]


def test_repeatable(place):
    """Two runs on the same code find the same, however many processes they use."""
    first = place.run("--jobs", "1", check=0)[2]
    second = place.run("--jobs", "3", check=0)[2]
    assert first["canonical"] == second["canonical"]
    assert first["seal"] == second["seal"]


def test_fails(place):
    """A property that raises fails; its message and its sentence are shown."""
    place.engine(NAMED.format(then="raise ValueError('two is odd')"))
    _, said, report = place.run(check=1)
    assert "does-not-conform" == report["canonical"]["verdict"]
    assert ALL_HELD | {"fake.second": "failed"} == states(report)
    assert 1 == report["canonical"]["outcomes"]["fake.second"]["cases"]
    assert "case 2: " in report["run"]["whys"]["fake.second"]
    assert "two is odd" in said
    assert "The second holds three times." in said


@pytest.mark.parametrize("error", ["SystemExit(0)", "asyncio.CancelledError"])
def test_fails_by_what_is_no_exception(place, error):
    """Leaving by what usually ends a program is a failure as any other."""
    place.engine("import asyncio\n" + NAMED.format(then=f"raise {error}"))
    _, _, report = place.run(check=1)
    assert ALL_HELD | {"fake.second": "failed"} == states(report)


def test_takes_too_long(place):
    """A case that does not end in its time fails, and says so."""
    place.engine("import asyncio\n" + NAMED.format(then="await asyncio.Event().wait()"))
    _, said, report = place.run(check=1)
    assert "failed: fake.second" in said
    assert "it did not end within 2 s" in said
    assert ALL_HELD | {"fake.second": "failed"} == states(report)


@pytest.mark.parametrize(
    ("then", "why"),
    [
        ("os._exit(0)", "status 0"),
        ("os._exit(7)", "status 7"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "killed by SIGKILL"),
        ("print('last words', file=sys.stderr, flush=True); os._exit(3)", "last words"),
    ],
    ids=["exit 0", "exit 7", "kill", "last words"],
)
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_crashes(place, then, why, jobs):
    """A process that ends in the middle loses its property, named, and no other."""
    place.engine("import os, signal, sys\n" + NAMED.format(then=then))
    _, said, report = place.run("--jobs", jobs, check=3)
    assert "incomplete" == report["canonical"]["verdict"]
    assert SECOND_LOST == states(report)
    assert why in report["run"]["whys"]["fake.second"]
    assert "missing: fake.second" in said


def test_hangs(place, tmp_path):
    """A process that blocks beyond all bounds is killed with what it started."""
    kit = install_kit(tmp_path / "impatient")
    parent = kit / "alkstore_contract/parent.py"
    source = parent.read_text()
    assert "GRACE_SECONDS = 30.0" in source
    parent.write_text(source.replace("GRACE_SECONDS = 30.0", "GRACE_SECONDS = 0.5"))
    place.kit = kit
    started = place.work / "started"
    then = (
        f"p = Popen(['sleep', '600']); print(p.pid, file=open({str(started)!r}, 'w', 1)); p.wait()"
    )
    place.engine("from subprocess import Popen\n" + NAMED.format(then=then))
    _, _, report = place.run(check=3)
    assert SECOND_LOST == states(report)
    assert "said nothing for 2.5 s and was killed" in report["run"]["whys"]["fake.second"]
    assert not alive(int(started.read_text()))


def test_ends_badly(place):
    """A process that fails after its last property keeps the run from being complete."""
    place.engine("import atexit, os\natexit.register(os._exit, 5)")
    _, _, report = place.run("--jobs", "1", check=3)
    assert ["after its last property, its process ended: status 5"] == report["canonical"][
        "reasons"
    ]
    assert ALL_HELD == states(report)


def test_ids_are_whole(place):
    """However narrow the table of what is wanting is, an id in it can be given to `explain`."""
    place.engine(NAMED.format(then="raise ValueError('two is odd')"))
    place.run(check=1)
    sentences = {"fake.second": SimpleNamespace(sentence="The second holds three times.")}
    console = Console(width=40, file=io.StringIO())
    console.print(show.wanting_table(read(place.work / "report.json"), sentences))
    assert "fake.second" in console.file.getvalue()


def test_long_reasons(place):
    """A reason is not broken where a line would end: it may hold paths and tracebacks."""
    place.engine("raise ValueError('no import' * 30)")
    assert "no import" * 30 in place.run(check=3)[1]


@pytest.mark.parametrize("code", ["import os; os._exit(0)", "raise ValueError('no import')"])
def test_cannot_begin(place, code):
    """An engine that cannot be loaded is incomplete: nothing of it was tried."""
    place.engine(code)
    _, _, report = place.run(check=3)
    assert {"missing"} == set(states(report).values())
    assert report["canonical"]["engine"] is None
    assert "no engine told its facts" in report["canonical"]["reasons"]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('        reach="process",\n', "", "'reach'"),
        ('reach="process"', 'reach="galaxy"', "galaxy"),
        ("    facts = Facts(", "    nothing = Facts(", "no `facts`"),
    ],
    ids=["missing", "unknown value", "none"],
)
def test_facts(place, old, new, why):
    """Facts that are missing or make no sense keep a run from being complete."""
    package = place.engine_home / "fake_engine/__init__.py"
    assert old in ENGINE
    package.write_text(ENGINE.replace(old, new))
    place.papers()
    _, said, report = place.run(check=3)
    assert "incomplete" == report["canonical"]["verdict"]
    assert why in said


def test_selected(place):
    """A selection that holds is incomplete; one that fails does not conform."""
    _, said, report = place.run("--select", "fake", check=3)
    assert ALL_HELD | {"other.last": "missing"} == states(report)
    assert "selected were fake only" in said
    place.engine(NAMED.format(then="raise ValueError"))
    place.run("--select", "fake.second", check=1)


def test_selected_before_the_harness(place):
    """A selection takes one name each time, so that it does not take the harness as well."""
    options = ("-s", "fake.second", "-s", "other", "fake_engine:Engine", "--report", "report.json")
    place.cli("run", *options, check=3)
    outcomes = states(json.loads((place.work / "report.json").read_text()))
    assert {"fake.second", "other.last"} == {i for i, o in outcomes.items() if o == "held"}


def test_selects_nothing(place):
    """A selection of nothing is wrong usage, and names what there is."""
    _, said, report = place.run("--select", "fak", check=2)
    assert "the mechanisms are fake, other" in said
    assert report is None


def test_unknown_harness(place):
    """A harness that does not exist is wrong usage, and no report is left."""
    (place.work / "report.json").write_text("old")
    _, said = place.cli("run", "fake_engine:Nobody", "--report", "report.json", check=2)
    assert "cannot be imported" in said
    assert not (place.work / "report.json").exists()


def test_unknown_name(place):
    """An unknown name is wrong usage, and says what is installed."""
    _, said = place.cli("run", "nobody", check=2)
    assert "no installed engine registers a harness 'nobody'" in said


def test_old_report(place):
    """The report of an earlier run is gone as soon as another one begins."""
    place.run(check=0)
    place.engine("import pathlib\nassert not pathlib.Path('report.json').exists()")
    place.run(check=0)


def test_optimized(place):
    """Under `-O` nothing is judged."""
    _, said, report = place.run(options=("-O",), check=2)
    assert "not judged under `python -O`" in said
    assert report is None


@pytest.mark.parametrize(
    "core",
    [
        "alkstore-core",
        "alkstore-core>=0.1.0",
        "alkstore-core>=0.1,<0.3",
        "alkstore-core<0.2",
        "alkstore-core>=0.2,<0.3",
        "alkstore-core>=0.1,<1,!=0.2.*",
        None,
    ],
)
def test_core_is_not_pinned(place, core):
    """Only an engine that asks for just this contract's core is certified."""
    place.engine(core=core)
    _, _, report = place.run(check=3)
    (reason,) = report["canonical"]["reasons"]
    assert "alkstore-core" in reason


@pytest.mark.parametrize("core", ["alkstore-core[sql]>=0.1.0,<0.2", "Alkstore_Core==0.1.*"])
def test_core_is_pinned(place, core):
    """Every way to ask for just this contract's core will do."""
    place.engine(core=core)
    place.run(check=0)


def test_editable(place):
    """An engine that is installed from its tree can be tried; which code it was is not known."""
    (info,) = place.engine_home.glob("*.dist-info")
    (info / "direct_url.json").write_text('{"url": "file:///x", "dir_info": {"editable": true}}')
    _, said, report = place.run(check=0)
    assert report["canonical"]["engine"]["digest"] is None
    assert "editable installation" in said


def test_shadowed(place):
    """Code that hides what is installed is not taken for it."""
    shadow = place.path / "shadow/fake_engine"
    shadow.mkdir(parents=True)
    (shadow / "__init__.py").write_text(ENGINE)
    installed = place.engine_home
    place.engine_home = f"{shadow.parent}:{installed}"
    _, said, report = place.run(check=0)
    assert report["canonical"]["engine"]["digest"] is None
    assert "not from what is installed" in " ".join(said.split())


def test_tampering(place):
    """An engine that replaces what it is asked is found out: its parent knows better."""
    place.engine(
        """
        from alkstore_contract.properties import manifest

        async def nothing(case):
            pass

        object.__setattr__(manifest()["fake.first"], "function", nothing)
        """
    )
    _, _, report = place.run(check=3)
    assert ALL_HELD | {"fake.first": "missing"} == states(report)
    assert "source differs" in report["run"]["whys"]["fake.first"]


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("sys.modules['alkstore_contract.expect'].expect = lambda *_: None", "expect.expect"),
        ("alkstore_contract.Case.store.__code__ = (lambda self: 0).__code__", "Case.store"),
        ("sys.modules['__main__'].run = lambda *_: None", "status 1"),
    ],
    ids=["what compares", "what opens stores", "what runs"],
)
def test_tampering_with_the_kit(place, code, why):
    """An engine that changes what the properties stand on is not judged by them."""
    place.engine(f"import sys, alkstore_contract\n{code}")
    _, said, report = place.run("--jobs", "1", check=3)
    assert "incomplete" == report["canonical"]["verdict"]
    assert why in said


def test_facts_that_change(place):
    """Facts that are others at the end than at the beginning are none."""
    place.engine(
        """
        import attrs

        class Engine(Engine):
            def last(self):
                self.facts = attrs.evolve(self.facts, reach="host")
        """
    )
    _, said, _ = place.run("--jobs", "1", check=3)
    assert "the harness did not give the same facts all the time" in said
    place.engine("Engine.facts = property(lambda self, facts=Engine.facts: facts)")
    _, said, _ = place.run(check=3)
    assert "have to be a Facts(" in said


@pytest.mark.parametrize("name", ["''", "5", "None"])
def test_no_name(place, name):
    """A harness that does not say of which distribution it is cannot be used."""
    place.engine(f"Engine.distribution = {name}")
    _, said, _ = place.run(check=3)
    assert f"not {name}" in said
    assert "Traceback" not in said


def test_swallowed(place):
    """A case that ends well but too late, because it swallows its cancellation, fails."""
    place.engine(
        """
        import asyncio, contextlib

        class Engine(Engine):
            async def act(self, id, number=0):
                if number == 2:
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.Event().wait()
        """
    )
    _, said, _ = place.run("--jobs", "1", check=1)
    assert "it did not end within 2 s" in said


@pytest.mark.parametrize("message", ["'x' * 70_000_000", r"'\udcff'"], ids=["huge", "surrogate"])
def test_unspeakable(place, message):
    """An error of any size, in any characters, is a failure like others."""
    place.engine(NAMED.format(then=f"raise ValueError({message})"))
    _, said, report = place.run("--jobs", "1", check=1)
    assert ALL_HELD | {"fake.second": "failed"} == states(report)
    assert len(said) < 200_000


def test_code_of_another(place):
    """A harness of elsewhere cannot lend its findings to a distribution."""
    place.write("mine.py", "from fake_engine import Engine")
    place.write("other.py", "import fake_engine\nclass Engine(fake_engine.Engine): pass")
    for module, why in (("mine", None), ("other", "other, which was tried, is no module of")):
        _, said = place.cli("run", f"{module}:Engine", "--report", "report.json", check=0)
        report = json.loads((place.work / "report.json").read_text())
        assert (why is None) == (report["canonical"]["engine"]["digest"] is not None)
        assert why is None or why in " ".join(said.split())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_ended_from_outside(place, number):
    """Interrupted it judges what there is; however it ends, nothing of it is left running."""
    started = place.work / "started"
    then = f"import time; print(os.getpid(), file=open({str(started)!r}, 'w', 1)); time.sleep(60)"
    place.engine("import os\n" + NAMED.format(then=then))
    command = (sys.executable, "-m", "alkstore_contract.cli", "run", "fake_engine:Engine")
    running = subprocess.Popen(
        [*command, "--report", "report.json", "--jobs", "1"],
        cwd=place.work,
        env=os.environ | {"PYTHONPATH": f"{place.kit}{os.pathsep}{place.engine_home}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=heed_interrupts,  # noqa: PLW1509 - no thread of ours runs meanwhile
    )
    while not (started.exists() and started.read_text().endswith("\n")):
        time.sleep(0.05)
        assert running.poll() is None
    running.send_signal(number)
    said, _ = running.communicate(timeout=60)
    until = time.monotonic() + 20
    while alive(int(started.read_text())):
        assert time.monotonic() < until
        time.sleep(0.05)
    assert "Traceback" not in said
    if number == signal.SIGINT:
        assert 3 == running.returncode
        assert "the run was interrupted" in said
        report = json.loads((place.work / "report.json").read_text())
        assert "incomplete" == report["canonical"]["verdict"]
    else:
        assert -number == running.returncode
        assert not (place.work / "report.json").exists()


@pytest.mark.parametrize("option", ["--report", "--markdown"])
@pytest.mark.parametrize("where", [".", "/proc/none/x", "conftest.py/x"])
def test_no_place_for_the_report(place, option, where):
    """Before anything is tried it is clear that the report can be written."""
    place.write("conftest.py", "")
    _, said = place.cli("run", "fake_engine:Engine", option, where, check=2)
    assert f"nothing can be written to {where!r}" in said
    assert "Traceback" not in said


def test_report_into_a_new_directory(place):
    """The directories of a report are made."""
    options = ("--report", "a/r.json", "--markdown", "b/c/r.md", "-s", "other")
    place.cli("run", "fake_engine:Engine", *options, check=3)
    assert (place.work / "a/r.json").exists()
    assert (place.work / "b/c/r.md").exists()


@pytest.mark.parametrize("arguments", [("list",), ("list", "--json"), ("explain", "fake.second")])
def test_output_is_closed(place, arguments):
    """A command that was started without an output says nothing, and ends well."""
    command = shlex.join((sys.executable, "-m", "alkstore_contract.cli", *arguments))
    done = subprocess.run(
        f"{command} >&-",
        shell=True,
        check=False,
        env=os.environ | {"PYTHONPATH": f"{place.kit}{os.pathsep}{place.engine_home}"},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert (0, "") == (done.returncode, done.stderr)


def test_output_is_lost(place):
    """A run whose output goes nowhere goes on; report and exit status say how it ended."""
    command = "-m alkstore_contract.cli run fake_engine:Engine --report report.json"
    for sink in ("| true", *(f">{full}" for full in ("/dev/full",) if Path(full).exists())):
        (place.work / "report.json").unlink(missing_ok=True)
        place.write("run.sh", f"{sys.executable} {command} {sink}")
        place.write("call.py", "import subprocess as s; print(s.call(['sh', 'run.sh']))")
        _, said = place.command("call", check=0)
        assert said.endswith("0\n")
        assert "Traceback" not in said
        report = json.loads((place.work / "report.json").read_text())
        assert "conforms" == report["canonical"]["verdict"]


@pytest.mark.parametrize("named", [":", "fake_engine:", ":Engine", ".fake_engine:Engine"])
def test_no_name_of_a_harness(place, named):
    """What is not of the form of a harness's name is wrong usage, and shown its form."""
    _, said = place.cli("run", named, check=2)
    assert f"{named!r} does not name a harness: that is MODULE:HARNESS" in said


@pytest.mark.parametrize("jobs", ["0", "-1", "many", "1.5"])
def test_jobs(place, jobs):
    """A number of processes is a number."""
    _, said = place.cli("run", "fake_engine:Engine", f"--jobs={jobs}", check=2)
    assert f"at least 1, not {jobs!r}" in said


def test_printing(place):
    """What an engine prints, reads or closes is not taken for what the kit says."""
    place.engine(
        """
        import sys
        print('{"final": 4}', flush=True)

        class Engine(Engine):
            async def act(self, id, number=0):
                print('{"outcome": null}', flush=True)
                assert sys.stdin.read() == ""
        """
    )
    _, _, report = place.run(check=0)
    assert ALL_HELD == states(report)


def test_progress_in_a_log(place):
    """Without a terminal the progress is lines."""
    _, said, _ = place.run(check=0)
    assert "4 of 4 tried, 0 did not hold" in said


def test_markdown(place):
    """The report as a page says the verdict, the facts, and what was wanting."""
    place.engine(NAMED.format(then="raise ValueError('a | b')"))
    place.cli("run", "fake_engine:Engine", "--markdown", "page.md", check=1)
    page = (place.work / "page.md").read_text()
    assert page.startswith("# fake-engine 1.0, contract 0.1\n\n**does not conform.**\n")
    assert "| fake | 2 | 1 | 0 |" in page
    assert "| durability | volatile |" in page
    told = "failed: ValueError: a \\| b"
    assert f"| `fake.second` | The second holds three times. | {told} |" in page


def test_list(place):
    """The properties are listed for people, for the contract's page, and for programs."""
    assert "The first holds." in place.cli("list", check=0)[1]
    rows = place.cli("list", "--markdown", check=0)[1].splitlines()
    assert "| `fake.first` | The first holds. | Names | 0.1 |" == rows[2]
    listed = json.loads(place.cli("list", "--json", check=0)[1])
    assert IDS == [entry["id"] for entry in listed]


def test_explain(place):
    """A property is explained by its sentence, where it was decided, its cases and its source."""
    _, said = place.cli("explain", "fake.second", check=0)
    for part in ("The second holds three times.", "Names", "0.1", "1, 2, 3", "async def second"):
        assert part in said
    place.cli("explain", "fake.fourth", check=2)


def test_bench(place):
    """It has arguments of its own."""
    _, said = place.cli("bench", "--help", check=0)
    assert "--quick" in said


def test_warnings_are_errors(place, monkeypatch):
    """Where warnings are errors, none of the kit's own is laid to the engine."""
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    place.kit = place.engine_home
    place.cli("run", "sqlite", "--select", "processes.once", "--report", "r.json", check=3)
    report = json.loads((place.work / "r.json").read_text())
    assert "held" == states(report)["processes.once"]


@pytest.mark.parametrize("engine", ["mem", "sqlite"])
def test_our_engines(place, engine):
    """An installed engine is named by its entry point."""
    command = ("run", engine, "--select", "names.empty", "--report", place.work / "r.json")
    place.kit = place.engine_home
    place.cli(*command, check=3)
    report = json.loads((place.work / "r.json").read_text())
    assert "held" == states(report)["names.empty"]
    assert f"alkstore-{engine}" == report["canonical"]["engine"]["name"]
