"""Architectures for pictures and text: each job gives what docs/models.md says, and would show faults."""

from pathlib import Path

import pytest

from tests.models.architectures import page
from tests.models.architectures.checkpoints import architectures, sees_pictures, write
from tests.models.architectures.comparison import VISIBLE, Comparison

pytestmark = pytest.mark.long
FAINT = {"idefics2": 2e-3, "inkling2": 1e-4}  # pictures change the answers of these small checkpoints less


@pytest.mark.parametrize("kind", [kind for kind in architectures() if sees_pictures(kind)])
def test_outcomes_are_those_of_the_page(kind: str, tmp_path: Path) -> None:
    write(kind, tmp_path)
    comparison = Comparison(tmp_path)
    changes = comparison.visible()
    assert changes.pop("picture") > FAINT.get(kind, VISIBLE)
    assert min(changes.values()) > VISIBLE
    words = {job: outcome.word for job, outcome in comparison.outcomes().items()}
    assert words == {job: outcome.word for job, outcome in page.read_results()[kind].items()}
