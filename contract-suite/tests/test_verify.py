"""`alkstore-contract verify` and `diff`: a report certifies what it was made on, nothing else."""

import json
import shutil

import pytest
from fake_kit import SUITE, install_kit

from alkstore_contract.report import ReportError, read


@pytest.fixture
def report(place):
    """Return the file of a report that conforms."""
    place.run(check=0)
    return place.work / "report.json"


def edit(report, change):
    """Change a report in place, as an editor would."""
    value = json.loads(report.read_text())
    change(value)
    report.write_text(json.dumps(value))


def refused(place, why, subject="report.json"):
    """Verify, and expect to be refused for one reason alone."""
    _, said = place.cli("verify", subject, check=1)
    first, *rest = said.strip().splitlines()
    assert why in first, said
    assert ["refused"] == rest, said


def test_verified(place, report):
    """A report certifies the code on which it was made."""
    assert "fake-engine 1.0, contract 0.1: verified" in place.cli("verify", report, check=0)[1]


def test_proof_in_the_wheel(place, report):
    """A report may be put into the package: the digest of the code stays the same."""
    shutil.copy(report, place.engine_home / "fake_engine/contract-report.json")
    place.papers()
    assert "verified" in place.cli("verify", "fake-engine", check=0)[1]
    again = place.run(check=0)[2]
    assert json.loads(report.read_text())["canonical"] == again["canonical"]


def test_no_proof(place):
    """A distribution without a report, or that is not installed, is wrong usage."""
    assert "without a contract-report.json" in place.cli("verify", "fake-engine", check=2)[1]
    for name in ("fake-nothing", ""):
        assert f"no distribution {name!r}" in place.cli("verify", name, check=2)[1]


def test_other_code(place, report):
    """Other code of the same version is refused."""
    place.engine("# changed\n")
    refused(place, "other code than that of the installed fake-engine")


def test_other_code_beside_the_package(place):
    """A module that lies beside the package is the engine's code as well."""
    beside = place.engine_home / "fake_beside.py"
    beside.write_text("x = 1\n")
    place.papers()
    place.run(check=0)
    beside.write_text("x = 2\n")
    place.papers()
    refused(place, "other code than that of the installed fake-engine")


@pytest.mark.parametrize("how", ["changed", "added", "removed", "bytecode", "link"])
def test_changed_after_installation(place, report, how):
    """Code that is not what the installer put there is refused, whatever the record says."""
    package = place.engine_home / "fake_engine"
    if how == "changed":
        with (package / "__init__.py").open("a") as file:
            file.write("# late\n")
    elif how == "added":
        (package / "late.py").write_text("")
    elif how == "bytecode":
        (package / "late.pyc").write_bytes(b"")
    elif how == "link":
        (package / "late").symlink_to(place.work)
    else:
        place.engine("# first\n")
        (package / "more.py").write_text("")
        place.papers()
        place.run(check=0)
        (package / "more.py").unlink()
    said = {"changed": "was changed after", "removed": "is gone"}
    refused(place, said.get(how, "was not installed"))


def test_other_version(place, report):
    """Another version of the engine is refused."""
    (info,) = place.engine_home.glob("*.dist-info")
    shutil.rmtree(info)
    place.papers(version="1.1")
    refused(place, "fake-engine 1.0; installed is 1.1")


def test_not_installed(place, report):
    """A report on an engine that is not here is refused."""
    shutil.rmtree(place.engine_home)
    refused(place, "no distribution 'fake-engine' is installed")


def test_editable(place, report):
    """An engine that is installed from its tree is refused."""
    (info,) = place.engine_home.glob("*.dist-info")
    (info / "direct_url.json").write_text('{"url": "file:///x", "dir_info": {"editable": true}}')
    refused(place, "editable installation")


def test_made_on_editable(place):
    """A report that was made on an editable installation is refused."""
    (info,) = place.engine_home.glob("*.dist-info")
    mark = info / "direct_url.json"
    mark.write_text('{"url": "file:///x", "dir_info": {"editable": true}}')
    place.run(check=0)
    mark.unlink()
    refused(place, "does not say which code it is about")


def test_no_longer_pinned(place, report):
    """An engine that has come to admit another core is refused."""
    place.papers(core="alkstore-core")
    refused(place, "does not pin the contract")


def test_other_contract(place, report):
    """A report about another contract is refused."""
    edit(report, lambda r: r["canonical"].update(contract="0.2"))
    _, said = place.cli("verify", report, check=1)
    assert "It is about the contract 0.2; the installed core is of the contract 0.1." in said


def test_other_suite(place, report, tmp_path):
    """A report that another suite of the same version made is refused."""
    place.kit = install_kit(tmp_path / "other", SUITE + "\n# another\n")
    refused(place, "another suite than the installed alkstore-contract")


def test_other_property(place, report, tmp_path):
    """A report is refused by a kit whose property of that id is another one."""
    place.kit = install_kit(tmp_path / "other", SUITE.replace("cases=(1, 2, 3)", "cases=(1, 2)"))
    assert "says of fake.second does not fit" in place.cli("verify", report, check=1)[1]


def test_missing_property(place, report, tmp_path):
    """A report is refused by a kit that has a property more."""
    more = '\n@prop("fake.new", decided="Names")\nasync def new(case):\n    """It is new."""\n'
    place.kit = install_kit(tmp_path / "other", SUITE + more)
    assert "It lacks properties of this kit: fake.new." in place.cli("verify", report, check=1)[1]


def test_unknown_property(place, report):
    """A report with a property that the kit does not know is refused."""
    wrong = {"state": "held", "cases": 1, "source": "0"}
    edit(report, lambda r: r["canonical"]["outcomes"].update({"fake.gone": wrong}))
    assert "does not know: fake.gone" in place.cli("verify", report, check=1)[1]


def test_not_conforming(place):
    """A report that says the engine does not conform certifies nothing."""
    place.run("--select", "fake", check=3)
    refused(place, "Its verdict is incomplete.")


def test_edited_verdict(place):
    """A verdict that was edited to `conforms` does not fit its outcomes."""
    place.run("--select", "fake", check=3)
    report = place.work / "report.json"
    edit(report, lambda r: r["canonical"].update(verdict="conforms"))
    _, said = place.cli("verify", report, check=1)
    assert "The report was edited after it was made." in said
    assert "calls itself conforming, yet these did not hold: other.last" in said


def test_edited_outcome(place):
    """An outcome that was edited, with all that depends on it, is seen by the seal."""
    place.run("--select", "fake", check=3)
    report = place.work / "report.json"

    def beautify(value):
        value["canonical"].update(verdict="conforms", reasons=[])
        value["canonical"]["outcomes"]["other.last"].update(state="held", cases=1)

    edit(report, beautify)
    refused(place, "The report was edited after it was made.")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "cannot be read"),
        ("{", "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        ("[]", "no report"),
        ('{"canonical": {}}', "no report"),
        ('{"canonical": {"format": 2}}', "format 2"),
        (
            '{"canonical": {"format": 1}}',
            "with \\['canonical'\\] is not an object with canonical, seal, run",
        ),
        ('{"canonical": {"format": 1}, "seal": "", "run": []}', "canonical: an object with"),
    ],
)
def test_garbage(tmp_path, text, why):
    """What is no report is told apart from one, with a reason."""
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(ReportError, match=why):
        read(file)
    with pytest.raises(ReportError, match="cannot be read"):
        read(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("where", "value", "why"),
    [
        (("verdict",), "perfect", "canonical.verdict: 'perfect' is not conforms or"),
        (("outcomes", "fake.first", "state"), "great", "fake.first.state"),
        (("outcomes", "fake.first", "cases"), "many", "fake.first.cases"),
        (("outcomes",), [], "canonical.outcomes"),
        (("engine", "digest"), 5, "canonical.engine.digest"),
        (("suite",), None, "canonical.suite"),
        (("reasons",), [1], r"canonical.reasons\[0\]"),
        (("facts", "reach"), [], "canonical.facts.reach"),
        (("more",), 1, "canonical: "),
    ],
)
def test_misshapen(report, where, value, why):
    """A report of which one part is not as it should be is refused, with the part named."""

    def break_it(whole):
        part = whole["canonical"]
        for key in where[:-1]:
            part = part[key]
        part[where[-1]] = value

    edit(report, break_it)
    with pytest.raises(ReportError, match=why):
        read(report)


def test_diff(place, report):
    """Two reports of the same code are equal; what differs between others is named."""
    old = place.work / "old.json"
    shutil.copy(report, old)
    place.run("--jobs", "1", check=0)
    assert (0, "") == place.cli("diff", old, report)
    place.engine("Engine.last = lambda self: 1 / 0")
    place.run(check=1)
    _, said = place.cli("diff", old, report, check=1)
    assert "outcomes.other.last.state: 'held' -> 'failed'" in said
    assert "verdict: 'conforms' -> 'does-not-conform'" in said
    assert "engine.digest: " in said
    place.cli("diff", old, "nothing.json", check=2)
