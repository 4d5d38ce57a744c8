"""The bench measures what it says, beside the plain driver, and never what was not done."""

from __future__ import annotations

import contextlib
import json
import statistics
from importlib.metadata import version

import pytest
from patches import claimed, core, nothing, result
from sabotage import SabotagedHarness, Saboteur

from alkstore_contract import bench, bench_rounds, bench_wakes, cli
from alkstore_contract.bench_rounds import WORKLOADS, Pace, sample
from alkstore_contract.bench_work import UnmeasuredError
from alkstore_contract.harness import Harness, load_harness

TINY = Pace(rounds=3, slices=1, seconds=0.001, wakes=2)
WITH_RAW = [
    "enqueue",
    "enqueue-50",
    "enqueue-many",
    "drain-1",
    "drain-4",
    "publish",
    "read",
    "transaction",
]
BY_NAME = {workload.name: workload for workload in WORKLOADS}


@pytest.fixture(autouse=True)
def _tiny(monkeypatch):
    """Nothing here depends on how long is measured."""
    monkeypatch.setattr(bench, "QUICK", TINY)


@pytest.fixture
def written(tmp_path):
    """Return where `--json` writes, with an older result in it."""
    path = tmp_path / "bench.json"
    path.write_text("{}")
    return path


def run(*arguments):
    """Run the command; return its exit status."""
    return cli.main(["bench", *map(str, arguments)])


def _spoiled(patch, workload):
    bad = SabotagedHarness(Saboteur(patch))
    with bad.at_work():
        return sample(bad, BY_NAME[workload], TINY)


class NoRaw(type(load_harness("mem"))):
    """The memory engine without its plain driver."""

    raw = Harness.raw


class IdleRaw(type(load_harness("mem"))):
    """A plain driver that says it did what it did not do."""

    @contextlib.asynccontextmanager
    async def raw(self, *_):
        async def run(count):
            return count

        yield run


class LazyRaw(type(load_harness("mem"))):
    """A plain driver that does less than asked."""

    @contextlib.asynccontextmanager
    async def raw(self, address, workload):
        async with super().raw(address, workload) as run:

            async def less(count):
                return await run(count - 1)

            yield less


class Losing(SabotagedHarness):
    """The memory engine, where a claimed job never reaches its worker."""

    def __init__(self):
        super().__init__(Saboteur(result("claim", lambda jobs: [])))


def test_every_workload_of_an_engine_is_measured(written, capsys):
    """The command ends well and gives each row, with the rates of both sides."""
    assert run("mem", "--quick", "--json", written) == 0

    found = json.loads(written.read_text())
    said = capsys.readouterr().out
    rows = {row["name"]: row for row in found["workloads"]}
    assert [*WITH_RAW, "wake"] == list(rows)
    for name, row in rows.items():
        assert name in said
        assert len(row["rounds"]) == TINY.rounds
        assert row["engine"] == statistics.median(each["engine"] for each in row["rounds"])
        assert row["engine"] > 0
        assert (name in WITH_RAW) == (row["raw"] is not None) == (row["ratio"] is not None)


def test_the_result_says_what_it_is_about(written):
    """Engine, kit, machine and pace stand beside the numbers, and what was left out."""
    run("mem", "--quick", "--only", "read", "--only", "wake-process", "--json", written)

    found = json.loads(written.read_text())
    assert found["engine"] == {"name": "alkstore-mem", "version": version("alkstore-mem")}
    assert set(found) == {"engine", "kit", "where", "pace", "workloads", "failed", "left_out"}
    assert set(found["where"]) == {"python", "platform", "cpus"}
    assert found["pace"] == {"rounds": 3, "slices": 1, "seconds": 0.001, "wakes": 2}
    assert found["failed"] == {}
    assert list(found["left_out"]) == ["wake-process"]


def test_a_ratio_is_of_rates_of_one_round(written):
    """It is the median of the rounds' ratios, and the spread their extremes."""
    run("mem", "--quick", "--only", "publish", "--json", written)

    [row] = json.loads(written.read_text())["workloads"]
    ratios = [each["engine"] / each["raw"] for each in row["rounds"]]
    assert row["ratio"] == statistics.median(ratios)
    assert row["spread"] == [min(ratios), max(ratios)]


def test_an_engine_that_reaches_further_is_woken_there(written):
    """Its file is shared with another process, and its plain driver works on the same file."""
    only = [word for name in ("drain-4", "wake-process") for word in ("--only", name)]
    assert run("sqlite", "--quick", *only, "--json", written) == 0

    drained, woken = json.loads(written.read_text())["workloads"]
    assert drained["ratio"] > 0
    assert woken["engine"] > 0


@pytest.mark.parametrize("workload", WITH_RAW)
def test_the_plain_sqlite_driver_does_every_workload(workload):
    """What it leaves in the file is what the engine leaves there."""
    assert sample(load_harness("sqlite"), BY_NAME[workload], TINY).raw > 0


def test_without_a_plain_driver_there_is_no_ratio(written, capsys):
    """The column says so, and nothing is invented."""
    named = f"{__name__}:NoRaw"
    assert run(named, "--quick", "--only", "enqueue", "--json", written) == 0

    [row] = json.loads(written.read_text())["workloads"]
    assert row["engine"] > 0
    assert row["raw"] is None
    assert row["ratio"] is None
    assert row["spread"] == [
        min(r["engine"] for r in row["rounds"]),
        max(r["engine"] for r in row["rounds"]),
    ]
    said = capsys.readouterr().out
    assert "–: there is no plain driver to compare with" in said
    assert "×" not in said


def test_an_engine_that_loses_jobs_has_no_rate(written, capsys):
    """The command fails, says why, and measures the rest all the same."""
    only = [word for name in ("drain-1", "publish") for word in ("--only", name)]
    named = f"{__name__}:Losing"
    assert run(named, "--quick", *only, "--json", written) == 1

    found = json.loads(written.read_text())
    assert [row["name"] for row in found["workloads"]] == ["publish"]
    assert found["failed"] == {"drain-1": "engine: 0 of 1 operations were done"}
    assert "drain-1: not measured: engine: 0 of 1 operations were done" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("patch", "workload", "why"),
    [
        (nothing("insert_jobs", [1]), "enqueue", "1 jobs were enqueued and 0 are ready"),
        (nothing("insert_jobs", []), "enqueue-many", "0 of 100 operations were done"),
        (nothing("ack", 1), "drain-1", "of 1 jobs that were drained, 1 are still there"),
        (result("ack", lambda acked: 0), "drain-4", "4 of 4 live claims could not be acked"),
        (claimed(id=lambda job: 7), "drain-4", "3 of 4 claims gave out a job a second time"),
        (nothing("append", [1]), "publish", "1 events were published and 0 are there"),
        (result("read", lambda events: events[1:]), "read", "of 100 operations were done"),
        (nothing("append", [1], where="tx"), "transaction", "1 events were published and 0"),
        (core("payload:encode_payload", lambda real, payload: b"{}"), "enqueue", "payload that"),
    ],
)
def test_what_was_not_done_is_not_measured(patch, workload, why):
    """Each way to be fast by doing something else is an error."""
    with pytest.raises(UnmeasuredError, match=f"engine: .*{why}"):
        _spoiled(patch, workload)


@pytest.mark.parametrize("workload", [name for name in WITH_RAW if name != "read"])
def test_a_plain_driver_that_does_nothing_is_no_baseline(workload):
    """The store counts what it left behind."""
    with pytest.raises(UnmeasuredError, match="raw driver: "):
        sample(IdleRaw(), BY_NAME[workload], TINY)


def test_a_plain_driver_that_does_less_is_no_baseline():
    """What it says it did has to be what was asked."""
    with pytest.raises(UnmeasuredError, match="raw driver: 0 of 1 operations were done"):
        sample(LazyRaw(), BY_NAME["publish"], TINY)


def test_a_lost_wake_is_not_measured(monkeypatch):
    """No wake is no latency."""
    monkeypatch.setattr(bench_wakes, "LOST_SECONDS", 0.05)
    with pytest.raises(UnmeasuredError, match="woke nobody"):
        _spoiled(nothing("signal", None), "wake")


def test_a_round_that_hangs_is_given_up(monkeypatch):
    """The rest of the run is not lost with it."""
    monkeypatch.setattr(bench_rounds, "LIMIT_SECONDS", 0.05)
    with pytest.raises(UnmeasuredError, match=r"a round did not end in 0\.05 s"):
        _spoiled(nothing("signal", None), "wake")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mem", "--rounds", "2"], "at least 3 rounds"),
        (["mem", "--only", "sleep"], "invalid choice: 'sleep'"),
    ],
)
def test_wrong_usage_is_told(arguments, said, capsys):
    """The exit status is that of every command."""
    with pytest.raises(SystemExit) as ended:
        run(*arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "which engine"),
        (["mem", "--json", "/proc/none/x"], "nothing can be written to '/proc/none/x'"),
        (["nobody"], "no installed engine registers a harness 'nobody'"),
        (["json:dumps"], "not a Harness"),
        (["mem", "--only", "wake-process"], "wake-process: no other process reaches"),
    ],
)
def test_nothing_to_measure_is_told(arguments, said, capsys):
    """No empty table that looks like a result."""
    assert run(*arguments) == 2
    assert said in capsys.readouterr().err


def test_the_workloads_are_listed(capsys):
    """Each with what it does, and no engine is needed."""
    assert run("--list") == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert [*WITH_RAW, "wake", "wake-process"] == names
