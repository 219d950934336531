import hashlib
import json

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image

from actors.local_models import siglip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("siglip")
    siglip.build(folder)
    return folder


@pytest.fixture(scope="module", autouse=True)
def offline():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield


@pytest.fixture(scope="module")
def loaded(folder):
    model, _, preprocess = open_clip.create_model_and_transforms(f"local-dir:{folder}", require_pretrained=True)
    return model.eval(), preprocess


def hashes(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def test_the_same_bytes_each_time(folder, tmp_path):
    torch.manual_seed(12345)
    siglip.build(tmp_path)
    assert hashes(tmp_path) == hashes(folder)
    names = {"open_clip_config.json", "open_clip_model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert set(hashes(folder)) == names


def test_the_same_parts_as_the_real_one(folder):
    real = open_clip.get_model_config("ViT-B-16-SigLIP-i18n-256")
    ours = json.loads((folder / "open_clip_config.json").read_text())["model_cfg"]
    assert set(ours) == set(real)
    assert set(ours["vision_cfg"]) == set(real["vision_cfg"])
    assert set(ours["text_cfg"]) == set(real["text_cfg"])
    sizes = {"embed_dim", "timm_model_name", "vocab_size", "hf_tokenizer_name", "width", "heads", "layers"}
    for part in ("vision_cfg", "text_cfg"):
        assert {k: v for k, v in ours[part].items() if k not in sizes} == {
            k: v for k, v in real[part].items() if k not in sizes
        }


def test_siglips_preprocessing(loaded):
    resize, *_, normalize = loaded[1].transforms
    assert (tuple(resize.size), resize.interpolation.value) == ((256, 256), "bicubic")
    assert (tuple(normalize.mean), tuple(normalize.std)) == ((0.5,) * 3, (0.5,) * 3)


def test_different_pictures_and_texts_get_different_vectors(folder, loaded):
    model, preprocess = loaded
    draw = np.random.default_rng(0)
    pictures = [
        Image.fromarray(draw.integers(0, 255, (8, 8, 3), np.uint8)).resize((300, 200), Image.Resampling.NEAREST)
        for _ in range(6)
    ]
    tokenizer = open_clip.get_tokenizer(f"local-dir:{folder}")
    texts = tokenizer(["a frog", "the Great Wall of China", "Ein Hündchen", "猫と犬", "नमस्ते दुनिया"])
    with torch.inference_mode():
        for vectors in (
            model.encode_image(torch.stack([preprocess(p) for p in pictures]), normalize=True),
            model.encode_text(texts, normalize=True),
        ):
            assert torch.isfinite(vectors).all()
            others = (vectors @ vectors.T)[~torch.eye(len(vectors), dtype=torch.bool)]
            assert others.max() < 0.99
            assert others.median() < 0.95


def test_where_a_patch_lies_matters(loaded):
    model, preprocess = loaded
    left = Image.new("RGB", (256, 256), "white")
    left.paste((200, 0, 0), (0, 0, 64, 64))
    right = left.transpose(Image.Transpose.ROTATE_180)
    with torch.inference_mode():
        one, two = model.encode_image(torch.stack([preprocess(left), preprocess(right)]), normalize=True)
    assert one @ two < 0.9999


def test_tokenizer(folder):
    tokenizer = open_clip.get_tokenizer(f"local-dir:{folder}")
    ids = tokenizer(["A Cat!", "a cat", "猫と犬", "", "word " * 100])
    assert ids.shape == (5, 64)
    assert torch.equal(ids[0], ids[1])  # canonicalised: case and punctuation gone
    assert int(ids.max()) < 2048
    assert (ids[3] == 1).all()  # the end token, which pads as well
    assert ids[4, -1] == 1  # cut, and still ended
    assert 0 not in ids[2]  # bytes: nothing is unknown
    assert tokenizer.tokenizer.decode(ids[2], skip_special_tokens=True).strip() == "猫と犬"
