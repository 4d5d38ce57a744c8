"""Print the sum of what all legs ran, from the JUnit files they left under `.tox/junit/`.

The last line is `N passed, N failed` (with `, N skipped` where there were any); the exit status
says whether anything ran and nothing failed. Before it stand the legs that tox found failing, with
the end of what their failed commands printed: a leg may fail without a test.
"""

import json
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

TOX = Path(__file__).resolve().parent.parent / ".tox"
JUNIT = TOX / "junit"
RESULT = TOX / "result.json"
LINES = 15


def counts(path: Path) -> tuple[int, int, int]:
    """Return passed, failed and skipped cases of one leg; an error counts as a failure."""
    passed = failed = skipped = 0
    for suite in ET.parse(path).getroot().iter("testsuite"):  # noqa: S314 - our own pytest wrote it
        bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        out = int(suite.get("skipped", 0))
        passed += int(suite.get("tests", 0)) - bad - out
        failed += bad
        skipped += out
    return passed, failed, skipped


def failures(path: Path) -> dict[str, list[str]]:
    """Return the failed legs of a result of tox, each with the last lines of what failed in it."""
    if not path.exists():
        return {}
    legs = json.loads(path.read_text(encoding="utf-8"))["testenvs"]
    return {
        name: [
            line
            for command in leg.get("test", [])
            if command["retcode"]
            for line in (command["output"] + command["err"]).splitlines()[-LINES:]
        ]
        for name, leg in legs.items()
        if not leg.get("result", {}).get("success", True)
    }


def main() -> int:
    """Print one line per leg, then the total."""
    legs = {path.stem: counts(path) for path in sorted(JUNIT.glob("*.xml"))}
    for name, (passed, failed, skipped) in legs.items():
        if not (passed or failed or skipped):
            continue  # a second pass without tests
        print(f"{name:24} {passed:6} passed {failed:4} failed {skipped:4} skipped")
    broken = failures(RESULT)
    for name, lines in broken.items():
        print(f"{name:24} FAILED")
        for line in lines:
            print(f"    {line}")
    passed, failed, skipped = (
        (sum(c) for c in zip(*legs.values(), strict=True)) if legs else (0, 0, 0)
    )
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or broken or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
