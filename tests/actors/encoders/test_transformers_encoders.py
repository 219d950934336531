"""Encoders of transformers from tiny local checkpoints, against what a user of the library itself gets."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import safetensors.torch
import torch
from PIL import Image

from actors.embedder import Embedder, PictureDecoder, TextEmbedder
from actors.encoders import transformers_encoders
from actors.encoders.calibration import logit_scalars, read_scalars
from actors.encoders.facts import encoder_facts
from actors.encoders.settings import EncoderSettings
from jobs.tables import conform, table

TEXTS = ["A cat, sitting: here!", "ein hund", "寺院の庭", "a cat sitting here", "one two three " * 40]
SIZES = [(90, 60), (224, 224), (31, 300), (700, 500), (225, 223)]
VISION: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}


@pytest.fixture(scope="module", autouse=True)
def surroundings():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield


def save(model, folder: Path) -> None:
    """With weights large enough that a wrong pixel or token is seen in the vectors."""
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0, 0.3 if weight.ndim > 1 else 0.1)
    model.save_pretrained(folder)


@pytest.fixture(scope="module")
def siglip(tmp_path_factory) -> Path:
    import sentencepiece
    from transformers import SiglipConfig, SiglipImageProcessor, SiglipModel

    folder = tmp_path_factory.mktemp("siglip")
    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join([*(t.lower() for t in TEXTS), "the temple garden and the dog", "abc def ghi"] * 20))
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus), model_prefix=str(folder / "spiece"), vocab_size=90, character_coverage=1.0,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    text = VISION | {"vocab_size": 120, "max_position_embeddings": 64, "pad_token_id": 1, "eos_token_id": 1}
    config = SiglipConfig(text_config=text, vision_config=VISION | {"image_size": 224, "patch_size": 32})
    save(SiglipModel(config), folder)
    SiglipImageProcessor(size={"height": 224, "width": 224}, image_mean=[0.5] * 3, image_std=[0.5] * 3).save_pretrained(
        folder
    )
    settings = {"tokenizer_class": "SiglipTokenizer", "model_max_length": 64, "model_input_names": ["input_ids"]}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture(scope="module")
def clip(tmp_path_factory) -> Path:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("clip")
    tokens = Tokenizer(models.BPE())
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<|startoftext|>", "<|endoftext|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokens.train_from_iterator(TEXTS, trainer)
    start, end = (tokens.token_to_id(word) for word in special)
    pair = [(special[0], start), (special[1], end)]
    tokens.post_processor = processors.TemplateProcessing(single=f"{special[0]} $A {special[1]}", special_tokens=pair)
    PreTrainedTokenizerFast(
        tokenizer_object=tokens, bos_token=special[0], eos_token=special[1], pad_token=special[1], model_max_length=77
    ).save_pretrained(folder)
    text = VISION | {"vocab_size": 400, "max_position_embeddings": 77, "bos_token_id": start, "eos_token_id": end}
    vision = VISION | {"image_size": 224, "patch_size": 32}
    save(CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=24)), folder)
    CLIPImageProcessor().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def dino(tmp_path_factory) -> Path:
    from transformers import BitImageProcessor, Dinov2Config, Dinov2Model

    folder = tmp_path_factory.mktemp("dino")
    save(Dinov2Model(Dinov2Config(**VISION, image_size=224, patch_size=14)), folder)
    BitImageProcessor(
        size={"shortest_edge": 256}, image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225]
    ).save_pretrained(folder)
    return folder


def pictures() -> list[Image.Image]:
    draw = np.random.default_rng(3)
    return [Image.fromarray(draw.integers(0, 255, (7, 5, 3), np.uint8)).resize(size) for size in SIZES]


def encoded(picture: Image.Image) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    return stream.getvalue()


def images(*data: bytes | None) -> pa.Table:
    columns = {"image_id": [f"id{n}" for n in range(len(data))], "bytes": pa.array(data, pa.large_binary())}
    end = {"status": ["missing" if d is None else "ok" for d in data], "error_kind": None, "error_message": None}
    return pa.table({**columns, **{k: v or pa.nulls(len(data), pa.string()) for k, v in end.items()}})


def features(model, **inputs):
    """Return the normalised vectors of the library, whichever version it is."""
    texts = "input_ids" in inputs
    if hasattr(model, "get_image_features"):
        features = model.get_text_features(**inputs) if texts else model.get_image_features(**inputs)
    else:
        features = model(**inputs)
    features = features if isinstance(features, torch.Tensor) else features.pooler_output
    return torch.nn.functional.normalize(features, dim=-1).numpy()


def vectors(out: pa.Table) -> np.ndarray:
    return np.array(out["embedding"].to_pylist(), np.float16)


@pytest.mark.parametrize("name", ["siglip", "clip", "dino"])
def test_pictures_as_the_library_embeds_them(name, request):
    from transformers import AutoImageProcessor, AutoModel

    folder = request.getfixturevalue(name)
    settings = EncoderSettings(f"transformers:{folder}", device="cpu")
    inputs = AutoImageProcessor.from_pretrained(folder)(images=pictures(), return_tensors="pt")
    with torch.inference_mode():
        expected = features(AutoModel.from_pretrained(folder).eval(), pixel_values=inputs["pixel_values"])
    out = Embedder(settings)(PictureDecoder(settings)(images(*map(encoded, pictures()))))
    assert out["status"].to_pylist() == ["ok"] * len(SIZES)
    assert np.abs(vectors(out).astype(np.float32) - expected).max() < 5e-4  # one rounding to float16
    assert (vectors(out) == expected.astype(np.float16)).mean() > 0.99
    assert (expected @ expected.T)[~np.eye(len(expected), dtype=bool)].max() < 0.99999
    facts = encoder_facts(settings.checkpoint, pretrained=None)
    conform(out, table("embeddings", dim=facts.dim))
    assert str(folder.parent) not in facts.encoder
    assert facts.texts == (name != "dino")


def test_pixels_before_the_device(siglip):
    from transformers import AutoImageProcessor

    decoded = PictureDecoder(EncoderSettings(f"transformers:{siglip}"))(images(*map(encoded, pictures())))
    mine = np.stack([np.frombuffer(row, np.uint8).reshape(224, 224, 3) for row in decoded["pixels"].to_pylist()])
    whole = AutoImageProcessor.from_pretrained(siglip)(images=pictures(), return_tensors="pt")["pixel_values"]
    assert np.abs(mine.transpose(0, 3, 1, 2) / 127.5 - 1 - whole.numpy()).max() < 1e-6


@pytest.mark.parametrize("name", ["siglip", "clip"])
def test_texts_as_the_library_embeds_them(name, request):
    from transformers import AutoModel, AutoTokenizer

    folder = request.getfixturevalue(name)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokens = tokenizer(TEXTS, padding="max_length", truncation=True, max_length=64 if name == "siglip" else 77,
                       return_tensors="pt")  # fmt: skip
    inputs = {"input_ids": tokens["input_ids"]}
    if name == "clip":
        inputs["attention_mask"] = tokens["attention_mask"]
    with torch.inference_mode():
        expected = features(AutoModel.from_pretrained(folder).eval(), **inputs)
    rows = pa.table({"text_id": [str(n) for n in range(7)], "text": [*TEXTS, " ", None]})
    out = TextEmbedder(EncoderSettings(f"transformers:{folder}", device="cpu"))(rows)
    assert out["status"].to_pylist() == ["ok"] * 5 + ["missing_input"] * 2
    assert out["error_kind"].to_pylist()[5:] == ["empty_text"] * 2
    assert out["kind"].to_pylist() == ["text"] * 7
    got = np.array(out["embedding"].to_pylist()[:5], np.float32)
    assert np.abs(got - expected).max() < 5e-4
    same = bool((got[0] == got[3]).all())
    assert same == (name == "siglip")  # canonicalised: neither case nor punctuation is seen


def test_a_tokenizer_that_does_not_clean_is_helped(siglip, clip, tmp_path, monkeypatch):
    """SigLIP with a tokenizer of plain BPE, as checkpoints of SigLIP 2 have."""
    import shutil

    mixed = shutil.copytree(siglip, tmp_path / "mixed")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(clip / name, mixed / name)
    (mixed / "spiece.model").unlink()
    config = json.loads((mixed / "config.json").read_text())
    config["text_config"]["vocab_size"] = 400
    from transformers import AutoTokenizer, SiglipConfig, SiglipModel

    save(SiglipModel(SiglipConfig(**config)), mixed)
    tokenizer = AutoTokenizer.from_pretrained(mixed)
    assert tokenizer("A, b")["input_ids"] != tokenizer("a b")["input_ids"]
    embedder = Embedder(EncoderSettings(f"transformers:{mixed}", device="cpu"))
    one, other, third = embedder.embed_texts(["A cat, here!", "a cat here", "a dog here"])
    assert (one == other).all()
    assert not (one == third).all()
    monkeypatch.setattr(transformers_encoders, "_GEMMA_VOCABULARY", 400)  # SigLIP 2 was trained on lower case alone
    embedder = Embedder(EncoderSettings(f"transformers:{mixed}", device="cpu"))
    one, other, third = embedder.embed_texts(["A cat, here!", "a cat, here!", "a cat here"])
    assert (one == other).all()
    assert not (one == third).all()


def test_scale_and_bias(siglip, clip):
    from transformers import AutoModel

    model = AutoModel.from_pretrained(siglip)
    scalars = logit_scalars(f"transformers:{siglip}", pretrained=None)
    assert scalars is not None
    assert scalars == pytest.approx((model.logit_scale.item(), model.logit_bias.item()))
    assert logit_scalars(f"transformers:{clip}", pretrained=None) is None
    assert logit_scalars("local:siglip-tiny", pretrained=None) is not None
    with pytest.raises(ValueError, match="header"):
        read_scalars(io.BytesIO(b"\xff" * 16))


def test_scale_and_bias_of_any_dtype_behind_other_weights():
    def read(**tensors):
        content = {name: torch.as_tensor(value) for name, value in tensors.items()}
        return read_scalars(io.BytesIO(safetensors.torch.save({"a": torch.ones(3, 5), **content, "z": torch.ones(2)})))

    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        scale, bias = torch.tensor(4.75, dtype=dtype), torch.tensor([-16.5], dtype=dtype)  # exact in all of them
        assert read(logit_scale=scale, logit_bias=bias) == (4.75, -16.5)
    assert read(logit_scale=4.75) is None  # CLIP
    assert read(logit_bias=-16.5) is None
    assert read(logit_scale=4, logit_bias=-16) is None  # int64


def test_what_is_refused(siglip, dino, tmp_path):
    with pytest.raises(ValueError, match="a folder has no revisions"):
        encoder_facts(f"transformers:{siglip}", pretrained="main")
    for model_type, message in (("siglip2", "fixed picture size"), ("bert", "is a bert; must be one of siglip, clip")):
        (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
        with pytest.raises(ValueError, match=message):
            encoder_facts(f"transformers:{tmp_path}", pretrained=None)
    (tmp_path / "config.json").write_text((dino / "config.json").read_text())
    with pytest.raises(OSError, match="processor"):  # no preprocessor_config.json: none is made up
        encoder_facts(f"transformers:{tmp_path}", pretrained=None)
    (tmp_path / "preprocessor_config.json").write_text((dino / "preprocessor_config.json").read_text())
    with pytest.raises(FileNotFoundError, match=r"no \.safetensors"):
        encoder_facts(f"transformers:{tmp_path}", pretrained=None)


def test_a_missing_model_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*_: Any, **__: Any) -> Any:
        raise AssertionError("transformers was asked, which tries for half a minute")

    monkeypatch.setattr("transformers.AutoConfig.from_pretrained", ask)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match="HF_HUB_OFFLINE"):
        encoder_facts("transformers:google/no-such-model", pretrained=None)
    for folder in ("/no/such/folder", "./no-such-folder", "~/no-such-folder"):
        with pytest.raises(ValueError, match=f"^transformers:{folder}: no such folder"):
            encoder_facts(f"transformers:{folder}", pretrained=None)
