"""`alkstore-contract`: try an engine, read what it must keep, check and compare reports."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from alkstore_contract import bench, show, verifying
from alkstore_contract.console import Console, UsageError, clear, complain, drop_output
from alkstore_contract.harness import UnfitHarnessError
from alkstore_contract.parent import UnknownHarnessError
from alkstore_contract.progress import Progress
from alkstore_contract.properties import manifest
from alkstore_contract.report import ReportError
from alkstore_contract.trial import conduct, selected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alkstore_contract.report import Report

CONFORMS: Final = 0
DOES_NOT_CONFORM: Final = 1
USAGE: Final = 2
INCOMPLETE: Final = 3
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141

_STATUS = {
    "conforms": CONFORMS,
    "does-not-conform": DOES_NOT_CONFORM,
    "incomplete": INCOMPLETE,
}
_EPILOG = """\
exit status of run: 0 conforms, 1 does not conform, 2 wrong usage, 3 incomplete;
of verify and diff: 0 as it should be or equal, 1 not so, 2 wrong usage;
of bench: 0 all was measured, 1 something was not, 2 wrong usage"""
_REFUSALS = (LookupError, ReportError, UnfitHarnessError, UnknownHarnessError, UsageError)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; gives the exit status."""
    if sys.stdout is None:  # Closed by whoever started us: only the exit status is wanted.
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as long as we live
    try:
        options = _parser().parse_args(arguments)
        return int(options.command(options))
    except _REFUSALS as error:
        complain(str(error))
        return USAGE
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        drop_output()
        return BROKEN_PIPE
    except OSError as error:
        complain(str(error))
        drop_output()
        return USAGE


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="alkstore-contract",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=raw,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="try an engine and judge it")
    run.add_argument("harness", help="MODULE:HARNESS, or the name of an installed one")
    run.add_argument("--report", type=Path, metavar="FILE", help="write the report as JSON")
    run.add_argument("--markdown", type=Path, metavar="FILE", help="write it as a page")
    run.add_argument(
        *("--select", "-s"),
        action="append",
        default=[],
        metavar="MECHANISM",
        help="only this mechanism or id, may be given several times; "
        "the verdict is then at best `incomplete`",
    )
    run.add_argument(
        "--jobs", "-j", type=_jobs, default=_cpus(), metavar="N", help="processes (default: CPUs)"
    )
    run.set_defaults(command=_run)

    listing = commands.add_parser("list", help="list the properties")
    form = listing.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="as the table of the contract's page")
    form.add_argument("--json", action="store_true", help="for programs")
    listing.set_defaults(command=_list)

    explain = commands.add_parser("explain", help="show one property and its source")
    explain.add_argument("id")
    explain.set_defaults(command=_explain)

    verify = commands.add_parser("verify", help="check a report against what is installed")
    verify.add_argument("subject", help="a report, or the distribution of an engine that has one")
    verify.set_defaults(command=_verify)

    diff = commands.add_parser("diff", help="compare what two reports found")
    diff.add_argument("old", help="a report, or a distribution")
    diff.add_argument("new", help="a report, or a distribution")
    diff.set_defaults(command=_diff)

    measure = commands.add_parser(
        "bench", help="measure an engine", description=bench.__doc__, formatter_class=raw
    )
    bench.add_options(measure)
    return parser


def _jobs(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a number of processes is at least 1, not {text!r}")
    return int(text)


def _cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _run(options: argparse.Namespace) -> int:
    written = [path for path in (options.report, options.markdown) if path is not None]
    for path in written:
        clear(path)
    if sys.flags.optimize:
        raise UsageError("the contract is not judged under `python -O`: asserts would be gone")
    console = Console()
    with Progress(console, len(selected(options.select))) as progress:
        report = conduct(options.harness, options.select, options.jobs, progress.tell)
    unwritten = None
    try:
        if options.report:
            report.write(options.report)
        if options.markdown:
            page = show.report_markdown(report, manifest())
            options.markdown.write_text(page, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        unwritten = f"the report could not be written: {error}"
    _print_report(console, report)
    if unwritten is None:
        return _STATUS[report.verdict]
    complain(unwritten)
    return _STATUS[report.verdict] or INCOMPLETE


def _print_report(console: Console, report: Report) -> None:
    whys = report.run["whys"]
    for id_, outcome in report.canonical["outcomes"].items():
        if outcome["state"] == "failed":
            console.rule(id_, align="left")
            console.print(whys[id_].rstrip(), markup=False, highlight=False, soft_wrap=True)
    nothing_ran = not any(o["cases"] for o in report.canonical["outcomes"].values())
    if show.wanting(report) and not nothing_ran:
        console.print(show.wanting_table(report, manifest()))
    console.print(show.summary_table(report))
    for reason in dict.fromkeys((*report.canonical["reasons"], *report.run["undigested"])):
        console.print(f"* {reason}", markup=False, highlight=False, soft_wrap=True)
    style = "bold green" if report.verdict == "conforms" else "bold red"
    console.print(show.SAYS[report.verdict], style=style)


def _list(options: argparse.Namespace) -> int:
    properties = manifest().values()
    if options.json:
        fields = ("id", "sentence", "decided", "since", "group", "runs", "digest")
        listed = [{name: getattr(prop, name) for name in fields} for prop in properties]
        sys.stdout.write(json.dumps(listed, indent=1) + "\n")
    elif options.markdown:
        sys.stdout.write(show.properties_markdown(properties))
    else:
        Console().print(show.properties_table(properties))
    return 0


def _explain(options: argparse.Namespace) -> int:
    prop = manifest().get(options.id)
    if prop is None:
        raise LookupError(f"there is no property {options.id!r}; `list` shows them")
    source = Path(inspect.getsourcefile(prop.function) or "")
    line = inspect.getsourcelines(prop.function)[1]
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(f"{prop.id}\n{prop.sentence}\n")
    console.print(f"decided  {prop.decided}\nsince    {prop.since}\ngroup    {prop.group}")
    console.print(f"cases    {', '.join(map(repr, prop.cases)) or 'one, without a value'}")
    console.print(f"source   {source}:{line}\n\n{inspect.getsource(prop.function).rstrip()}")
    return 0


def _verify(options: argparse.Namespace) -> int:
    report = verifying.find(options.subject)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    objections = verifying.objections(report)
    for objection in objections:
        console.print(f"* {objection}")
    if objections:
        console.print("refused", style="bold red")
        return 1
    console.print(f"{show.heading(report)}: verified", style="bold green")
    return 0


def _diff(options: argparse.Namespace) -> int:
    changes = verifying.changes(verifying.find(options.old), verifying.find(options.new))
    console = Console(highlight=False, markup=False, soft_wrap=True)
    for where, old, new in changes:
        console.print(f"{where}: {old} -> {new}")
    return 1 if changes else 0


if __name__ == "__main__":
    sys.exit(main())
