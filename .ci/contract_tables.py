"""Write the tables of properties into the contract's page, or with `--check` tell if they differ.

    .venv/bin/python .ci/contract_tables.py [--check]

Each table stands between a pair of comments that names it.
"""

import re
import sys
from pathlib import Path

from alkstore_contract import manifest
from alkstore_contract.show import properties_markdown
from verification_backlog import BACKLOG, ids_of

PAGE = Path(__file__).resolve().parent.parent / "docs/architecture/core-contract.md"


def backlog_table() -> str:
    """Return which properties show what the specification wants verified."""
    known = list(manifest())
    rows = [
        f"| {item.wanted} | {', '.join(f'`{id_}`' for id_ in ids_of(item, known))} |"
        for item in BACKLOG
    ]
    return "\n".join(["| To be verified | Properties |", "|---|---|", *rows]) + "\n"


def with_tables(text: str) -> str:
    """Return the page with its tables made anew."""
    tables = {
        "properties": properties_markdown(manifest().values()),
        "verification": backlog_table(),
    }
    for name, table in tables.items():
        begin, end = f"<!-- table: {name} -->", f"<!-- end of table: {name} -->"
        pattern = re.compile(f"{re.escape(begin)}\n.*?{re.escape(end)}", flags=re.DOTALL)
        if len(pattern.findall(text)) != 1:
            sys.exit(f"{PAGE.name} needs one place for the table {name}: {begin} … {end}")
        text = pattern.sub(lambda _, new=f"{begin}\n\n{table}\n{end}": new, text)
    return text


def main() -> int:
    """Write or compare."""
    old = PAGE.read_text(encoding="utf-8")
    new = with_tables(old)
    if "--check" in sys.argv:
        if old != new:
            print(f"{PAGE.name} is out of step: run .venv/bin/python .ci/contract_tables.py")
        return int(old != new)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
