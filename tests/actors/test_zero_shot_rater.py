"""The nearest of a few sentences, with the encoder's own temperature."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml

from actors.embedder import Embedder, PictureDecoder
from actors.encoders.encoder_sources import EncoderSettings
from actors.rubrics.rubric import Rubric
from actors.zero_shot_rater import ZeroShotRater, ZeroShotTemplate
from jobs.tables import conform, table
from tests.actors.vlm.helpers import CONF, png
from tests.cases import check_cases

MODEL = EncoderSettings("local:siglip-tiny", device="cpu")
TARGETS = ["Japan", "Brazil", "Northern Africa"]


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return yaml.safe_load((CONF / "zero_shot_template" / "cultural_relevance.yaml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def rater(template: dict[str, Any]) -> ZeroShotRater:
    return ZeroShotRater(MODEL, template=template, targets=TARGETS, condition="photo", threads=1)


@pytest.fixture(scope="module")
def decoded() -> pa.Table:
    batch = pa.table(
        {
            "image_id": ["a", "b", "c"],
            "bytes": pa.array([png(1), png(2), None], pa.large_binary()),
            "status": ["ok", "ok", "missing"],
            "error_kind": pa.array([None, None, "gone"], pa.string()),
            "error_message": pa.array([None] * 3, pa.string()),
        }
    )
    return PictureDecoder(MODEL)(batch)


def test_the_nearest_sentence_wins(rater: ZeroShotRater, template: dict[str, Any], decoded: pa.Table) -> None:
    import torch

    ratings = conform(rater(decoded), table("ratings"))
    assert ratings.num_rows == 9
    assert set(ratings["condition"].to_pylist()) == {"photo"}
    embedder = Embedder(MODEL, threads=1)
    vectors = embedder(decoded)
    texts = embedder.embed_texts(ZeroShotTemplate.from_dict(template).sentences(TARGETS)).reshape(3, 5, -1)
    # SigLIP's logit scale is stored as a logarithm (Zhai et al. 2023)
    stored: Any = embedder._tower
    scale = float(np.exp(stored._model.logit_scale.item()))
    for place, row in enumerate(ratings.to_pylist()[:6]):
        cosines = texts[place % 3] @ np.array(vectors["embedding"][place // 3].as_py(), np.float32)
        assert row["target"] == TARGETS[place % 3]
        assert row["value"] == "12345"[int(cosines.argmax())]
        assert row["score"] == float(row["value"])
        shares = torch.tensor(scale * cosines, dtype=torch.float64).softmax(-1).numpy()
        assert row["probabilities"] == pytest.approx(shares.tolist(), abs=1e-6)
        assert row["expected"] == pytest.approx(float(shares @ np.arange(1, 6)), abs=1e-5)
        assert (row["method"], row["rubric"], row["question"]) == ("encoder", "cultural_relevance", "relevance")
        assert row["rater"].startswith("local:siglip-tiny@")
    for row in ratings.to_pylist()[6:]:
        assert (row["status"], row["error_kind"]) == ("missing", "gone")
        assert row["value"] is row["score"] is row["expected"] is row["probabilities"] is None


def test_vectors_and_pictures_are_rated_the_same(rater: ZeroShotRater, decoded: pa.Table) -> None:
    vectors = Embedder(MODEL, threads=1)(decoded)
    assert rater(vectors).equals(rater(decoded))
    empty = vectors.slice(0, 1).set_column(2, "embedding", pa.array([None], vectors["embedding"].type))
    assert set(rater(empty)["error_kind"].to_pylist()) == {"no_vector"}


def test_an_encoder_without_temperature_gives_no_probabilities(
    rater: ZeroShotRater, decoded: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rater, "_scale", None)
    row = rater(decoded).to_pylist()[0]
    assert row["probabilities"] is row["expected"] is None
    assert row["value"]


def test_the_papers_levels(template: dict[str, Any]) -> None:
    sentences = ZeroShotTemplate.from_dict(template).sentences(["Japan"])
    assert [
        level in sentence
        for level, sentence in zip(
            ["not relevant", "minimally relevant", "somewhat relevant", "relevant", "highly relevant"],
            sentences,
            strict=True,
        )
    ] == [True] * 5
    assert all("Japan" in sentence for sentence in sentences)


def test_wrong_templates_are_refused(template: dict[str, Any]) -> None:
    cases = [
        ({"sentence": "{{ level }}"}, "must use level and target"),
        ({"sentence": "{{ level"}, "sentence: not a valid template"),
        ({"sentence": "{{ level }} {{ target }} {{ ''.__class__ }} {{ x }}"}, "must use level and target"),
        ({"levels": [{"value": "1", "score": 1, "phrase": "a"}]}, "at least two are required"),
        (
            {"levels": [{"value": "1", "score": 1, "phrase": "a"}, {"value": "1", "score": 2, "phrase": "b"}]},
            "the same value",
        ),
        *(
            (
                {
                    "levels": [
                        {"value": "1", "score": 1, "phrase": "a"},
                        {"value": "2", "score": 2, "phrase": "b"} | same,
                    ]
                },
                f"the same {next(iter(same))}",
            )
            for same in ({"score": 1}, {"phrase": " a"})
        ),
        *(
            ({"levels": [{"value": "1", "score": score, "phrase": "a"}]}, "entry 1, score: .* finite number")
            for score in ("x", True, float("inf"), float("nan"))
        ),
        ({"levels": [{"value": "1"}]}, "required are value, score, phrase"),
        ({"other": 1}, "unknown key 'other'"),
    ]

    def check(change: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            ZeroShotTemplate.from_dict(template | change)

    check_cases(check, cases)


def test_two_levels_are_enough(template: dict[str, Any]) -> None:
    levels = [{"value": 0, "score": 0, "phrase": " not "}, {"value": 1, "score": 2, "phrase": "very"}]
    read = ZeroShotTemplate.from_dict(template | {"levels": levels, "sentence": "{{ level }}, {{ target }}"})
    assert [(level.value, level.score, level.phrase) for level in read.levels] == [("0", 0, "not"), ("1", 2, "very")]
    assert read.sentences(["Peru", "Chad"]) == ["not, Peru", "very, Peru", "not, Chad", "very, Chad"]


def test_an_items_own_labels_take_precedence(rater: ZeroShotRater, decoded: pa.Table) -> None:
    vectors = Embedder(MODEL, threads=1)(decoded)
    own_targets = pa.array([["Peru", "Brazil"], None, None], pa.list_(pa.string()))
    rows = rater(vectors.append_column("targets", own_targets)).to_pylist()
    assert [row["target"] for row in rows] == ["Peru", "Brazil", *TARGETS, *TARGETS]
    before = {(row["item_id"], row["target"]): row["probabilities"] for row in rater(vectors).to_pylist()}
    assert rows[1]["probabilities"] == pytest.approx(before["a", "Brazil"], abs=1e-6)
    assert rater(decoded.append_column("targets", own_targets)).to_pylist() == rows


@pytest.mark.parametrize("path", sorted((CONF / "zero_shot_template").glob("*.yaml")), ids=lambda path: path.stem)
def test_templates_have_the_scale_of_the_judges_rubric(path: Path) -> None:
    """One name and one scale: metrics compare the encoder with judges and people."""
    rubric = Rubric.from_dict(yaml.safe_load((CONF / "rubric" / "cultural_relevance.yaml").read_text("utf-8")))
    read = ZeroShotTemplate.from_dict(yaml.safe_load(path.read_text("utf-8")))
    (question,) = rubric.questions
    assert (read.name, read.question) == (rubric.name, question.name)
    assert [(level.value, level.score) for level in read.levels] == [(a.value, a.score) for a in question.answers]


def test_embeddings_of_another_encoder_are_refused(tmp_path: Any) -> None:
    from jobs.errors import InputError
    from jobs.store.runs.table_run import open_run
    from jobs.store.table_plan import TablePlan

    metadata = {"encoder": "ViT-B-32@openai", "preprocessing": "x"}
    run = open_run(
        TablePlan(str(tmp_path / "e"), "embeddings", {}, [], {}, metadata, derived=False, dim=64),
        resume=True,
        overwrite=False,
        retry=[],
    )
    from jobs.store.units import Unit
    from jobs.store.writer import UnitTask, UnitWriter

    with UnitWriter(run.target, UnitTask(Unit("u", ()))):
        pass
    run.finish()
    from jobs.runtime.command_line import cli

    with pytest.raises(InputError, match="cannot be compared"):
        cli.execute(
            "zero_shot", [f"input={tmp_path / 'e'}", f"out={tmp_path / 'o'}", "embedder=local-tiny", "targets=[a]"]
        )
    assert not (tmp_path / "o").exists()
