"""Every property would find what it is for: each has a saboteur that it catches."""

from __future__ import annotations

import pytest
from faults import faults_of_tables
from matrix import Matrix

pytestmark = pytest.mark.once


def test_the_tables_are_whole():
    """Each property has a saboteur; half are stateful; reasons are given; none equal another."""
    matrix = Matrix()
    faults = faults_of_tables(matrix.table, matrix.properties)
    assert not faults, "\n".join(faults)


@pytest.mark.alone
@pytest.mark.timeout(600)
def test_each_saboteur_fails_its_property_and_no_relative_unlisted():
    """The whole matrix is the leg `saboteurs`; here every twentieth meets its own family."""
    matrix = Matrix()
    _, faults = matrix.run(matrix.chosen([])[::20], full=False)
    assert not faults, "\n".join(faults)


@pytest.mark.alone
@pytest.mark.timeout(600)
def test_the_model_finds_a_sample_of_the_stateful_ones():
    """All of them are tried in the leg `saboteurs`; here every twentieth."""
    matrix = Matrix()
    sample = matrix.stateful(every=20)
    assert sample
    _, faults = matrix.run_model(sample)
    assert not faults, "\n".join(faults)
