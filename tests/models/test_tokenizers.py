"""The tokenizers of the demo's models are those that the training would write today.

A changed wording of a rubric or prompt that the judge was trained on shows here first: its fixed parts are tokens.
"""

import json
import random
from pathlib import Path

import pytest

from actors import local_models
from tests.models import pool, train_encoder, train_judge, vocabulary

TRAINED = Path(local_models.__file__).parent / "trained"


def test_fixed_parts_of_prompts_are_tokens_of_the_judge() -> None:
    tokenizer = json.loads((TRAINED / "demo-judge" / "tokenizer.json").read_text(encoding="utf-8"))
    added = [token["content"] for token in tokenizer["added_tokens"] if not token["special"]]
    assert set(added) == {*vocabulary.fixed_runs(), *vocabulary.phrases(), *vocabulary.words()}


@pytest.mark.torture
@pytest.mark.parametrize("name", ["demo-judge", "demo-encoder"])
def test_tokenizers_are_written_again_with_the_same_bytes(tmp_path: Path, name: str) -> None:
    if name == "demo-judge":
        parts = vocabulary.fixed_runs() + vocabulary.phrases()
        texts = list(train_judge.vocabulary_texts())
        train_judge.write_processor(tmp_path, texts, parts=parts, words=vocabulary.words())
    else:
        scenes, draw = pool.scenes(10000, seed=pool.TRAINED), random.Random(0)
        texts = [train_encoder.text_about(draw.choice(scenes), draw)[0] for _ in range(20000)]
        train_encoder.write_processors(tmp_path, texts)
    assert (tmp_path / "tokenizer.json").read_bytes() == (TRAINED / name / "tokenizer.json").read_bytes()
