"""Every process collects the same tests in the same order: xdist refuses to start a run otherwise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LEAST_TESTS = 1000  # far below what there is: an empty listing must not pass


def own_tests(session: pytest.Session) -> list[str]:
    """Ids of the tests that this process collected."""
    return [item.nodeid for item in session.items]


def collected(hash_seed: int) -> list[str]:
    """Ids of all tests as a new process collects them, with `hash_seed` for the order of sets."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return [line for line in done.stdout.splitlines() if line.startswith("tests/") and "::" in line]


@pytest.mark.timeout(600)
def test_processes_collect_the_same_tests(request: pytest.FixtureRequest) -> None:
    """Another hash seed and a later time change no id and no order.

    A collection takes some 25 s of a processor, so a run of all tests is compared with what it collected itself. A run
    of a part, such as this file alone, collects twice.
    """
    new = collected(1)
    assert len(new) > LEAST_TESTS
    own_test_ids = own_tests(request.session)
    if len(own_test_ids) < len(new) / 2:
        own_test_ids = collected(2)
    # A run may have deselected tests (-m, -k); what it has must be there and in the same order.
    names, chosen = set(new), set(own_test_ids)
    assert [test for test in own_test_ids if test not in names] == []
    assert own_test_ids == [test for test in new if test in chosen]
