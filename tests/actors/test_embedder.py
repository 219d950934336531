import io
import json
import logging
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pyarrow as pa
import pytest
import torch
from PIL import Image

from actors import devices, local_models
from actors.embedder import Embedder, PictureDecoder, TextEmbedder
from actors.encoders.encoder_sources import EncoderSettings, encoder_facts
from actors.errors import ModelError
from jobs.tables import conform, table
from tests.cases import check_cases

MODEL = "local:siglip-tiny"
SQUASH = "resize=squash;interpolation=bicubic;size=256x256;mean=0.5,0.5,0.5;std=0.5,0.5,0.5"
DATA = Path(os.environ.get("REMINE_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data"))
CORRUPT = b"\xff\xd8\xff\xe0 and no picture"


@pytest.fixture(scope="module", autouse=True)
def surroundings():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield


@pytest.fixture(scope="module")
def folder(surroundings):
    return Path(local_models.resolve(MODEL))


@pytest.fixture(scope="module")
def embedder(surroundings):
    return Embedder(EncoderSettings(MODEL, device="cpu"), batch_size=4)


@pytest.fixture(scope="module")
def decoder(surroundings):
    return PictureDecoder(EncoderSettings(MODEL))


def picture(seed, size=(90, 60)):
    draw = np.random.default_rng(seed)
    blocks = Image.fromarray(draw.integers(0, 255, (7, 5, 3), np.uint8))
    return blocks.resize(size, Image.Resampling.BICUBIC)


def encoded(picture, form="PNG"):
    stream = io.BytesIO()
    picture.save(stream, form)
    return stream.getvalue()


def images(*data, **columns):
    """Return rows as the table `images` has them; None stands for a picture that was not found."""
    return pa.table(
        {
            "image_id": pa.array([f"id{n}" for n in range(len(data))], pa.string()),
            "bytes": pa.array(list(data), pa.large_binary()),
            "status": pa.array(columns.get("status", ["missing" if d is None else "ok" for d in data]), pa.string()),
            "error_kind": pa.array(["http_404" if d is None else None for d in data], pa.string()),
            "error_message": pa.array(["not found" if d is None else None for d in data], pa.string()),
        }
    )


def vectors(out):
    return [None if row is None else np.array(row, np.float16) for row in out["embedding"].to_pylist()]


def golden(folder, pictures, size=4):
    """Return the pictures as a tensor, and the vectors that plain open_clip computes."""
    model, _, preprocess = open_clip.create_model_and_transforms(f"local-dir:{folder}")
    tensor = torch.stack([preprocess(picture) for picture in pictures])
    with torch.inference_mode():
        parts = [model.eval().encode_image(tensor[n : n + size]) for n in range(0, len(tensor), size)]
        return tensor, torch.nn.functional.normalize(torch.cat(parts), dim=-1).numpy()


def check_rounded(got, expected):
    """Equal after one rounding to float16; where products are oneDNN's, values within 1e-6 may round either way."""
    if devices.enable_onednn():
        assert (np.abs(got - expected) <= np.spacing(np.abs(expected).astype(np.float16)) / 2 + 1e-6).all()
    else:
        assert np.array_equal(got, expected.astype(np.float16))


SIZES = [(90, 60), (256, 256), (31, 400), (700, 500), (1, 1), (257, 255)]


def test_the_same_as_plain_open_clip(folder, decoder, embedder):
    pictures = [picture(n, size) for n, size in enumerate(SIZES)]
    tensor, expected = golden(folder, pictures)
    decoded = decoder(images(*map(encoded, pictures)))
    pixels = np.stack([np.frombuffer(row, np.uint8).reshape(256, 256, 3) for row in decoded["pixels"].to_pylist()])
    scaled = (torch.from_numpy(pixels).permute(0, 3, 1, 2).float().div(255) - 0.5) / 0.5
    assert torch.equal(scaled, tensor)
    out = embedder(decoded)
    got = np.stack(vectors(out))
    assert got.dtype == np.float16
    check_rounded(got, expected)
    assert np.allclose(np.linalg.norm(got.astype(np.float32), axis=1), 1, atol=1e-3)
    others = (expected @ expected.T)[~np.eye(len(expected), dtype=bool)]
    assert others.max() < 0.999  # else a mixed-up order would go unnoticed


def test_the_tables_columns(decoder, embedder):
    for batch in (images(encoded(picture(0)), None), images()):
        out = embedder(decoder(batch))
        wanted = table("embeddings", dim=embedder.dim)
        assert out.schema.names == wanted.schema().names
        assert out.schema.types == wanted.schema().types
        assert conform(out, wanted).num_rows == batch.num_rows
    only_missing = embedder(decoder(images(None, None)))
    assert only_missing["embedding"].null_count == 2
    assert only_missing.schema.types == wanted.schema().types


def test_a_corrupt_picture_leaves_its_neighbours_alone(decoder, embedder):
    good = [encoded(picture(n)) for n in range(7)]
    whole = vectors(embedder(decoder(images(*good))))
    for bad in (CORRUPT, None, good[2][:200]):
        rows = embedder(decoder(images(*good[:2], bad, *good[3:])))
        got = vectors(rows)
        assert rows["item_id"].to_pylist() == [f"id{n}" for n in range(7)]
        assert got[2] is None
        for n in (0, 1, 3, 4, 5, 6):
            assert got[n].tobytes() == whole[n].tobytes()


def test_statuses(decoder, embedder):
    batch = images(encoded(picture(0)), CORRUPT, None, b"", None, status=["ok", "ok", "blocked", "ok", "ok"])
    decoded = decoder(batch)
    assert decoded["status"].to_pylist() == ["ok", "error", "blocked", "error", "missing_input"]
    assert decoded["error_kind"].to_pylist() == [None, "truncated", "http_404", "empty", "no_bytes"]
    assert [row is None for row in decoded["pixels"].to_pylist()] == [False, True, True, True, True]
    assert decoded["kind"].to_pylist() == ["image"] * 5
    out = embedder(decoded)
    for name in ("item_id", "kind", "status", "error_kind", "error_message"):
        assert out[name].to_pylist() == decoded[name].to_pylist()
    assert [row is None for row in vectors(out)] == [False, True, True, True, True]
    assert out["error_message"].null_count == 1


def test_pixels_that_are_not_there_or_of_another_size(decoder, embedder):
    decoded = decoder(images(*(encoded(picture(n)) for n in range(3))))
    rows = decoded["pixels"].to_pylist()
    at = decoded.schema.get_field_index("pixels")
    broken = decoded.set_column(at, "pixels", pa.array([None, rows[1], rows[2][:-3]], pa.large_binary()))
    out = embedder(broken)
    assert out["status"].to_pylist() == ["missing_input", "ok", "error"]
    assert out["error_kind"].to_pylist() == ["no_pixels", None, "wrong_size"]
    assert vectors(out)[1].tobytes() == vectors(embedder(decoded))[1].tobytes()


def test_vectors_that_are_not_finite(decoder, embedder, monkeypatch):
    decoded = decoder(images(*(encoded(picture(n)) for n in range(4))))
    encode = embedder._tower.pictures

    def broken(tensor):
        vectors_of = encode(tensor)
        vectors_of[1, 3], vectors_of[2], vectors_of[3, 0] = float("nan"), 0, float("inf")
        return vectors_of

    monkeypatch.setattr(embedder._tower, "pictures", broken)
    out = embedder(decoded)
    assert out["status"].to_pylist() == ["ok", "error", "error", "error"]
    assert out["error_kind"].to_pylist() == [None, *["not_finite"] * 3]
    assert out["embedding"].null_count == 3


def test_out_of_memory_halves_the_batch_until_it_fits(decoder, caplog, monkeypatch):
    small = Embedder(EncoderSettings(MODEL, device="cpu"), batch_size=4)
    tower: Any = small._tower
    encode = tower.pictures
    asked, capacity = [], [1]

    def narrow(tensor):
        asked.append(len(tensor))
        if len(tensor) > capacity[0]:
            raise torch.OutOfMemoryError("out of memory")
        return encode(tensor)

    monkeypatch.setattr(small._tower, "pictures", narrow)
    data = [encoded(picture(n)) for n in range(5)]
    with caplog.at_level(logging.WARNING, logger="actors.embedder"):
        out = small(decoder(images(*data)))
    assert asked == [4, 2, 1, 1, 1, 1, 1]
    assert "batch size 4 halved" in caplog.text
    monkeypatch.undo()
    whole = Embedder(EncoderSettings(MODEL, device="cpu"), batch_size=1)(decoder(images(*data)))
    assert [v.tobytes() for v in vectors(out)] == [v.tobytes() for v in vectors(whole)]
    capacity[0] = 0
    monkeypatch.setattr(small._tower, "pictures", narrow)
    out = small(decoder(images(*data)))  # rows are errors, not the run
    assert out["error_kind"].to_pylist() == ["out_of_memory"] * 5
    assert out["embedding"].null_count == 5
    capacity[0] = 4
    asked.clear()
    monkeypatch.setattr("actors.embedder.RECOVERY", 2)  # the memory is there again
    out = small(decoder(images(*data, *data, encoded(picture(9)))))
    assert out["status"].to_pylist() == ["ok"] * 11
    assert asked == [1, 1, 2, 2, 4, 1]


def test_an_odd_batch_is_halved_and_doubled_again_up_to_its_size(monkeypatch):
    """Batches of 5, 2, 4 and 5: whole numbers, of which none takes a row twice or leaves one out."""
    odd = Embedder(EncoderSettings(MODEL, device="cpu"), batch_size=5)
    monkeypatch.setattr("actors.embedder.RECOVERY", 2)
    asked = []

    def encode(start, end):
        asked.append((start, end))
        if len(asked) == 1:
            raise torch.OutOfMemoryError("out of memory")
        return torch.eye(20)[start:end]

    rows, too_large = odd._in_batches(20, encode)
    assert asked == [(0, 5), (0, 2), (2, 4), (4, 8), (8, 12), (12, 17), (17, 20)]
    assert np.array_equal(rows, np.eye(20))
    assert too_large == []


def test_a_text_that_does_not_fit_is_an_error_of_its_row(monkeypatch):
    texts = TextEmbedder(EncoderSettings(MODEL, device="cpu"), batch_size=4)
    encode = texts._embedder._tower.texts

    def narrow(batch):
        if any("long" in text for text in batch):
            raise torch.OutOfMemoryError("out of memory")
        return encode(batch)

    monkeypatch.setattr(texts._embedder._tower, "texts", narrow)
    rows = pa.table({"text_id": ["a", "b", "c"], "text": ["a mask", "a long mask", "a drum"]})
    assert texts(rows)["error_kind"].to_pylist() == [None, "out_of_memory", None]
    with pytest.raises(RuntimeError, match="'a long mask'"):
        texts._embedder.embed_texts(rows["text"].to_pylist())


def test_chunks_and_slices_of_arrow(decoder, embedder):
    data = [encoded(picture(n)) for n in range(6)]
    whole = images(*data)
    chunked = pa.concat_tables([whole.slice(0, 2), whole.slice(2, 4)])
    decoded = decoder(whole)
    expected = vectors(embedder(decoded))
    parts = pa.concat_tables([decoded.slice(0, 1), decoded.slice(1, 5)])
    for got in (vectors(embedder(decoder(chunked))), vectors(embedder(parts))):
        assert [v.tobytes() for v in got] == [v.tobytes() for v in expected]
    sliced = vectors(embedder(decoder(whole.slice(4, 2))))
    assert np.allclose(np.stack(sliced), np.stack(expected[4:]), atol=2e-3)


def test_bfloat16_is_near(decoder, embedder):
    decoded = decoder(images(*(encoded(picture(n)) for n in range(4))))
    low = Embedder(EncoderSettings(MODEL, device="cpu", dtype="bfloat16"))
    for rough, exact in zip(vectors(low(decoded)), vectors(embedder(decoded)), strict=True):
        assert float(rough.astype(np.float32) @ exact.astype(np.float32)) > 0.99
        assert rough.tobytes() != exact.tobytes()


def test_texts(folder, embedder):
    texts = ["a frog on a leaf", "Ein Hündchen", "猫と犬", "", "the Great Wall"]
    model, *_ = open_clip.create_model_and_transforms(f"local-dir:{folder}")
    ids = open_clip.get_tokenizer(f"local-dir:{folder}")(texts)
    with torch.inference_mode():
        expected = model.eval().encode_text(ids, normalize=True).numpy()
    got = embedder.embed_texts(texts)
    assert got.dtype == np.float32
    assert np.allclose(got, expected, atol=1e-6)
    assert embedder.embed_texts([]).shape == (0, embedder.dim)


def test_facts_without_weights(folder):
    facts = encoder_facts(MODEL, pretrained=None)
    assert facts.encoder.startswith("local:siglip-tiny@")
    assert (facts.dim, facts.preprocessing) == (64, SQUASH)
    same = encoder_facts(f"local-dir:{folder}", pretrained=None)
    assert same.encoder.split("@")[1] == facts.encoder.split("@")[1]
    assert str(folder.parent) not in same.encoder
    real = encoder_facts("ViT-B-16-SigLIP-i18n-256", pretrained="webli")
    assert real == ("ViT-B-16-SigLIP-i18n-256@webli", 768, SQUASH, True)
    openai = encoder_facts("ViT-B/32-quickgelu", pretrained="openai")
    assert openai.encoder == "ViT-B-32-quickgelu@openai"
    assert openai.preprocessing.startswith("resize=shortest;interpolation=bicubic;size=224x224;mean=0.48145466,")


def test_other_weights_are_another_encoder(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / folder.name)
    before = encoder_facts(f"local-dir:{copy}", pretrained=None)
    assert before == encoder_facts(f"local-dir:{folder}", pretrained=None)
    data = bytearray((copy / "open_clip_model.safetensors").read_bytes())
    data[-1] ^= 1
    (copy / "open_clip_model.safetensors").write_bytes(data)
    assert encoder_facts(f"local-dir:{copy}", pretrained=None) != before


def test_what_is_refused():
    cases = [
        ("ViT-B-16-SigLIP-i18n-256", None, "random weights; must be one of webli"),
        ("ViT-B-16-SigLIP-i18n-256", "laion", "must be one of webli"),
        ("ViT-B-32", "openai", "use ViT-B-32-quickgelu"),
        ("no-such-model", "webli", "no-such-model"),
        (MODEL, "webli", "must be null"),
        ("local:no-such", None, "no-such"),
    ]

    def check(model, pretrained, message):
        for build in (encoder_facts, lambda m, pretrained: PictureDecoder(EncoderSettings(m, pretrained))):
            with pytest.raises(ValueError, match=message):
                build(model, pretrained=pretrained)
        with pytest.raises(ValueError, match=message):
            Embedder(EncoderSettings(model, pretrained, device="cpu"))

    check_cases(check, cases)


@pytest.mark.parametrize("part", ["mean", "std", "interpolation", "resize_mode"])
def test_no_part_of_the_preprocessing_is_left_to_a_default(folder, tmp_path, part):
    copy = shutil.copytree(folder, tmp_path / "model")
    config = json.loads((copy / "open_clip_config.json").read_text())
    del config["preprocess_cfg"][part]
    (copy / "open_clip_config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=f"lacks {part}"):
        PictureDecoder(EncoderSettings(f"local-dir:{copy}"))


def test_a_folder_without_safetensors_is_refused(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "model")
    (copy / "open_clip_model.safetensors").rename(copy / "open_clip_pytorch_model.bin")
    with pytest.raises(ModelError, match="safetensors"):
        Embedder(EncoderSettings(f"local-dir:{copy}", device="cpu"))
    with pytest.raises(ModelError, match="has no open_clip_config"):
        encoder_facts(f"local-dir:{tmp_path}", pretrained=None)


def test_bad_settings():
    encoder = EncoderSettings(MODEL, device="cpu")
    for settings, pool in (
        (encoder, {"batch_size": 0}),
        (encoder, {"threads": 0}),
        (EncoderSettings(MODEL, device="cpu", dtype="int4"), {}),
        (EncoderSettings(MODEL, device="abacus"), {}),
    ):
        wrong = next(iter(pool), "dtype" if settings.dtype == "int4" else "device")
        with pytest.raises(ValueError, match=wrong):
            Embedder(settings, **pool)


@pytest.mark.parametrize("size", [(640, 400), (40, 30), (30, 40), (333, 1000)])
@pytest.mark.parametrize(
    ("model", "pretrained"),
    [
        ("ViT-B-32-quickgelu", "openai"),
        ("ViT-B-16-SigLIP2", "webli"),
        ("ViT-L-14-CLIPA-336", "datacomp1b"),
        ("longest", None),
    ],
)
def test_pixels_of_other_models(folder, tmp_path, model, pretrained, size):
    """The other resize modes against open_clip's whole preprocessing."""
    from open_clip.transform import PreprocessCfg, image_transform_v2

    if model == "longest":
        copy = shutil.copytree(folder, tmp_path / "model")
        config = json.loads((copy / "open_clip_config.json").read_text())
        config["preprocess_cfg"] |= {"resize_mode": "longest", "interpolation": "bilinear", "fill_color": 3}
        (copy / "open_clip_config.json").write_text(json.dumps(config))
        model, settings, side = f"local-dir:{copy}", config["preprocess_cfg"], 256
        assert encoder_facts(model, pretrained=None).preprocessing.endswith(";fill=3")
    else:
        settings = open_clip.get_pretrained_cfg(model, pretrained)
        side = open_clip.get_model_config(model)["vision_cfg"]["image_size"]
    keys = ("mean", "std", "interpolation", "resize_mode", "fill_color")
    config = PreprocessCfg(**{"size": side} | {key: settings[key] for key in keys if key in settings})
    pictures = picture(5, size)
    expected = image_transform_v2(config, is_train=False)(pictures)
    row = PictureDecoder(EncoderSettings(model, pretrained))(images(encoded(pictures)))["pixels"][0].as_py()
    pixels = torch.from_numpy(np.frombuffer(row, np.uint8).reshape(side, side, 3).copy()).permute(2, 0, 1)
    shape = (3, 1, 1)
    scaled = (pixels.float().div(255) - torch.tensor(config.mean).view(shape)) / torch.tensor(config.std).view(shape)
    assert torch.equal(scaled, expected)


def test_a_strip_that_would_fill_the_memory():
    strip = encoded(Image.new("RGB", (100_000, 1)))
    out = PictureDecoder(EncoderSettings("ViT-B-32-quickgelu", "openai"))(images(strip, encoded(picture(1))))
    assert out["status"].to_pylist() == ["error", "ok"]
    assert out["error_kind"].to_pylist() == ["too_elongated", None]


def test_real_pictures(folder, decoder, embedder):
    stamps = DATA / "stamps" / "images"
    if not stamps.is_dir():
        pytest.skip(f"no pictures in {stamps}")
    files = [path for path in sorted(stamps.iterdir()) if path.suffix == ".jpg"][:40:5]
    opened = [Image.open(path) for path in files]
    assert all(image.mode == "RGB" for image in opened)
    _, expected = golden(folder, opened)
    out = embedder(decoder(images(*(path.read_bytes() for path in files))))
    check_rounded(np.stack(vectors(out)), expected)
