"""`alkstore-contract`: try an engine, read what it must keep, check and compare reports."""

from __future__ import annotations

import argparse
import inspect
import io
import json
import os
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from alkstore_contract import show, verifying
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
of verify and diff: 0 as it should be or equal, 1 not so, 2 wrong usage"""
_BENCH = "alkstore_contract.bench"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; gives the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if sys.stdout is None:  # Closed by whoever started us: only the exit status is wanted.
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as long as we live
    try:
        if given[:1] == ["bench"] and find_spec(_BENCH):
            return int(import_module(_BENCH).main(given[1:]))
        options = _parser().parse_args(given)
        return int(options.command(options))
    except (LookupError, ReportError, UnknownHarnessError) as error:
        _complain(str(error))
        return USAGE
    except KeyboardInterrupt:
        _complain("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return BROKEN_PIPE
    except OSError as error:
        _complain(str(error))
        _drop_output()
        return USAGE


def _complain(what: str) -> None:
    print(f"alkstore-contract: {what}", file=sys.stderr)  # noqa: T201 - a command's error


def _drop_output() -> None:
    # Not least what is still buffered: the interpreter would try it once more when it ends.
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)


class _Console(Console):
    """Once it cannot write it is silent: what was begun goes on, and its exit status counts."""

    def __init__(self, **options: Any) -> None:
        # An engine's error may hold what the terminal's encoding cannot carry.
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        super().__init__(**options)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print; an error of the output is told once."""
        try:
            super().print(*objects, **options)
        except OSError as error:
            _complain(f"what is printed is lost from here on: {error}")
            self.on_broken_pipe()

    def on_broken_pipe(self) -> None:
        """Drop this and whatever follows."""
        self.quiet = True
        _drop_output()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="alkstore-contract",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
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

    if find_spec(_BENCH):
        commands.add_parser("bench", help="measure an engine; see `bench --help`", add_help=False)
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
        _clear(path)
    if sys.flags.optimize:
        raise LookupError("the contract is not judged under `python -O`: asserts would be gone")
    console = _Console()
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
    _complain(unwritten)
    return _STATUS[report.verdict] or INCOMPLETE


def _clear(path: Path) -> None:
    """Make a file's place free and known to be writable.

    Whatever becomes of this run, an older verdict must not be taken for its own; and nobody
    wants to hear after an hour that there was no place for it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.touch()
        path.unlink()
    except OSError as error:
        raise LookupError(f"no report can be written to {str(path)!r}: {error}") from error


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
    for reason in (*report.canonical["reasons"], *report.run["undigested"]):
        console.print(f"* {reason}", markup=False, highlight=False)
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
        _Console().print(show.properties_table(properties))
    return 0


def _explain(options: argparse.Namespace) -> int:
    prop = manifest().get(options.id)
    if prop is None:
        raise LookupError(f"there is no property {options.id!r}; `list` shows them")
    source = Path(inspect.getsourcefile(prop.function) or "")
    line = inspect.getsourcelines(prop.function)[1]
    console = _Console(highlight=False, markup=False, soft_wrap=True)
    console.print(f"{prop.id}\n{prop.sentence}\n")
    console.print(f"decided  {prop.decided}\nsince    {prop.since}\ngroup    {prop.group}")
    console.print(f"cases    {', '.join(map(repr, prop.cases)) or 'one, without a value'}")
    console.print(f"source   {source}:{line}\n\n{inspect.getsource(prop.function).rstrip()}")
    return 0


def _verify(options: argparse.Namespace) -> int:
    report = verifying.find(options.subject)
    console = _Console(highlight=False, markup=False, soft_wrap=True)
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
    console = _Console(highlight=False, markup=False, soft_wrap=True)
    for where, old, new in changes:
        console.print(f"{where}: {old} -> {new}")
    return 1 if changes else 0


if __name__ == "__main__":
    sys.exit(main())
