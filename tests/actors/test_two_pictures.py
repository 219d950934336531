"""Items of two pictures and of texts in several roles, through each stage that asks a model about them."""

from typing import Any

import pyarrow as pa
import pytest

from actors.generator import Generator, GeneratorSettings
from actors.loglik_rater import LoglikRater, LoglikSettings
from actors.preparers import PromptPreparer
from actors.vlm.settings import ContextSettings, ModelSettings
from tests.actors.rubric_stages import closed, reasoned
from tests.actors.vlm.helpers import COMPARISON, MODEL, png

INSTRUCTION = {
    "name": "difference",
    "version": 1,
    "source": "made for a test",
    "context": {"fields": ["prompt", "scenario"]},
    "system": "You know {{ scenario }}.",
    "parts": {"first": "One:", "second": "Two:", "question": "Which is {{ prompt }}?"},
    "order": ["first", "picture1", "second", "picture2", "question"],
    "start": "It is the",
}
TINY = ModelSettings(checkpoint=MODEL, dtype="float32")
PAIR: list[bytes | None] = [png(1), png(2)]
TURNED = PAIR[::-1]


def batch(*, pictures: list[list[bytes | None]], scenario: str = "the sea") -> pa.Table:
    names = [f"item{number}" for number in range(len(pictures))]
    columns = {
        "item_id": names,
        "pictures": pa.array(pictures, pa.list_(pa.large_binary())),
        "status": ["ok"] * len(names),
        "prompt": ["a sunset"] * len(names),
        "scenario": [scenario] * len(names),
    }
    return pa.table(columns)


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    return table.to_pylist()


@pytest.mark.parametrize("stages", [closed, reasoned])
def test_judge(stages: Any) -> None:
    judge = stages(COMPARISON) if stages is closed else stages(COMPARISON, max_tokens=3)
    pair, turned, single, three, gone = rows_of(
        judge(batch(pictures=[PAIR, TURNED, [png(1)], [*PAIR, png(3)], [png(1), None]]))
    )
    assert pair["status"] == turned["status"] == "ok"
    assert pair["probabilities"] != pytest.approx(turned["probabilities"], abs=1e-4)
    assert (single["status"], single["error_kind"]) == ("skipped", "picture_count")
    assert "1 pictures" in single["error_message"]
    assert "shows 2" in single["error_message"]
    assert (three["status"], three["error_kind"]) == ("skipped", "picture_count")
    assert (gone["status"], gone["error_kind"]) == ("missing_input", "no_picture")
    (other,) = rows_of(judge(batch(pictures=[PAIR], scenario="a wedding")))  # in the system's turn only
    assert pair["probabilities"] != pytest.approx(other["probabilities"], abs=1e-6)
    assert judge.preparer.take_tally()["pictures/shown"] == 6


def test_generate_and_loglik() -> None:
    prepared = PromptPreparer(ContextSettings(), model=TINY, instruction=INSTRUCTION)(
        batch(pictures=[PAIR, TURNED, [png(1)]])
    )
    assert prepared["error_kind"].to_pylist() == [None, None, "picture_count"]
    settings = GeneratorSettings(samples=1, max_tokens=3, temperature=0, refusals={"en": {"refusal": ["^I cannot"]}})
    texts = Generator(settings, model=TINY, prompt="difference", prompt_hash="h", threads=1)(prepared)
    assert texts["text"].is_valid().to_pylist() == [True, True, False]
    rater = LoglikRater(
        LoglikSettings(prompt=INSTRUCTION, lambdas=[0.0, 1.0]), model=TINY, targets=["first"], threads=1
    )
    scores = rater(prepared)["score"].to_pylist()
    assert scores[0] != pytest.approx(scores[2], abs=1e-4)
    assert scores[4:] == [None, None]


def test_all_pictures_at_one_place() -> None:
    instruction = INSTRUCTION | {"order": ["pictures", "question"]}
    preparer = PromptPreparer(ContextSettings(), model=TINY, instruction=instruction)
    prepared = preparer(batch(pictures=[PAIR, [png(1)], []]))
    assert prepared["status"].to_pylist() == ["ok", "ok", "missing_input"]
    assert preparer.take_tally()["pictures/shown"] == 3
