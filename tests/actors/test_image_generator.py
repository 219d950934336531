"""The stage that draws pictures: failures of single rows, and the memory of the device."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from PIL import Image

from actors import image_generator, schemas
from actors.diffusion.settings import DrawingSettings, ImageModelSettings
from actors.image_generator import ImageGenerator
from actors.vlm.errors import EngineError


class Pipeline:
    """Draws single-coloured pictures; raises what the prompt names, or above `most` pictures at a time."""

    def __init__(self, most: int = 99) -> None:
        self.most, self.sizes = most, list[int]()

    def __call__(self, prompt: Sequence[str], generator: Any = None, num_inference_steps: int = 2) -> Any:
        self.sizes.append(len(prompt))
        if len(prompt) > self.most:
            raise MemoryError("no room")
        for name in ("ValueError", "CUDA error"):
            if name in prompt:
                raise ValueError(name)
        pictures = [Image.new("RGB", (8, 8), (g.initial_seed() % 256, 0, 0)) for g in generator]
        return SimpleNamespace(images=pictures, nsfw_content_detected=[text == "bare" for text in prompt])


def stage(monkeypatch: pytest.MonkeyPatch, pipeline: Any, **settings: Any) -> ImageGenerator:
    monkeypatch.setattr(image_generator, "load_pipeline", lambda settings: pipeline)
    model = ImageModelSettings(checkpoint="scripted")
    return ImageGenerator(DrawingSettings(**settings), model=model, author="scripted", licence="none")


def batch(*prompts: str | None, status: str = "ok") -> pa.Table:
    rows = [
        {"image_id": f"i{number}", "prompt": text, "seed": number, "status": status}
        for number, text in enumerate(prompts)
    ]
    return pa.Table.from_pylist(rows, schema=schemas.IMAGE_PROMPTS)


def outcomes(rows: pa.Table) -> list[tuple[str, str | None]]:
    return list(zip(rows["status"].to_pylist(), rows["error_kind"].to_pylist(), strict=True))


def test_a_row_that_fails_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = stage(monkeypatch, Pipeline())(batch("a", "ValueError", "bare", None, "b"))
    assert outcomes(rows) == [
        ("ok", None),
        ("error", "ValueError"),
        ("refused", "safety_checker"),
        ("missing_input", "no_prompt"),
        ("ok", None),
    ]
    assert [data is not None for data in rows["bytes"].to_pylist()] == [True, False, False, False, True]
    assert rows["attempts"].to_pylist() == [1, 1, 1, 0, 1]


def test_excluded_pictures_are_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = Pipeline()
    assert outcomes(stage(monkeypatch, pipeline)(batch("a", status="reported"))) == [("reported", "excluded")]
    assert pipeline.sizes == []


def test_batches_are_halved_until_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = Pipeline(most=2)
    drawing = stage(monkeypatch, pipeline)
    assert outcomes(drawing(batch(*"abcdefgh"))) == [("ok", None)] * 8
    assert outcomes(drawing(batch(*"abc"))) == [("ok", None)] * 3
    assert pipeline.sizes == [8, 4, 2, 2, 2, 2, 2, 1]
    tight = stage(monkeypatch, Pipeline(most=0))
    assert outcomes(tight(batch("a", "b"))) == [("error", "out_of_memory")] * 2


def test_a_lost_device_ends_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineError, match="CUDA error"):
        stage(monkeypatch, Pipeline())(batch("a", "CUDA error"))


def test_settings_that_the_model_does_not_take_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="scripted: Pipeline does not take guidance_scale"):
        stage(monkeypatch, Pipeline(), guidance=3.0)


def test_a_model_that_changes_given_pictures_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Changing:
        def __call__(self, prompt: str, image: Any = None, strength: float = 0.8) -> None: ...

    with pytest.raises(ValueError, match="Changing does not draw pictures from texts"):
        stage(monkeypatch, Changing())
