"""The stages of a run with an encoder: their arguments, their rows, and the list of exclusions."""

from typing import Any

import pytest

from actors.embedder import BATCHES_PER_CALL, PictureDecoder
from jobs.models.encoder import EmbedderConfig
from jobs.models.encoder_inputs import PICTURES, VECTORS, EncoderInput
from jobs.models.encoder_run import stream_encoded
from jobs.runtime import stages
from jobs.runtime.configuration.resources import Resources, StageResources
from jobs.runtime.stage_contract import Read, Stage

EMBEDDER = EmbedderConfig(name="tiny", checkpoint="local:siglip-tiny")


class Actor:
    """An actor that is not built."""


@pytest.mark.parametrize("gpus", [0, 1])
def test_the_reader_the_decoder_and_the_encoder_of_a_run(monkeypatch: pytest.MonkeyPatch, gpus: int) -> None:
    streamed: dict[str, Any] = {}
    monkeypatch.setattr(stages, "stream", lambda run, **keywords: streamed.update(keywords))
    pool = StageResources(batch_size=7, threads=3, num_gpus=gpus)

    def stream(rows: EncoderInput, **keywords: Any) -> tuple[Read, list[Stage]]:
        resources = Resources(embed=pool)
        stream_encoded(None, EMBEDDER, rows, Actor, job="embed", resources=resources, **keywords)  # type: ignore[arg-type]
        assert (streamed["name"], streamed["resources"]) == ("embed", resources)
        return streamed["read"], streamed["stages"]

    read, (decode, embed) = stream(PICTURES, excluded="list")
    assert (read.item, read.output_item, read.excluded) == ("image_id", "item_id", "list")
    assert (decode.pool, decode.actor, decode.kwargs) == ("decode", PictureDecoder, {"settings": EMBEDDER})
    assert (embed.pool, embed.actor, embed.rows_out) == ("embed", Actor, 1)
    assert embed.kwargs == {"settings": EMBEDDER, "batch_size": 7, "threads": 3}
    assert embed.batches == (BATCHES_PER_CALL if gpus else 1)

    read, (rate,) = stream(VECTORS, arguments={"labels": ["a"]}, excluded=None, rows_out=4)
    assert (read.rows, read.item, read.excluded) == (VECTORS.read, "item_id", None)
    assert (rate.kwargs["labels"], rate.rows_out) == (["a"], 4)
