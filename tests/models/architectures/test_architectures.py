"""Every architecture of transformers has a small checkpoint or a reason; the page is what was recorded."""

from pathlib import Path
from typing import Any

import pytest

from actors.vlm import model_inputs
from tests.models.architectures import page
from tests.models.architectures.checkpoints import UNBUILT, architectures, mapped, write
from tests.models.architectures.comparison import DIFFERS, EQUAL, TOLERANCE, VISIBLE, Comparison
from tests.models.architectures.picture_parts import WRITERS

# The cheapest of each kind: plain attention, windows, linear attention with three axes, experts with shared latents.
REPRESENTATIVES = ("llama", "gemma3_text", "qwen3_5", "deepseek_v3")


def test_every_architecture_is_compared_or_has_a_reason() -> None:
    names = mapped()
    assert sorted(set(names) & UNBUILT.keys()) == sorted(UNBUILT), "no longer in transformers"
    assert WRITERS.keys() <= set(names)
    assert not WRITERS.keys() & UNBUILT.keys()
    assert list(page.read_results()) == architectures(), "run python -m tests.models.architectures"


def test_the_page_is_what_was_recorded() -> None:
    results = page.read_results()
    assert page.PAGE.read_text(encoding="utf-8") == page.render(results)
    wrong = [(kind, job) for kind, jobs in results.items() for job, cell in jobs.items() if cell.word == DIFFERS]
    assert wrong == [], "an answer that differs from transformers must be refused"


@pytest.mark.parametrize("kind", REPRESENTATIVES)
def test_some_architectures(kind: str, tmp_path: Path) -> None:
    write(kind, tmp_path)
    outcomes = Comparison(tmp_path, jobs=("naive", "cascade", "generate", "loglik")).outcomes()
    recorded = page.read_results()[kind]
    assert {job: cell.word for job, cell in outcomes.items()} == {job: recorded[job].word for job in outcomes}


def test_a_wrong_mask_and_a_wrong_order_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("llama", tmp_path)
    cut = model_inputs.cut
    for name in ("attention_mask", "input_ids"):

        def wrong(inputs: dict[str, Any], length: int, name: str = name) -> dict[str, Any]:
            """Mask a word of the prompt, or put two words in the wrong order."""
            parts = cut(inputs, length)
            changed = parts[name].clone()
            changed[0, 8:18] = 0 if name == "attention_mask" else changed[0, 8:18].flip(0)
            return parts | {name: changed}

        with monkeypatch.context() as patch:
            patch.setattr(model_inputs, "cut", wrong)
            outcome = Comparison(tmp_path, jobs=("naive",)).outcomes()["naive"]
        assert (outcome.word, (outcome.difference or 0) > VISIBLE) == (DIFFERS, True), name
    assert Comparison(tmp_path, jobs=("naive",)).outcomes()["naive"].word == EQUAL
    assert VISIBLE > 10 * TOLERANCE
