"""The recipes run on Postgres as well, with the differences that their comments name."""

import json
import os
import subprocess
import sys

import pytest
from test_examples import RUNNER, fences

from wheelhouse import ROOT

PAGE = ROOT / "docs/recipes.md"
CHANGES = {
    "from alkstore_sqlite import SqliteStore": (
        "import os\nfrom alkstore_postgres import PostgresStore"
    ),
    'SqliteStore("app.db")': 'PostgresStore(os.environ["DATABASE_URL"])',
    "INTEGER PRIMARY KEY": "BIGSERIAL PRIMARY KEY",
    "max(slots.": "greatest(slots.",
}


@pytest.mark.parametrize(("line", "source"), [(at, body) for at, _, body in fences(PAGE, "python")])
def test_on_postgres(line, source, postgres_url, tmp_path):
    """Nothing else changes."""
    for old, new in CHANGES.items():
        source = source.replace(old, new)
    done = subprocess.run(
        [sys.executable, "-W", "error", RUNNER],
        check=False,
        cwd=tmp_path,
        env={**os.environ, "DATABASE_URL": postgres_url},
        input=json.dumps({"page": PAGE.name, "blocks": [(line, source)]}),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
