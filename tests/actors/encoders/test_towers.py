"""Preprocessing of a checkpoint, as passed to open_clip, and the tensors that its model gets."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image

from actors.encoders import towers
from actors.encoders.encoder_sources import EncoderSource, Preprocessing, complete
from actors.encoders.towers import OpenClipTower, PixelRows, _cfg, find_geometry, load_tower
from actors.errors import ModelError


def test_the_preprocessing_of_a_checkpoint_is_passed_on_whole() -> None:
    expected = Preprocessing("longest", "bilinear", (224, 256), (0.1, 0.2, 0.3), (0.4, 0.5, 0.6), 7)
    assert Preprocessing(**complete(_cfg(expected), expected.size)) == expected


CFG = {"mean": (0.5, 0.25, 0.125), "std": (0.5, 1.0, 2.0), "interpolation": "bicubic", "resize_mode": "squash"}


class FakeModel:
    """A model of open_clip that returns the pixels that it is given."""

    def __init__(self, **cfg: Any) -> None:
        self.visual = SimpleNamespace(preprocess_cfg=CFG | {"size": 2} | cfg)
        self.logit_scale = torch.tensor(2.0)

    def eval(self) -> "FakeModel":
        return self

    def encode_image(self, pixels: torch.Tensor) -> torch.Tensor:
        return pixels

    def encode_text(self, ids: torch.Tensor) -> torch.Tensor:
        return 2 * ids


def tower(
    monkeypatch: pytest.MonkeyPatch, pretrained: str | None, *, dtype: str = "float32", **cfg: Any
) -> tuple[OpenClipTower, dict[str, Any]]:
    """Return a tower of 2 x 2 pixels and the arguments of its model; `cfg` is what open_clip does otherwise."""
    calls: list[dict[str, Any]] = []

    def create(model: str, pretrained: str | None, **options: Any) -> FakeModel:
        calls.append({"model": model, "pretrained": pretrained} | options)
        return FakeModel(**cfg)

    monkeypatch.setattr("open_clip.create_model", create)
    monkeypatch.setattr("actors.encoders.towers.enable_onednn", lambda: False)
    preprocessing = Preprocessing(**complete(CFG, 2))
    source = EncoderSource("tiny", pretrained, {"embed_dim": 12}, preprocessing, lambda: "x")
    built = OpenClipTower(source, device=torch.device("cpu"), dtype=dtype)
    (call,) = calls
    return built, call


def test_open_clip_gets_the_preprocessing_of_a_file_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other weights have their own, which must be the config's."""
    common = {"model": "tiny", "precision": "fp32", "device": torch.device("cpu"), "require_pretrained": True,
              "weights_only": True}  # fmt: skip
    _, call = tower(monkeypatch, "webli")
    assert call == common | {"pretrained": "webli", "force_preprocess_cfg": None}
    _, call = tower(monkeypatch, None)
    assert call == common | {"pretrained": None, "force_preprocess_cfg": None}
    _, call = tower(monkeypatch, "w.safetensors")
    assert call == common | {"pretrained": "w.safetensors", "force_preprocess_cfg": CFG | {"fill_color": 0}}
    others: dict[str, Any] = {"mean": 0.5, "std": 1.0, "size": 3, "resize_mode": "longest", "interpolation": "bilinear"}
    for key, value in others.items():
        with pytest.raises(RuntimeError, match=r"^tiny: open_clip preprocesses with .* but the config has"):
            tower(monkeypatch, "webli", **{key: value})


def test_pixels_are_normalised_in_the_models_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = torch.tensor([0, 51, 255], dtype=torch.uint8).view(1, 3, 1, 1)
    for dtype, kind in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        encoder, _ = tower(monkeypatch, "webli", dtype=dtype)
        features = encoder.pictures(pixels)
        assert features.dtype == kind
        # (0 - 0.5) / 0.5, (0.2 - 0.25) / 1, (1 - 0.125) / 2
        assert features.flatten().tolist() == pytest.approx([-1.0, -0.05, 0.4375], rel=0.01)
    assert (encoder.dim, encoder.size, encoder.logit_scale) == (12, (2, 2), pytest.approx(math.exp(2)))


def test_only_weights_with_other_shapes_are_an_error_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors of settings and devices stay what they are; whatever else the files lead to becomes one."""

    def loaded(error: Exception) -> None:
        def fail(*_: Any, **__: Any) -> None:
            raise error

        monkeypatch.setattr(towers, "find_source", fail)
        load_tower("tiny", None, device=torch.device("cpu"), dtype="float32")

    kept: list[Exception] = [ValueError("no"), FileNotFoundError("no"), RuntimeError("no"), MemoryError("no")]
    for error in kept:
        with pytest.raises(type(error), match="no") as same:
            loaded(error)
        assert same.value is error
    with pytest.raises(ModelError, match=r"^tiny: the shapes of some weights do not match its config"):
        loaded(RuntimeError("Error(s) in loading state_dict: size mismatch for weight"))
    with pytest.raises(ModelError, match=r"^tiny: cannot be loaded \(KeyError: 'x'\)$"):
        loaded(KeyError("x"))


def test_the_geometry_of_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = Image.new("RGB", (8, 4), (9, 8, 7))
    for resize in ("squash", "shortest", "longest"):
        preprocessing = Preprocessing(**complete(CFG | {"resize_mode": resize}, [2, 3]))
        source = EncoderSource("tiny", None, {}, preprocessing, lambda: "x")
        places = {("tiny", "webli"): source}
        monkeypatch.setattr(towers, "find_source", lambda *place, places=places: places[place])
        geometry = find_geometry("tiny", "webli")
        assert (geometry.size, geometry.shortest) == ((2, 3), resize == "shortest")
        pixels = geometry.prepare(picture)
        assert (pixels.dtype, pixels.shape) == (np.uint8, (2, 3, 3))
        assert pixels[0, 1].tolist() == [9, 8, 7]


def test_texts_are_tokenised_by_the_models_own_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def get_tokenizer(model: str) -> Any:
        asked.append(model)
        return lambda texts: torch.tensor([[len(text)] for text in texts])

    monkeypatch.setattr("open_clip.get_tokenizer", get_tokenizer)
    encoder, _ = tower(monkeypatch, "webli")
    for _ in range(2):
        assert encoder.texts(("a", "bcd")).tolist() == [[2], [6]]
    assert asked == ["tiny"]


SIZE = 12


def table(rows: list[bytes | None], cuts: list[int]) -> pa.ChunkedArray:
    """Return rows in chunks that are slices of longer arrays."""
    whole = pa.array([b"x" * 5, *rows, b"yy"], pa.large_binary())
    ends = [*cuts, len(rows)]
    return pa.chunked_array([whole.slice(1 + start, end - start) for start, end in zip([0, *cuts], ends, strict=True)])


@pytest.mark.parametrize("cuts", [[], [3], [0, 3, 4, 20], [20]])
@pytest.mark.parametrize("bad", [[], [0], [19], [2, 3, 4], [0, 5, 7, 19], list(range(20))])
def test_the_same_as_row_by_row(cuts: list[int], bad: list[int]) -> None:
    draw = np.random.default_rng(0)
    rows: list[bytes | None] = [draw.integers(1, 256, SIZE, np.uint8).tobytes() for _ in range(20)]
    good = np.ones(20, bool)
    for number, row in enumerate(bad):
        good[row] = False
        rows[row] = (None, b"", b"too short", b"z" * SIZE)[number % 4]
    pixels, join = table(rows, cuts), PixelRows(SIZE)
    for first, end in ((0, 20), (1, 20), (0, 6), (4, 19), (18, 20)):  # each reuses the memory of the one before
        joined = join.join(pixels.slice(first, end - first), good[first:end])
        kept = [row if fits else bytes(SIZE) for row, fits in zip(rows, good.tolist(), strict=True)]
        assert joined.dtype == torch.uint8
        assert [bytes(row) for row in joined.numpy()] == kept[first:end]


def test_rows_that_lie_together_are_not_copied() -> None:
    pixels = table([bytes([n]) * SIZE for n in range(20)], [10])
    data = pixels.chunk(1).buffers()[2]
    inside = range(data.address, data.address + data.size)
    join, good = PixelRows(SIZE), np.ones(20, bool)
    assert join.join(pixels.slice(10, 10), good[10:]).data_ptr() in inside
    assert join.join(pixels.slice(12, 3), good[12:15]).data_ptr() in inside
    assert join.join(pixels.slice(8, 10), good[8:18]).data_ptr() not in inside
