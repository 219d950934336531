"""Architectures for text alone: each job gives what docs/models.md says, and would show faults."""

from pathlib import Path
from typing import Any

import pytest

from tests.models.architectures import page
from tests.models.architectures.checkpoints import architectures, sees_pictures, write
from tests.models.architectures.comparison import VISIBLE, Comparison

pytestmark = pytest.mark.long

# One of each kind of layer, cache and outcome. `make torture` runs the others, too.
SPREAD = frozenset(
    "bamba bloom deepseek_v32 falcon gemma3n_text gemma4_text gpt2 gpt_oss jamba kimi_linear llama4_text mamba minimax "
    "mixtral phi3 qwen3_next recurrent_gemma rwkv".split()
)
IGNORE_MASKS = ("recurrent_gemma", "rwkv", "xlstm")  # in transformers; their prompts must not be padded


def texts() -> list[Any]:
    """Return the architectures; those beyond the spread are marked."""
    kinds = [kind for kind in architectures() if not sees_pictures(kind)]
    assert set(kinds) >= SPREAD
    return [pytest.param(kind, marks=() if kind in SPREAD else pytest.mark.torture) for kind in kinds]


@pytest.mark.parametrize("kind", texts())
def test_outcomes_are_those_of_the_page(kind: str, tmp_path: Path) -> None:
    write(kind, tmp_path)
    comparison = Comparison(tmp_path)
    changes = comparison.visible()
    assert min(changes.values()) > VISIBLE or (kind in IGNORE_MASKS and changes["mask"] == 0)
    words = {job: outcome.word for job, outcome in comparison.outcomes().items()}
    assert words == {job: outcome.word for job, outcome in page.read_results()[kind].items()}
