"""`alkstore` on a real file: what it shows, what it does, and how it ends."""

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import select
import shlex
import signal
import sqlite3
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from alkstore_core import EnqueueOpts, QueueOpts, ScheduleOpts
from alkstore_core.cli import examination
from alkstore_core.cli.root import root
from alkstore_sqlite import SqliteStore

pytestmark = pytest.mark.once

MAIN = "from alkstore_core.cli import main; main()"
COMMAND = [sys.executable, "-u", "-c", MAIN]
EVIL = "\x1b[2J\x9b31m[bold]no[/bold]"


@pytest.fixture
def do(path):
    """Do something with an open store, between two commands."""

    def do(work):
        async def within():
            async with SqliteStore(path) as store:
                return await work(store)

        return asyncio.run(within())

    return do


@pytest.fixture
def alkstore(path):
    """Run the command in this process."""

    def run(*arguments, stdin=None, columns=80, url=None):
        return CliRunner().invoke(
            root,
            [*map(str, arguments)],
            input=stdin,
            prog_name="alkstore",
            env={"ALKSTORE_URL": url or f"sqlite:///{path}", "COLUMNS": str(columns)},
        )

    return run


@pytest.fixture
def told(alkstore):
    """Run the command with `--json`; it has to succeed."""

    def run(*arguments, **options):
        done = alkstore(*arguments, "--json", **options)
        assert 0 == done.exit_code, done.output
        return json.loads(done.stdout)

    return run


def heed_interrupts():
    """A shell's background jobs, and so a CI's, are begun with SIGINT ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def start(path, tmp_path, compiled):
    """Start the command as a process of its own."""
    environment = os.environ | compiled | {"ALKSTORE_URL": f"sqlite:///{path}"}
    # Tox tells its children how wide its own terminal is.
    for name in ("COLUMNS", "LINES"):
        environment.pop(name, None)
    started = []

    def start(*arguments, **options):
        process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            preexec_fn=heed_interrupts,  # noqa: PLW1509 - one call, before exec
            stdout=options.pop("stdout", subprocess.PIPE),
            stderr=options.pop("stderr", subprocess.PIPE),
            env=environment,
            cwd=tmp_path,
            text=True,
            **options,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


async def fill(store):
    """Something of each kind."""
    mail = store.queue("mail", QueueOpts(max_attempts=1))
    await mail.enqueue_many([{"to": n} for n in range(6)])
    for handle in await mail.claim_batch("w-1", 2):
        await handle.fail(f"no such address {EVIL}")
    await mail.claim_batch("w-2", 1)
    await store.queue("later").enqueue("x", EnqueueOpts(delay=500, headers={"trace": EVIL}))
    await store.outbox("hooks").enqueue({"url": "https://example.org"})
    await store.stream("orders").publish_many(range(5))
    await store.stream("orders").save_offset("billing", 3)
    await store.schedule("tidy", "@every 24h", "nightly", None, ScheduleOpts(priority=2))
    await store.try_lock("reindex", "host-1", 600)


def test_status_shows_all_there_is(do, told):
    """Queues and outboxes apart, streams with their consumers, locks and schedules."""
    do(fill)

    status = told("status")

    (later, mail, hooks) = status["queues"]
    assert ("mail", "queue", 3, 1, 2) == tuple(
        mail[name] for name in ("name", "kind", "ready", "processing", "dead")
    )
    assert (1, 1) == (later["delayed"], hooks["ready"])
    assert "outbox" == hooks["kind"]
    (orders,) = status["streams"]
    assert (1, 5, 5) == (orders["first"], orders["last"], orders["count"])
    assert [{"name": "billing", "offset": 3, "lag": 2}] == orders["consumers"]
    assert ["reindex"] == [lock["name"] for lock in status["locks"]]
    assert ["tidy"] == [schedule["name"] for schedule in status["schedules"]]
    assert status["seconds"] is None


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_status_fits_the_terminal(do, alkstore, columns):
    """Every name is on it, and no line is too wide."""
    do(fill)

    done = alkstore("status", columns=columns)

    assert 0 == done.exit_code, done.output
    for name in ("Queues", "mail", "Outboxes", "hooks", "orders", "billing", "reindex", "tidy"):
        assert name in done.stdout
    assert columns >= max(map(len, done.stdout.splitlines()))


def test_status_tells_rates_of_two_looks(do, told):
    """Only when it was asked to look twice."""
    do(fill)

    status = told("status", "--watch-for", "0.1")

    assert 0.1 <= status["seconds"]
    assert 0 == status["queues"][0]["backlog_per_s"]
    assert 0 == status["streams"][0]["events_per_s"]
    assert 0 == status["streams"][0]["consumers"][0]["lag_per_s"]


def test_an_empty_store_says_so(do, alkstore):
    """Instead of printing nothing."""
    do(lambda store: store.queues())

    done = alkstore("status")

    assert (0, "") == (done.exit_code, done.stdout)
    assert "app.db holds no job, event, consumer, lock or schedule" in done.stderr
    assert "no queue 'q' holds a job, and no other one does\n" == alkstore("jobs", "q").stderr


@pytest.mark.parametrize(
    "arguments", [("status",), ("jobs", "q"), ("enqueue", "q", "1"), ("doctor",)]
)
def test_a_file_that_is_not_there_is_not_made(alkstore, path, arguments):
    """A mistyped path is an error, and no empty database."""
    done = alkstore(*arguments)

    assert 3 == done.exit_code
    assert not path.exists()


def test_enqueue_takes_what_its_options_say(told, do, alkstore):
    """All of `EnqueueOpts` and the stamps of `QueueOpts`."""
    options = "--delay 15m --priority 7 --max-attempts 9 --expires 2h --header a=b --header c=d=e"
    stamps = "--visibility-timeout 60 --backoff 1 --retention 1d --create"
    made = told("enqueue", "mail", '{"to": "ä"}', *options.split(), *stamps.split())

    job = do(lambda store: store.queue("mail").get_job(made["id"]))

    assert {"to": "ä"} == job.payload_as(dict)
    assert (7, 9, {"a": "b", "c": "d=e"}) == (job.priority, job.max_attempts, job.headers)
    assert (900, 7_200) == (job.run_at - job.created_at, job.expires_at - job.created_at)
    assert (60, 1, 86_400) == (
        job.visibility_timeout_s,
        job.backoff_base_s,
        job.dead_letter_retention_s,
    )
    assert f"{made['id'] + 1}\n" == alkstore("enqueue", "mail", "-", stdin="[1]").stdout


def test_the_database_may_be_named_before_the_command(do, path, tmp_path, alkstore):
    """It wins over the environment's, and the one behind the command over both."""
    do(lambda store: store.queue("mail").enqueue(1))
    url, nowhere = f"sqlite:///{path}", f"sqlite:///{tmp_path / 'nowhere.db'}"

    for arguments in (
        ("--url", url, "jobs", "mail"),
        ("--url", url, "dead", "list", "mail"),
        ("--url", nowhere, "jobs", "mail", "--url", url),
        ("--url", nowhere, "schedules", "--url", url),
    ):
        done = alkstore(*arguments, url="sqlite:///elsewhere.db")
        assert 0 == done.exit_code, done.output
    assert 3 == alkstore("--url", nowhere, "jobs", "mail").exit_code
    useless = alkstore("--url", url, "completion", "bash")
    assert (2, True) == (useless.exit_code, "completion takes no --url" in useless.stderr)


@pytest.mark.parametrize(
    "options",
    [
        ("--visibility-timeout", 0),
        ("--delay", 5, "--run-at", 100),
        ("--header", "a=b", "--header", "c=d", "--header", "a=c"),
    ],
)
def test_options_that_mean_nothing_are_a_wrong_call(alkstore, path, options):
    """A claim that lasts no time, and two times or values of which one would be dropped."""
    assert 2 == alkstore("enqueue", "q", "1", "--create", *options).exit_code
    assert not path.exists()


def test_enqueue_of_lines_commits_whole_batches(do, alkstore):
    """A line that is no JSON is told with its number, and what was committed before it."""
    done = alkstore(
        "enqueue", "q", "--lines", "--batch", 2, "--create", stdin='1\n\n{"a":2}\n3\nNaN\n5\n'
    )

    assert 2 == done.exit_code
    assert "line 5: " in done.stderr
    assert "2 jobs are in, those up to line 3, the last one with id 2; the later" in done.stderr
    assert 2 == len(done.stdout.split())
    jobs = do(lambda store: store.queue("q").jobs())
    assert [1, {"a": 2}] == [json.loads(job.payload) for job in jobs]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_enqueue_from_a_live_pipe_ends_at_a_signal(do, start, number):
    """Also while it waits for a line, and what was printed is in."""
    process = start("enqueue", "q", "--lines", "--batch", "1", "--create", stdin=subprocess.PIPE)
    process.stdin.write("7\n")
    process.stdin.flush()
    assert "1\n" == process.stdout.readline()
    process.send_signal(number)

    told = "1 job is in, those up to line 1, the last one with id 1; the later ones are not in"
    assert (130, told) == (process.wait(timeout=30), process.stderr.read().strip())
    assert 1 == do(lambda store: store.queue("q").stats()).ready


def test_enqueue_into_an_outbox(do, alkstore):
    """With the outbox's own stamps, and no others."""
    done = alkstore("enqueue", "hooks", "--outbox", "--lines", "--create", stdin="1\n2\n")

    assert 2 == len(done.stdout.split())
    assert [60, 60] == [
        job.visibility_timeout_s for job in do(lambda store: store.outbox("hooks").backing.jobs())
    ]
    assert 2 == alkstore("enqueue", "hooks", "1", "--outbox", "--backoff", 3).exit_code


@pytest.mark.parametrize("payload", ["{", "NaN", "'a'", ""])
def test_a_payload_that_is_no_json_is_a_wrong_call(alkstore, path, payload):
    """Nothing is opened for it."""
    assert 2 == alkstore("enqueue", "q", payload, "--create").exit_code
    assert not path.exists()


def test_jobs_come_by_page_and_state(do, told, alkstore):
    """The next page begins where the last one says."""
    do(fill)

    first = told("jobs", "mail", "--limit", 3)
    second = told("jobs", "mail", "--limit", 3, "--after", first["next_after"])

    assert [3, 4, 5] == [job["id"] for job in first["jobs"]]
    assert ([6], None) == ([job["id"] for job in second["jobs"]], second["next_after"])
    assert [3] == [job["id"] for job in told("jobs", "mail", "--state", "processing")["jobs"]]
    assert f"--after {first['next_after']}" in alkstore("jobs", "mail", "--limit", 3).stderr
    (message,) = told("jobs", "hooks", "--outbox")["jobs"]
    assert ("hooks", "outbox") == (message["queue"], message["kind"])


SHOWING = [
    ("jobs", "mail"),
    ("jobs", "mail", "--id", 3),
    ("dead", "list", "mail"),
    ("dead", "show", "mail", 1),
    ("jobs", "later", "--id", 7),
    ("jobs", "foreign"),
    ("jobs", "foreign", "--id", 9),
    ("status",),
]


def test_nothing_stored_speaks_to_the_terminal(do, sql, alkstore):
    """Escape sequences in errors, headers, names and foreign payloads are shown escaped."""
    do(fill)
    do(lambda store: store.queue("foreign").enqueue(1))
    do(lambda store: store.queue(EVIL).enqueue(1))
    sql("UPDATE __alkstore_jobs SET payload = ? WHERE queue = 'foreign'", b"\xff\x1b[31m\0")

    for arguments in SHOWING:
        for done in (alkstore(*arguments), alkstore(*arguments, "--json")):
            assert 0 == done.exit_code, done.output
            assert done.stdout
            assert all(sign.isprintable() or sign == "\n" for sign in done.output)


def test_a_name_that_holds_nothing_is_said_to(do, alkstore):
    """With what it may have been meant to be."""
    do(fill)

    assert "did you mean 'mail'?" in alkstore("jobs", "mial").stderr
    assert "those that do: 'later', 'mail'" in alkstore("jobs", "xyz").stderr
    assert "did you mean 'hooks'?" in alkstore("jobs", "hook", "--outbox").stderr
    assert "did you mean 'orders'?" in alkstore("stream", "read", "order").stderr
    assert "did you mean 'mail'?" in alkstore("sweep", "mial").stderr
    nothing = alkstore("jobs", "later", "--state", "processing")
    assert "no job of 'later' is processing; 1 live and 0 dead in all\n" == nothing.stderr
    nothing = alkstore("dead", "list", "mail", "--after", 5)
    assert "no job of 'mail' above id 5 is dead; 4 live and 2 dead in all\n" == nothing.stderr
    assert "outbox of that name does: add --outbox\n" in alkstore("jobs", "hooks").stderr
    assert "queue of that name does: omit" in alkstore("jobs", "mail", "--outbox").stderr


def test_a_dead_job_is_told_as_it_died(do, alkstore):
    """What the claim was is over, and an error of several lines has its lines."""
    do(fill)

    async def fail(store):
        (handle,) = await store.queue("mail").claim_batch("w", 1)
        await handle.fail("Traceback:\n  in \x1b[2J\nValueError: no")

    do(fail)
    told = alkstore("dead", "show", "mail", 4, columns=200).stdout
    lines = [line.rstrip() for line in told.splitlines()]

    place = lines.index("last error  Traceback:")
    assert ["in \\x1b[2J", "ValueError: no"] == [line.strip() for line in lines[place + 1 :][:2]]
    assert all(line.startswith(" " * 12) for line in lines[place + 1 :][:2])
    titles = [line.split("  ")[0] for line in lines]
    assert "died" in titles
    assert "claim ends" not in titles
    assert "visibility timeout 300 s" in lines[titles.index("options")]
    assert "claim ends" in alkstore("jobs", "mail", "--id", 5).stdout


def test_a_schedule_whose_time_has_passed_is_overdue(do, sql, alkstore):
    """It may be that nobody runs schedules."""
    do(fill)
    told = alkstore("schedules").stdout
    assert "in 23h59m" in told or "in 1d" in told

    sql("UPDATE __alkstore_schedules SET next_fire_at = next_fire_at - 172800")

    assert "overdue 1d" in alkstore("schedules").stdout


def test_redrive_says_the_new_ids(do, told, alkstore):
    """Of those that are dead; of others it says that they are not."""
    do(fill)

    some = alkstore("dead", "redrive", "mail", 1, 99, "--json")
    rest = told("dead", "redrive", "mail", "--all")

    assert 1 == some.exit_code
    assert "no dead job 99" in some.stderr
    assert (1, 2) == (json.loads(some.stdout)["id"], rest["id"])
    for answer in (json.loads(some.stdout), rest):
        number = answer["new_id"]
        assert do(lambda store, n=number: store.queue("mail").get_job(n)).attempts == 0
    assert 1 == alkstore("dead", "show", "mail", 1).exit_code
    assert 2 == alkstore("dead", "redrive", "mail").exit_code
    assert 2 == alkstore("dead", "redrive", "mail", 1, "--all").exit_code


def test_purge_asks_first(do, told, alkstore):
    """Without a yes nothing is deleted; `--before` spares what died later."""
    do(fill)

    for answer in ("n\n", "", "\n"):
        refused = alkstore("dead", "purge", "mail", stdin=answer)
        assert 1 == refused.exit_code
        assert "nobody said yes" in refused.stderr
        assert "Delete all 2 dead jobs of 'mail' for good? [y/N]: " in refused.stderr
    asked = alkstore("dead", "purge", "mail", "--before", "2020-01-01", stdin="n\n").stderr
    assert "those of the 2 dead jobs of 'mail' that died before 2020-01-01T00:00:00Z for" in asked
    assert {"purged": 0} == told("dead", "purge", "mail", "--yes", "--before", "1d")
    assert 2 == alkstore("dead", "purge", "mail", "--before", "2999-01-01").exit_code
    # Some releases of click echo the test's answer.
    agreed = alkstore("dead", "purge", "mail", stdin="y\n")
    assert agreed.stdout.endswith("2 dead jobs deleted\n")
    assert {"purged": 0} == told("dead", "purge", "mail")


def test_sweep_does_all_or_those_named(do, told):
    """Expired jobs are dead, and counted by queue and outbox."""
    do(fill)
    do(lambda store: store.queue("mail").enqueue(1, EnqueueOpts(expires=0)))
    do(lambda store: store.outbox("hooks").enqueue(1, EnqueueOpts(expires=0)))

    (hooks,) = told("sweep", "--outbox", "hooks")["swept"]
    swept = told("sweep")["swept"]

    assert {"name": "hooks", "kind": "outbox", "expired": 1} == hooks
    assert {"later": 0, "mail": 1, "hooks": 0} == {row["name"]: row["expired"] for row in swept}


def test_a_stream_is_read_from_where_it_is_said(do, alkstore):
    """From an offset on, or from where a consumer stands, whose place stays."""
    do(fill)

    def offsets(*arguments):
        done = alkstore("stream", "read", "orders", *arguments, "--json")
        assert 0 == done.exit_code, done.output
        return [json.loads(line)["offset"] for line in done.stdout.splitlines()]

    assert [1, 2, 3, 4, 5] == offsets()
    assert [2, 3] == offsets("--from", 2, "--limit", 2)
    assert [4, 5] == offsets("--consumer", "billing") == offsets("--consumer", "billing")
    assert 2 == alkstore("stream", "read", "orders", "--from", 1, "--consumer", "c").exit_code
    assert 6 == len(alkstore("stream", "read", "orders").stdout.splitlines())


def test_trim_spares_what_a_consumer_has_not_read(do, told, alkstore):
    """With `--consumed`; `--to` asks, and says who loses what."""
    do(fill)

    assert {"stream": "orders", "horizon": 3, "trimmed": 3} == told(
        "stream", "trim", "orders", "--consumed", "--yes"
    )
    asked = alkstore("stream", "trim", "orders", "--to", 5, stdin="n\n")
    assert 1 == asked.exit_code
    assert "'billing' may not have read all" in asked.stderr
    assert 2 == told("status")["streams"][0]["count"]
    assert 2 == alkstore("stream", "trim", "orders").exit_code


def test_consumers_and_their_lag(do, told, alkstore):
    """Of one stream, or of all."""
    do(fill)
    place = {"stream": "orders", "name": "billing", "offset": 3, "lag": 2}

    assert {"consumers": [place]} == told("stream", "consumers")
    assert {"consumers": [place]} == told("stream", "consumers", "orders")
    assert "billing" in alkstore("stream", "consumers").stdout


def test_schedules_are_listed_added_and_removed(do, told, alkstore):
    """`schedules` alone lists; a wrong spec and a name that is not there are told."""
    do(fill)

    added = told("schedules", "add", "hourly", "@every 1h", "reports", '{"a": 1}', "--priority", 3)
    listed = told("schedules")["schedules"]

    assert ({"a": 1}, 3, "reports") == (added["payload"], added["priority"], added["queue"])
    assert ["hourly", "tidy"] == [schedule["name"] for schedule in listed]
    assert listed == told("schedules", "list")["schedules"]
    assert 2 == alkstore("schedules", "add", "x", "hourly", "q").exit_code
    assert 0 == alkstore("schedules", "remove", "hourly").exit_code
    again = alkstore("schedules", "remove", "hourly")
    assert 1 == again.exit_code
    assert "there are: 'tidy'" in again.stderr
    assert "reindex" in alkstore("locks").stdout
    assert ["reindex"] == [lock["name"] for lock in told("locks")["locks"]]


def test_doctor_finds_nothing_in_a_well_store(do, told):
    """Each check says that it was made."""
    do(lambda store: store.queue("q").enqueue(1))

    findings = told("doctor", "--strict")["findings"]

    assert {"ok"} == {finding["severity"] for finding in findings}
    codes = ["open", "latency", "clock", "notify", "diagnose", "queues", "streams", "schedules"]
    assert codes == [finding["code"] for finding in findings]
    assert {"locks": []} == told("locks")


def test_doctor_finds_what_nobody_serves(do, sql, alkstore, monkeypatch):
    """Lapsed claims, waiting and expired jobs, dead ones, slow consumers, late schedules."""
    monkeypatch.setattr(examination, "SERVED_WITHIN_S", 0)
    do(fill)
    do(lambda store: store.queue("mail").enqueue(1, EnqueueOpts(expires=0)))
    for table, column in (("jobs", "claim_expires_at"), ("schedules", "next_fire_at")):
        sql(f"UPDATE __alkstore_{table} SET {column} = 1000 WHERE {column} IS NOT NULL")

    done = alkstore("doctor", "--max-age", 0, "--max-lag", 1, "--json")
    found = {f["code"]: f["severity"] for f in json.loads(done.stdout)["findings"]}

    assert 0 == done.exit_code
    wanted = {
        "queue.lapsed": "warning",
        "queue.expired": "warning",
        "queue.dead": "info",
        "stream.lag": "warning",
        "schedule.late": "warning",
    }
    assert wanted.items() <= found.items()
    assert "1 lapsed claim that nobody" in done.stdout
    assert "1 expired job that nobody" in done.stdout
    assert 1 == alkstore("doctor", "--strict", "--max-lag", 1).exit_code


def opened_source(store, kind, name):
    """A queue, or what is behind an outbox."""
    return store.queue(name) if kind == "queue" else store.outbox(name).backing


@pytest.mark.parametrize("name", ["mail", "two words; $x", "-v", "it's"])
def test_what_doctor_advises_can_be_pasted(do, alkstore, name):
    """Each hint is a command that finds what it speaks of, whatever the name of a queue."""

    async def spoil(store):
        for enqueue in (store.queue(name).enqueue, store.outbox(name).enqueue):
            await enqueue(1)
            await enqueue(2, EnqueueOpts(expires=0))
        for kind in ("queue", "outbox"):
            await (await opened_source(store, kind, name).claim_one("w")).fail("boom")

    do(spoil)
    found = json.loads(alkstore("doctor", "--json").stdout)["findings"]
    told = [shlex.split(f["message"].partition(": alkstore ")[2]) for f in found]
    hints = [words for words in told if words]

    assert ["sweep", "dead", "sweep", "dead"] == [words[0] for words in hints]
    for words in hints:
        done = alkstore(*words, columns=200)
        assert (0, "") == (done.exit_code, done.stderr)
        assert ("boom" if words[0] == "dead" else "1\n") in done.stdout
    for source in ("queue", "outbox"):
        swept = do(lambda store, kind=source: opened_source(store, kind, name).stats())
        assert (0, 2) == (swept.expired, swept.dead)


def test_doctor_fails_on_an_error_finding(do, sql, alkstore):
    """The target of a copy that is not whole is one."""
    do(fill)
    sql("UPDATE __alkstore_schedules SET name = '__alkstore_copy' WHERE name = 'tidy'")

    done = alkstore("doctor")

    assert 1 == done.exit_code
    assert "copy.unfinished" in done.stdout


def test_doctor_of_what_is_no_database(path, alkstore):
    """The finding is that it cannot be opened, and the status that of the database."""
    for there in (False, True):
        if there:
            path.write_text("no database, " * 1_000)
        done = alkstore("doctor", "--json")

        assert 3 == done.exit_code
        (finding,) = json.loads(done.stdout)["findings"]
        assert ("open", "error") == (finding["code"], finding["severity"])


def test_copy_is_whole_and_maps_numbers(do, path, tmp_path, alkstore, monkeypatch):
    """The map is there when the copy is whole; a second run verifies it.

    A URL may stand in the environment, as that of the source does here.
    """
    do(lambda store: store.queue("mail").enqueue_many(range(9)))
    urls = [f"sqlite:///{path}", f"sqlite:///{tmp_path / 'copy.db'}"]
    numbers = tmp_path / "numbers.jsonl"

    monkeypatch.setenv("OLD_URL", urls[0])
    first = alkstore("copy", "@OLD_URL", urls[1], "--map", numbers, "--json")
    second = alkstore("copy", *urls)

    assert 0 == first.exit_code, first.output
    report = json.loads(first.stdout)
    assert (9, 0, False) == (report["jobs"], report["events"], report["resumed"])
    assert list(range(1, 10)) == [
        json.loads(line)["old"] for line in numbers.read_text().splitlines()
    ]
    assert 0 == second.exit_code
    assert "The target is whole" in second.stdout
    assert "earlier run" in second.stdout
    assert [] == [*tmp_path.glob("*.part")]


def test_copy_is_refused_in_one_sentence(do, path, tmp_path, alkstore):
    """With what to do; no map is left behind."""
    do(fill)
    numbers = tmp_path / "numbers.jsonl"

    same = alkstore("copy", f"sqlite:///{path}", f"sqlite:///{path}")
    busy = alkstore(
        "copy", f"sqlite:///{path}", f"sqlite:///{tmp_path / 'copy.db'}", "--map", numbers
    )
    nowhere = path / "numbers.jsonl"
    unwritable = alkstore(
        "copy", f"sqlite:///{path}", f"sqlite:///{tmp_path / 'copy.db'}", "--map", nowhere
    )
    missing = alkstore("copy", "sqlite:///nowhere.db", f"sqlite:///{tmp_path / 'copy.db'}")

    nameless = alkstore("copy", "@NO_SUCH_URL", f"sqlite:///{path}")

    assert (1, 1, 3) == (same.exit_code, busy.exit_code, missing.exit_code)
    assert (2, 74) == (nameless.exit_code, unwritable.exit_code)
    assert str(nowhere) in unwritable.stderr
    assert "one database" in same.stderr
    assert "stop its workers" in busy.stderr
    assert 1 == len(busy.stderr.splitlines())
    assert not numbers.exists()
    assert [] == [*tmp_path.glob("*.part")]


def test_listen_ends_after_as_many_wakes_as_it_was_told(do, start):
    """It says when it listens; a wake is a line."""
    do(fill)
    process = start("listen", "news", "--count", "1", "--json")
    assert "listening to 'news'\n" == process.stderr.readline()

    do(lambda store: store.notify("news", 1))
    out, _ = process.communicate(timeout=30)

    assert (0, "news") == (process.returncode, json.loads(out)["channel"])


def test_listen_ends_at_its_timeout(do, alkstore):
    """With status 1: what was awaited did not come."""
    do(fill)

    assert 1 == alkstore("listen", "news", "--timeout", "0").exit_code


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_followed_stream_goes_on_until_a_signal(do, start, number):
    """New events are printed as they come, and a signal is the ordinary end."""
    do(fill)
    process = start("stream", "read", "orders", "--from", "5", "--follow", "--json")
    assert 5 == json.loads(process.stdout.readline())["offset"]

    do(lambda store: store.stream("orders").publish("new"))
    assert "new" == json.loads(process.stdout.readline())["payload"]
    process.send_signal(number)
    out, err = process.communicate(timeout=30)

    assert (0, "", "") == (process.returncode, out, err)


def test_a_reader_that_leaves_is_no_error(do, start):
    """`alkstore … | head -1` ends quietly, with the status of a broken pipe."""
    do(lambda store: store.stream("big").publish_many(["x" * 1_000] * 300))
    process = start("stream", "read", "big", "--follow", "--json")
    process.stdout.readline()
    process.stdout.close()

    assert 141 == process.wait(timeout=30)
    assert "" == process.stderr.read()


def test_an_interrupted_command_has_the_status_of_its_signal(do, start):
    """Without a traceback."""
    do(fill)
    process = start("status", "--watch-for", "600")
    # It is in its pause when it has the file open.
    while not any("app.db" in name for name in _open_files(process.pid)):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)

    assert (130, "", "") == (process.returncode, out, err.strip())


def _open_files(pid):
    names = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            names.append(str(link.readlink()))
        except OSError:
            continue
    return names


APP = """
from alkstore_core.worker import App

app = App()

@app.handler("mail")
async def send(mail):
    print("mail to", mail["to"], flush=True)

empty = App()

def function(): ...

async def lifespan(store):
    yield

undecorated = App(lifespan=lifespan)
undecorated.handler("mail")(print)
"""

LEAVING = """
import asyncio
import sys
from alkstore_core.worker import App

app = App(concurrency=2)

async def leave():
    sys.exit(0)

@app.handler("leaving")
async def wait_for_it(payload):
    await asyncio.gather(leave())

@app.handler("mail")
async def send(mail):
    print("mail to", mail["to"], flush=True)
"""

MANY = """
import asyncio
from alkstore_core.worker import App

app = App()

@app.handler("mail")
@app.outbox("mail")
@app.consumer("mail", "mail")
async def tell(text: str):
    print(text, flush=True)

met = set()

@app.handler("meeting")
async def meet(number: int):
    met.add(number)
    while len(met) < 12:
        await asyncio.sleep(0.01)
    if number == 0:
        print("met", len(met), flush=True)
"""

LIFE = """
import contextlib
from alkstore_core.worker import App

@contextlib.asynccontextmanager
async def lifespan(store):
    print("there are", await store.queues(), flush=True)
    yield
    print("left", flush=True)

app = App(lifespan=lifespan)

@app.handler("mail")
async def send(mail):
    print("mail to", mail["to"], flush=True)

@contextlib.asynccontextmanager
async def broken(store):
    raise OSError("no route to the mail server")
    yield

failing = App(lifespan=broken)
failing.handler("mail")(print)
"""


def test_a_foreign_file_is_left_as_it_is(alkstore, path):
    """Whoever looks makes no tables in somebody else's file."""
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE t (x)")
    before = path.read_bytes()
    for command in (["status"], ["jobs", "q"], ["dead", "list", "q"], ["doctor"]):
        done = alkstore(*command)
        assert "without a table of alkstore's" in done.output
        assert done.exit_code == 3
    assert before == path.read_bytes()


@pytest.mark.parametrize("wrong", ["mails", "Mail"])
def test_a_worker_tells_of_jobs_that_it_does_not_serve(do, start, tmp_path, wrong):
    """A mistyped name is not waited for in silence, and neither is a mistyped file."""
    do(lambda store: store.queue("mail").enqueue(1))
    do(lambda store: store.outbox(wrong).enqueue(1))
    do(lambda store: store.schedule("served", "@every 1d", wrong, 1))
    do(lambda store: store.schedule("tidy", "@every 1d", "tidying", 1))
    (tmp_path / "tasks.py").write_text(
        f"from alkstore_core.worker import App\napp = App()\n"
        f"@app.handler({wrong!r})\nasync def f(_): pass\n"
    )
    for options, expected in (
        (
            [],
            [
                f"app.db: queue {wrong!r}",
                "WARNING alkstore_core.cli.worker: jobs wait in queue 'mail'",
                f"wait in outbox {wrong!r}",
                "WARNING alkstore_core.cli.worker: schedule 'tidy' fills queue 'tidying'",
            ],
        ),
        (["--url", "sqlite:///other.db"], ["there was no file", f"other.db: queue {wrong!r}"]),
    ):
        process = start("worker", "tasks:app", "--no-schedules", *options)
        for text in expected:
            while text not in (line := process.stderr.readline()):
                assert line
                assert "'served'" not in line
        process.kill()


def test_a_worker_runs_an_app_until_a_signal(do, start, tmp_path):
    """It finds the module in the working directory, logs on stderr, and ends in order."""
    (tmp_path / "tasks.py").write_text(APP)
    do(lambda store: store.queue("mail").enqueue({"to": "ada"}))
    process = start("worker", "tasks:app")
    assert "mail to ada\n" == process.stdout.readline()

    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)

    assert 0 == process.returncode
    assert "SIGTERM: ending" in err
    assert [] == do(lambda store: store.queues())


@pytest.mark.parametrize("kind", ["queue", "outbox", "consumer"])
def test_a_worker_serves_what_it_is_told_to(do, start, tmp_path, kind):
    """The rest is for other processes, so it is nothing to warn of."""
    (tmp_path / "tasks.py").write_text(MANY)

    async def fill_all(store):
        await store.queue("mail").enqueue("queue")
        await store.outbox("mail").enqueue("outbox")
        await store.stream("mail").publish("consumer")

    do(fill_all)
    process = start("worker", "tasks:app", f"--{kind}", "mail", "--no-schedules")
    assert f"{kind}\n" == process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)

    assert (0, "") == (process.returncode, out)
    assert "no handler" not in err
    kinds = [k for k in ("queue", "outbox", "consumer") if f"{k} 'mail'" in err.splitlines()[0]]
    assert [kind] == kinds


def test_a_worker_runs_as_many_handlers_as_it_is_told_to(do, start, tmp_path):
    """Instead of the App's own number."""
    (tmp_path / "tasks.py").write_text(MANY)
    do(lambda store: store.queue("meeting").enqueue_many(range(12)))
    process = start("worker", "tasks:app", "--concurrency", "12", "--queue", "meeting")
    assert "met 12\n" == process.stdout.readline()
    process.kill()


def test_no_task_that_a_handler_began_ends_a_worker(do, start, tmp_path):
    """What calls `sys.exit` there has failed, as in the handler itself; others are not met."""
    (tmp_path / "tasks.py").write_text(LEAVING)
    leaving = do(lambda store: store.queue("leaving").enqueue(1))
    process = start("worker", "tasks:app")
    while "failed (attempt 1" not in (line := process.stderr.readline()):
        assert line
    do(lambda store: store.queue("mail").enqueue({"to": "ada"}))
    assert "mail to ada\n" == process.stdout.readline()

    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)

    assert 0 == process.returncode
    assert "SystemExit: 0" == do(lambda store: store.queue("leaving").get_job(leaving)).last_error


def test_a_worker_enters_the_lifespan_of_its_app(do, start, tmp_path):
    """With the store that it opened, around all handlers."""
    (tmp_path / "tasks.py").write_text(LIFE)
    do(lambda store: store.queue("mail").enqueue({"to": "ada"}))
    process = start("worker", "tasks:app")
    assert "there are ['mail']\n" == process.stdout.readline()
    assert "mail to ada\n" == process.stdout.readline()

    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)

    assert (0, "left\n") == (process.returncode, out)


@pytest.mark.parametrize(
    ("spec", "text", "sentence"),
    [
        ("tasks1", "", "write module:name, such as tasks:app"),
        ("nowhere1:app", "", "cannot import 'nowhere1': ModuleNotFoundError"),
        ("tasks2:app", "1/0", "cannot import 'tasks2': ZeroDivisionError: division by zero (/"),
        ("tasks3:app", "def f(:", "cannot import 'tasks3': SyntaxError"),
        ("tasks10:app", "import sys; sys.exit(0)", "import 'tasks10': SystemExit: 0 (/"),
        ("tasks11:app", "raise SystemExit", "cannot import 'tasks11': SystemExit (/"),
        ("tasks4:app", "import nowhere2", "No module named 'nowhere2' (/"),
        (
            "tasks5:nope",
            APP,
            "module 'tasks5' has no 'nope', but App 'app', 'empty', 'undecorated'",
        ),
        ("tasks6:function", APP, "tasks6:function is of type function"),
        ("tasks7:empty", APP, "nothing to do"),
        ("tasks12:app --queue mial", APP, "no handler for queue 'mial', but for queue 'mail'"),
        ("tasks13:app --outbox mail", APP, "no handler for outbox 'mail', but for queue 'mail'"),
        ("tasks8:undecorated", APP, "lifespan failed: TypeError: lifespan returned async_gen"),
        ("tasks9:failing", LIFE, "lifespan failed: OSError: no route to the mail server (/"),
    ],
)
def test_an_app_that_cannot_be_run_is_told_in_one_sentence(
    alkstore, tmp_path, monkeypatch, spec, text, sentence
):
    """Which of the things it was, and where."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    if text:
        (tmp_path / f"{spec.partition(':')[0]}.py").write_text(text)

    done = alkstore("worker", *spec.split(), "--no-schedules")

    assert (2 if ":" not in spec else 1) == done.exit_code
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("spec", "advice"),
    [
        ("tasks.py", "as tasks:app\n"),
        ("./tasks.py:jobs", "as tasks:jobs\n"),
        ("shop/tasks.py", "as shop.tasks:app\n"),
        ("../tasks.py", "as tasks:app in '/"),
    ],
)
def test_a_file_in_place_of_a_module_is_told_how_to_name_it(
    alkstore, tmp_path, monkeypatch, spec, advice
):
    """As it is imported, not where it lies."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (path := Path(spec.partition(":")[0])).parent.mkdir(exist_ok=True)
    path.touch()

    done = alkstore("worker", spec)

    assert 2 == done.exit_code
    assert f"is a file: write its module, {advice}" in done.stderr


@pytest.fixture
def terminal():
    """Our end and a command's end of a terminal of 20 lines and 40 columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 40, 0, 0))
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


def rest_of(process, ours):
    """All that a process still writes to its terminal."""
    seen = b""
    while process.poll() is None or select.select([ours], [], [], 0)[0]:
        if select.select([ours], [], [], 0.1)[0]:
            seen += os.read(ours, 65_536)
    return seen


def test_top_is_live_and_ends_at_q(do, start, terminal):
    """On a narrow terminal, too, which is as before when it has ended."""
    do(fill)
    ours, theirs = terminal
    before = termios.tcgetattr(theirs)
    process = start("top", "--interval", "0.2", stdin=theirs, stdout=theirs, stderr=theirs)
    seen = b""
    while b"backlog/s" not in seen:  # The second look.
        assert select.select([ours], [], [], 30)[0]
        seen += os.read(ours, 65_536)
    os.write(ours, b"q")
    seen += rest_of(process, ours)

    assert 0 == process.returncode
    for name in (b"Queues", b"mail", b"more lines"):
        assert name in seen
    assert before == termios.tcgetattr(theirs)


def test_top_ends_with_its_terminal(do, start):
    """In one sentence, with the status of output that cannot be written."""
    do(fill)
    ours, theirs = pty.openpty()
    process = start("top", "--interval", "600", stdin=theirs, stdout=theirs)
    os.close(theirs)
    assert select.select([ours], [], [], 30)[0]
    os.read(ours, 65_536)
    os.close(ours)
    _, err = process.communicate(timeout=30)

    assert 74 == process.returncode
    assert "the output cannot be written" in err
    assert 1 == err.count("\n")


def test_copy_shows_its_progress_on_a_terminal(do, path, tmp_path, start, terminal):
    """On stderr alone, so that stdout is the report."""
    do(lambda store: store.queue("mail").enqueue_many(range(5)))
    ours, theirs = terminal
    urls = f"sqlite:///{path}", f"sqlite:///{tmp_path / 'copy.db'}"
    process = start("copy", *urls, "--json", stderr=theirs)
    seen = rest_of(process, ours)

    assert 0 == process.returncode
    assert 5 == json.loads(process.stdout.read())["jobs"]
    for told in (b"reading jobs", b"copying jobs", b"verifying jobs", b"5/5"):
        assert told in seen


def test_top_wants_a_terminal(do, alkstore):
    """Into a pipe goes `status`."""
    do(fill)

    done = alkstore("top")

    assert 2 == done.exit_code
    assert "status" in done.stderr
