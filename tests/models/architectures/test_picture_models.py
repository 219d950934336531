"""Architectures for pictures and text: each job gives what docs/models.md says, and would show faults."""

from pathlib import Path
from typing import Any

import pytest

from tests.models.architectures import page
from tests.models.architectures.checkpoints import architectures, sees_pictures, write
from tests.models.architectures.comparison import VISIBLE, Comparison

pytestmark = pytest.mark.long
FAINT = {"idefics2": 2e-3, "inkling2": 1e-4}  # pictures change the answers of these small checkpoints less
# One of each kind of picture tensors, layer, cache and outcome. `make torture` runs the others, too.
SPREAD = frozenset(
    "aya_vision ernie4_5_vl_moe gemma3 gemma4 glm46v idefics2 inkling2 internvl kimi_k25 lfm2_vl llama4 llava_next "
    "minicpmv4_6 mistral3 mllama molmo2 muse_glimmer qwen2_5_vl qwen3_5 qwen3_5_moe qwen3_vl qwen3_vl_moe "
    "smolvlm".split()
)


def pictures() -> list[Any]:
    """Return the architectures; those beyond the spread are marked."""
    kinds = [kind for kind in architectures() if sees_pictures(kind)]
    assert set(kinds) >= SPREAD
    return [pytest.param(kind, marks=() if kind in SPREAD else pytest.mark.torture) for kind in kinds]


@pytest.mark.parametrize("kind", pictures())
def test_outcomes_are_those_of_the_page(kind: str, tmp_path: Path) -> None:
    write(kind, tmp_path)
    comparison = Comparison(tmp_path)
    changes = comparison.visible()
    assert changes.pop("picture") > FAINT.get(kind, VISIBLE)
    assert min(changes.values()) > VISIBLE
    words = {job: outcome.word for job, outcome in comparison.outcomes().items()}
    assert words == {job: outcome.word for job, outcome in page.read_results()[kind].items()}
