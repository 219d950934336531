"""The stage that draws pictures: failures of single rows, and the memory of the device."""

import io
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from PIL import Image

from actors import image_generator, schemas
from actors.diffusion_models import DrawingSettings, ImageModelSettings
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


def test_what_is_passed_to_the_pipeline_and_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline without a safety checker; keys that are null are left to it."""
    calls: list[dict[str, Any]] = []

    class Drawing:
        def __call__(
            self,
            *,
            prompt: list[str],
            generator: Any,
            width: int = 9,
            height: int = 9,
            num_inference_steps: int = 9,
            guidance_scale: float = 9,
            negative_prompt: Any = None,
        ) -> Any:
            options = {"width": width, "height": height, "num_inference_steps": num_inference_steps}
            seeds = [one.initial_seed() for one in generator]
            calls.append({"prompt": prompt, "seeds": seeds, "scale": guidance_scale, "not": negative_prompt} | options)
            return SimpleNamespace(images=[Image.new("RGB", (width, height)) for _ in prompt])

    rows = stage(monkeypatch, Drawing(), width=16, height=8, steps=3, guidance=0.0, negative_prompt="text")(
        batch("a", "b")
    )
    sizes = {"width": 16, "height": 8, "num_inference_steps": 3}
    assert calls.pop() == {"prompt": ["a", "b"], "seeds": [0, 1], "scale": 0.0, "not": ["text", "text"]} | sizes
    first = rows.to_pylist()[0]
    assert (first["image_id"], first["rendition"], first["author"], first["licence"], first["attempts"]) == (
        "i0", "original", "scripted", "none", 1
    )  # fmt: skip
    assert (first["width"], first["height"]) == Image.open(io.BytesIO(first["bytes"])).size == (16, 8)
    stage(monkeypatch, Drawing())(batch("a"))
    sizes = {"width": 9, "height": 9, "num_inference_steps": 9}
    assert calls.pop() == {"prompt": ["a"], "seeds": [0], "scale": 9, "not": None} | sizes


def test_a_row_without_a_picture_keeps_no_author(monkeypatch: pytest.MonkeyPatch) -> None:
    row = stage(monkeypatch, Pipeline())(batch("")).to_pylist()[0]
    assert (row["status"], row["error_kind"], row["author"], row["rendition"]) == (
        "missing_input", "no_prompt", None, "original"
    )  # fmt: skip


def test_settings_that_are_not_allowed() -> None:
    cases: list[tuple[str, Any]] = [
        *((key, value) for key in ("width", "height", "steps") for value in (0, -1)),
        ("guidance", -0.5),
    ]
    for key, value in cases:
        with pytest.raises(ValueError, match=f"^{key}={value}: must be"):
            DrawingSettings(**{key: value})
    assert DrawingSettings(width=1, height=1, steps=1, guidance=0.0).options == {
        "width": 1, "height": 1, "num_inference_steps": 1, "guidance_scale": 0.0
    }  # fmt: skip
    assert DrawingSettings().options == {}


def test_a_number_of_threads_is_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers: list[int] = []
    monkeypatch.setattr("torch.set_num_threads", numbers.append)
    monkeypatch.setattr(image_generator, "load_pipeline", lambda settings: Pipeline())
    for threads in (None, 3):
        ImageGenerator(DrawingSettings(), model=ImageModelSettings(checkpoint="m"), author="a", threads=threads)
    assert numbers == [3]
