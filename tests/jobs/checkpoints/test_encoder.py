"""The encoder of a job: its keys in errors, its scalars, the rows of a unit that it takes, and its stages."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from actors.embedder import BATCHES_PER_CALL, PictureDecoder
from actors.encoders import encoder_sources
from actors.encoders.encoder_sources import LogitScalars
from actors.errors import ModelError, SettingError
from jobs.checkpoints.encoder import (
    PICTURES,
    TEXTS,
    VECTORS,
    EmbedderConfig,
    EncoderInput,
    check_available,
    encoder_facts,
    encoder_lines,
    logit_scalars,
    stream_encoded,
)
from jobs.errors import InputError
from jobs.runtime import stages
from jobs.runtime.configuration.resources import Resources, StageResources
from jobs.runtime.lifecycle import JobRun
from jobs.runtime.selection.exclusions import Exclusions
from jobs.runtime.stage_contract import Read, Stage
from jobs.store.reading import open_table
from jobs.store.writer import UnitTask
from tests.factories import embedding_rows, picture, write_units

EMBEDDER = EmbedderConfig(name="seven", checkpoint="me/seven", pretrained="tag")


def test_an_error_names_the_key_of_the_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(error: Exception) -> Callable[..., None]:
        def call(*_: object, **__: object) -> None:
            raise error

        return call

    absent = "embedder.checkpoint=me/seven: no such model"
    wrong = []
    for error, message in (
        (SettingError("unknown", "pretrained", "tag"), "embedder.pretrained=tag: unknown"),
        (ModelError("no such model", "me/seven"), absent),
        (ModelError("no such model", "hf-hub:x"), "embedder.checkpoint=me/seven: hf-hub:x: no such model"),
        (ValueError("no such model\nmore"), absent),
        (OSError("no such model"), absent),
    ):
        monkeypatch.setattr(encoder_sources, "encoder_facts", raises(error))
        monkeypatch.setattr(encoder_sources, "check_weights", raises(error))
        for check in (encoder_facts, check_available):
            with pytest.raises(InputError) as raised:
                check(EMBEDDER)
            wrong += [str(raised.value)] if str(raised.value) != message else []
    assert wrong == []


def test_scale_and_bias_are_kept_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    scalars = LogitScalars(4.765625, -16.763517379760742)
    asked = []

    def read(checkpoint: str, *, pretrained: str | None) -> LogitScalars | None:
        asked.append((checkpoint, pretrained))
        return scalars if len(asked) == 1 else None

    monkeypatch.setattr(encoder_sources, "logit_scalars", read)
    kept = logit_scalars(EMBEDDER)
    assert {name: float(text) for name, text in kept.items()} == {
        "logit_scale": scalars.scale,
        "logit_bias": scalars.bias,
    }
    assert logit_scalars(EMBEDDER) == {}  # an encoder without them
    assert asked == [("me/seven", "tag")] * 2


def rows(
    encoder_input: EncoderInput, folder: Path, name: str, units: list[list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    source = open_table(write_units(folder, name, units))
    (unit,) = source.units()
    read: list[dict[str, Any]] = encoder_input.read(UnitTask(unit, 0, ())).to_pylist()
    return read


def test_pictures_are_decoded_first() -> None:
    assert (PICTURES.pools, TEXTS.pools, VECTORS.pools) == (["decode", "embed"], ["embed"], ["embed"])
    assert (PICTURES.item, TEXTS.item, VECTORS.item) == ("image_id", "text_id", "item_id")


def test_only_what_the_encoder_needs_is_read(tmp_path: Path) -> None:
    images = [picture(0), picture(1, status="missing")]
    assert rows(PICTURES, tmp_path / "images", "images", [images]) == [
        {"image_id": one["image_id"], "source_url": one["source_url"], "bytes": one["bytes"], "status": one["status"],
         "error_kind": None, "error_message": None} for one in images
    ]  # fmt: skip
    texts = [{"text_id": "t", "role": "caption", "text": "A boat."}]
    assert rows(TEXTS, tmp_path / "texts", "texts", [texts]) == [{"text_id": "t", "text": "A boat."}]


def test_vectors_are_those_of_pictures(tmp_path: Path) -> None:
    vectors = np.eye(4, dtype=np.float32)
    of_images = embedding_rows(["a", "b"], "image", vectors[:2])
    assert [row["item_id"] for row in rows(VECTORS, tmp_path / "images", "embeddings", [of_images])] == ["a", "b"]
    assert rows(VECTORS, tmp_path / "none", "embeddings", [[]]) == []
    mixed = of_images + embedding_rows(["t"], "text", vectors[2:3])
    with pytest.raises(InputError, match="embeddings of texts, but zero_shot rates pictures"):
        rows(VECTORS, tmp_path / "mixed", "embeddings", [mixed])


TINY = EmbedderConfig(name="tiny", checkpoint="local:siglip-tiny")


def test_a_plan_has_the_licence_and_the_memory_of_the_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    cfg: Any = SimpleNamespace(plan=True)
    stated = replace(TINY, licence="MIT", gated=True, memory_gb=0.75)
    monkeypatch.setenv("HF_TOKEN", "hf_of_this_test")
    gate = "gated: HF_TOKEN of an account that accepted it"
    assert encoder_lines(cfg, stated, "e@1") == [
        f"model  tiny (e@1), licence MIT, {gate}",
        "memory 0.75 GB for the weights in 16-bit numbers (float32: twice)",
    ]
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    assert encoder_lines(cfg, stated, "e@1")[0].endswith(f"{gate}; there is none here")
    assert "not stated" in encoder_lines(cfg, TINY, "e@1")[0]
    cfg.plan = False
    assert encoder_lines(cfg, stated, "e@1") == []


class Actor:
    """An actor that is not built."""


@pytest.mark.parametrize("gpus", [0, 1])
def test_the_reader_the_decoder_and_the_encoder_of_a_run(monkeypatch: pytest.MonkeyPatch, gpus: int) -> None:
    streamed: dict[str, Any] = {}
    monkeypatch.setattr(stages, "stream", lambda run, **keywords: streamed.update(keywords))
    pool = StageResources(batch_size=7, threads=3, num_gpus=gpus)

    def stream(rows: EncoderInput, *, excluded: str | None, **keywords: Any) -> tuple[Read, list[Stage]]:
        resources = Resources(embed=pool)
        run = JobRun("embed", None, Exclusions(), excluded)  # type: ignore[arg-type]
        stream_encoded(run, TINY, rows, Actor, resources=resources, **keywords)
        assert (streamed["name"], streamed["resources"]) == ("embed", resources)
        return streamed["read"], streamed["stages"]

    read, (decode, embed) = stream(PICTURES, excluded="list")
    assert (read.item, read.output_item, read.excluded) == ("image_id", "item_id", "list")
    assert (decode.pool, decode.actor, decode.kwargs) == ("decode", PictureDecoder, {"settings": TINY})
    assert (embed.pool, embed.actor, embed.rows_out) == ("embed", Actor, 1)
    assert embed.kwargs == {"settings": TINY, "batch_size": 7, "threads": 3}
    assert embed.batches == (BATCHES_PER_CALL if gpus else 1)

    read, (rate,) = stream(VECTORS, arguments={"labels": ["a"]}, excluded=None, rows_out=4)
    assert (read.rows, read.item, read.excluded) == (VECTORS.read, "item_id", None)
    assert (rate.kwargs["labels"], rate.rows_out) == (["a"], 4)
