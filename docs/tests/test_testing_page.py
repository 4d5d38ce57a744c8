"""The tests that the page on testing shows are collected by pytest, and pass."""

import re
import subprocess
import sys

from test_examples import fences

from wheelhouse import ROOT

PAGE = ROOT / "docs/guides/testing.md"


def test_the_pages_tests_pass(tmp_path):
    """Each block with a test is a module of a suite with the configuration that is shown."""
    (configuration,) = [body for _, _, body in fences(PAGE, "toml")]
    (tmp_path / "pyproject.toml").write_text(configuration)
    blocks = [body for _, _, body in fences(PAGE, "python") if "def test_" in body]
    for number, body in enumerate(blocks):
        (tmp_path / f"test_block_{number}.py").write_text(body)
    expected = sum(len(re.findall(r"^(?:async )?def test_", b, re.MULTILINE)) for b in blocks)

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )

    assert 0 == done.returncode, done.stdout + done.stderr
    assert f"{expected} passed" in done.stdout
    assert 6 <= expected
