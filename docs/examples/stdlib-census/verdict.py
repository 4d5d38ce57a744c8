"""The verdict: evidence on one side, a direct count of the same files on the other."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from counting import Counts, package_of, sum_counts
from screen import Row

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable

    from evidence import Evidence

LONGEST = 80


def judge(evidence: Evidence, direct: dict[str, Counts]) -> list[Row]:
    """One row for each promise, good or not, with what was found."""
    return [
        check_files(evidence, direct),
        check_results(evidence, direct),
        check_counts(evidence, direct),
        check_events(evidence, direct),
        check_projection(evidence, direct),
        check_queues(evidence),
        check_redelivery(evidence),
        check_resumption(evidence),
        check_report(evidence, direct),
        check_schedule(evidence),
        check_exits(evidence),
    ]


def check_files(evidence: Evidence, direct: dict[str, Counts]) -> Row:
    """The business rows are those of the files, and of nothing that was rolled back."""
    wrong = not_once(direct, (path for path, _ in evidence.files))
    return _row("files enqueued", wrong, f"{len(direct):,}; a rolled-back one left no trace")


def check_results(evidence: Evidence, direct: dict[str, Counts]) -> Row:
    """Each file has one result, made by the job that was enqueued for it."""
    wrong = not_once(direct, (path for path, _, _ in evidence.results))
    jobs = dict(evidence.files)
    wrong += [
        f"{path}: a stranger's job"
        for path, job_id, _ in evidence.results
        if path in jobs and jobs[path] != job_id
    ]
    return _row("results", wrong, f"{len(direct):,}; each file exactly once")


def check_counts(evidence: Evidence, direct: dict[str, Counts]) -> Row:
    """File by file, the workers counted what one process counts."""
    counted = {path: counts for path, _, counts in evidence.results}
    wrong = [
        f"{path}: {counted.get(path)} for {counts}"
        for path, counts in direct.items()
        if counted.get(path) != counts
    ]
    total = sum_counts(direct.values())
    return _row(
        "as counted directly",
        wrong,
        f"{total.lines:,} lines, {total.functions:,} functions, {total.classes:,} classes",
    )


def check_events(evidence: Evidence, direct: dict[str, Counts]) -> Row:
    """Each file has one event."""
    wrong = not_once(direct, (key for key, _ in evidence.events))
    return _row("events", wrong, f"{len(direct):,}; none missed, none twice")


def check_projection(evidence: Evidence, direct: dict[str, Counts]) -> Row:
    """The projector's totals are those of the direct count, and so is its offset."""
    files: dict[str, int] = defaultdict(int)
    sums: dict[str, Counts] = defaultdict(Counts)
    for path, counts in direct.items():
        files[package_of(path)] += 1
        sums[package_of(path)] += counts
    expected = {package: (files[package], sums[package]) for package in files}
    wrong = [
        f"{package}: {evidence.totals.get(package)} for {expected.get(package)}"
        for package in sorted(expected.keys() | evidence.totals.keys())
        if evidence.totals.get(package) != expected.get(package)
    ]
    if evidence.saved_offset != evidence.last_offset:
        wrong.append(f"stands at {evidence.saved_offset} of {evidence.last_offset}")
    return _row("projected totals", wrong, f"equal, package by package ({len(expected)})")


def check_queues(evidence: Evidence) -> Row:
    """Nothing waits, is claimed or lies dead in any queue."""
    wrong = [f"{n} in {name}" for name, n in evidence.left.items() if n]
    return _row("jobs left", wrong, "none: waiting, claimed or dead")


def check_redelivery(evidence: Evidence) -> Row:
    """What the killed worker held went to others."""
    story = evidence.story
    again = {job_id for job_id, _ in evidence.redeliveries}
    wrong = [f"job {job_id} never came back" for job_id in sorted(story.held - again)]
    if not story.held:
        wrong = ["no worker was killed while it held jobs"]
    done = sum(done for job_id, done in evidence.redeliveries if job_id in story.held)
    value = f"all {len(story.held)} that {story.killed} held when killed; {done} already done"
    return _row("redelivered", wrong, value)


def check_resumption(evidence: Evidence) -> Row:
    """The second projector went on where the first one died."""
    at = evidence.story.resumed_at
    wrong = [] if at else ["the projector was never killed after it had saved an offset"]
    return _row("projector resumed", wrong, f"after SIGKILL, from its saved offset {at}")


def check_report(evidence: Evidence, direct: dict[str, Counts]) -> Row:
    """One worker wrote the report; it arrived once and says what the direct count says."""
    total = sum_counts(direct.values())
    delivered = evidence.story.delivered
    wrong = []
    if len(evidence.reports) != 1 or len(delivered) != 1:
        wrong.append(f"{len(evidence.reports)} were written, {len(delivered)} delivered")
    elif evidence.reports[0] != (delivered[0].worker, delivered[0].lock_token, len(direct)):
        wrong.append(f"{delivered[0]} is not {evidence.reports[0]}")
    elif delivered[0].counts != total:
        wrong.append(f"{delivered[0].counts} for {total}")
    if not evidence.story.lock_was_held:
        wrong.append("its lock was free")
    writer = delivered[0].worker if delivered else ""
    return _row("final report", wrong, f"one, by {writer}, who got the lock; sent by outbox")


def check_schedule(evidence: Evidence) -> Row:
    """The progress jobs came."""
    n = evidence.story.progress_jobs
    return _row("progress jobs", [] if n else ["none"], f"{n}, scheduled @every 1s")


def check_exits(evidence: Evidence) -> Row:
    """Whoever was not killed ended well."""
    exits = evidence.story.exits
    wrong = [f"{name}: {code}" for name, code in exits.items() if code != 0]
    if not exits:
        wrong = ["no process came to its end"]
    return _row("processes", wrong, f"{len(exits)} ended by themselves, two were killed")


def not_once(expected: Collection[str], found: Iterable[str | None]) -> list[str]:
    """What is missing, there more than once, or not expected at all."""
    times: Counter[Hashable] = Counter(found)
    wrong = [f"{name} is missing" for name in expected if not times[name]]
    wrong += [f"{name} is there {n} times" for name, n in times.items() if n > 1]
    wrong += [f"{name} does not belong" for name in times.keys() - set(expected)]
    return wrong


def _row(name: str, wrong: list[str], right: str) -> Row:
    if not wrong:
        return Row(good=True, name=name, value=right)
    first = wrong[0] if len(wrong[0]) <= LONGEST else f"{wrong[0][:LONGEST]}..."
    more = f" (and {len(wrong) - 1:,} more)" if len(wrong) > 1 else ""
    return Row(good=False, name=name, value=f"{first}{more}")
