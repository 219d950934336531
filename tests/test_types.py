"""The annotations of all code agree; `make lint` runs mypy by itself.

As a test it runs next to the others: mypy uses one processor for a minute.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_mypy_reports_nothing() -> None:
    done = subprocess.run([sys.executable, "-m", "mypy"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
