"""Encoders of transformers from tiny local checkpoints, against what a user of the library itself gets."""

import contextlib
import hashlib
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import safetensors.torch
import torch
from PIL import Image
from safetensors.torch import save_file
from transformers import (
    BitImageProcessor,
    CLIPConfig,
    CLIPImageProcessor,
    Dinov2Config,
    Dinov2WithRegistersConfig,
    SiglipConfig,
    SiglipImageProcessor,
)

from actors import local_models
from actors.devices import find_device
from actors.embedder import Embedder, PictureDecoder, TextEmbedder
from actors.encoders import towers, transformers_encoders
from actors.encoders.encoder_sources import EncoderSettings, encoder_facts, logit_scalars, read_scalars
from actors.encoders.plain_files import CONFIG, OF_ALL, PICTURES, read_plain
from actors.encoders.transformers_encoders import MOST_DIM, MOST_PIXELS, HubEncoder, make_contiguous
from actors.local_models import resolve
from jobs.tables import conform, table
from tests.cases import check_cases

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
    for model_type, message in (("bert", "is a bert; must be an encoder of pictures"),):
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


SMALL = {"hidden_size": 24, "num_attention_heads": 2}
ENCODERS: dict[str, tuple[Any, Any]] = {
    "siglip": (SiglipConfig(vision_config=SMALL), SiglipImageProcessor(size={"height": 96, "width": 128})),
    "siglip by default": (SiglipConfig(), SiglipImageProcessor()),
    "clip": (CLIPConfig(projection_dim=24), CLIPImageProcessor(crop_size={"height": 96, "width": 96}, resample=2)),
    "clip by default": (CLIPConfig(), CLIPImageProcessor()),
    "dinov2": (Dinov2Config(**SMALL), BitImageProcessor(size={"shortest_edge": 256}, image_std=[0.2, 0.3, 0.4])),
    "dinov2 by default": (Dinov2Config(), BitImageProcessor(do_rescale=False, do_convert_rgb=False)),
    "dinov2 with registers": (Dinov2WithRegistersConfig(**SMALL), BitImageProcessor()),
}


def read(folder: Path) -> Callable[[str], str | None]:
    return lambda name: (folder / name).read_text() if (folder / name).is_file() else None


def write(folder: Path, config: dict[str, Any], pictures: dict[str, Any]) -> Path:
    folder.mkdir()
    (folder / CONFIG).write_text(json.dumps(config))
    (folder / PICTURES).write_text(json.dumps(pictures))
    return folder


def files_of(name: str, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    config, processor = ENCODERS[name]
    config.save_pretrained(folder)
    processor.save_pretrained(folder)
    return json.loads((folder / CONFIG).read_text()), json.loads((folder / PICTURES).read_text())


@pytest.mark.parametrize("name", ENCODERS)
def test_the_files_say_what_transformers_says(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, pictures = files_of(name, tmp_path)
    if name != "dinov2 by default":
        del pictures["do_convert_rgb"]
    folder = write(tmp_path / "model", config, pictures | {"processor_class": "SomeProcessor"})
    plain = HubEncoder(f"transformers:{folder}", None)
    with monkeypatch.context() as patch:
        patch.setattr("actors.encoders.transformers_encoders.read_plain", lambda _: None)
        whole = HubEncoder(f"transformers:{folder}", None)
    assert read_plain(read(folder)) is not None
    assert (plain.dim, plain.texts, plain.size) == (whole.dim, whole.texts, whole.size)
    assert plain.preprocessing == whole.preprocessing
    assert plain.processor.to_dict() == whole.processor.to_dict()


# Changes of a config or of the pictures' settings that only transformers can judge.
IN_CONFIG: dict[str, dict[str, Any]] = {
    "another architecture": {"model_type": "bert"},
    "no architecture": {"model_type": None},
    "code": {"auto_map": {"AutoModel": "evil.Evil"}},
    "text for a number": {"vision_config": {"hidden_size": "24"}},
    "half a number": {"vision_config": {"hidden_size": 24.5}},
    "a flag for a number": {"vision_config": {"hidden_size": True}},
    "no layers": {"vision_config": {"num_hidden_layers": 0}},
    "a vast number": {"vision_config": {"intermediate_size": 2**50}},
    "a tower within a tower": {"vision_config": {"vision_config": {}}},
    "a list for a tower": {"text_config": []},
    "a number for a word": {"text_config": {"hidden_act": 5}},
    "nothing": {"pruned_heads": None},
    "a flag for a token": {"text_config": {"pad_token_id": False}},
    "half a token": {"text_config": {"pad_token_id": 0.0}},
    "a negative token": {"text_config": {"pad_token_id": -1}},
    "no width": {"vision_config": {"hidden_size": 0}},
    "a list of lists": {"architectures": [[]]},
    "words for a list": {"architectures": "SiglipModel"},
    "a vast share": {"vision_config": {"attention_dropout": 10**7}},
    "a vast negative share": {"vision_config": {"attention_dropout": -(10**7)}},
    "a size at the bound": {"vision_config": {"hidden_size": 10**7}},
    "half a position": {"text_config": {"max_position_embeddings": 64.5}},
    "half a dimension": {"projection_dim": 24.5},
    "half a layer": {"vision_config": {"num_hidden_layers": 2.5}},
}
IN_PICTURES: dict[str, dict[str, Any]] = {
    "another processor": {"image_processor_type": "ViTImageProcessor"},
    "no processor": {"image_processor_type": None},
    "code": {"auto_map": {"AutoImageProcessor": "evil.Evil"}},
    "a further setting": {"do_pad": True},
    "one number for three": {"image_mean": 0.5},
    "two channels": {"image_std": [0.5, 0.5]},
    "one side": {"size": 224},
    "a shorter side": {"size": {"shortest_edge": 224}},
    "no size": {"size": {"height": 0, "width": 0}},
    "half a side": {"size": {"height": 96.5, "width": 128}},
    "a third side": {"size": {"height": 96, "width": 128, "depth": 1}},
    "an unknown interpolation": {"resample": 6},
    "a negative interpolation": {"resample": -1},
    "a flag for an interpolation": {"resample": True},
    "four channels": {"image_std": [0.5] * 4},
    "a flag for a channel": {"image_mean": [0.5, 0.5, True]},
    "a word for a factor": {"rescale_factor": "1"},
    "a word for a flag": {"do_resize": "yes"},
    "a word for the conversion": {"do_convert_rgb": "yes"},
}


def test_what_only_transformers_can_judge_is_left_to_it(tmp_path: Path) -> None:
    config, pictures = files_of("siglip", tmp_path)
    cases = [(name, config | change, pictures) for name, change in IN_CONFIG.items()]
    cases += [(name, config, pictures | change) for name, change in IN_PICTURES.items()]
    cases += [
        (f"without {key}", config, {k: v for k, v in pictures.items() if k != key}) for key in ("size", "resample")
    ]
    allowed = config | {"text_config": {"pad_token_id": 0}, "vision_config": {"hidden_size": 10**7 - 1}}
    named = config | {"torch_dtype": "float32", "_name_or_path": "o/n", "out_features": ["stem"], "out_indices": [0]}
    for number, right in enumerate((config, allowed, named)):
        for resample in (0, 5):
            folder = write(tmp_path / f"right {number} {resample}", right, pictures | {"resample": resample})
            assert read_plain(read(folder)) is not None
    wrong = [
        name
        for number, (name, *files) in enumerate(cases)
        if read_plain(read(write(tmp_path / str(number), *files))) is not None
    ]
    assert wrong == []


def test_what_a_config_leaves_out_is_the_default_of_transformers(tmp_path: Path) -> None:
    _, pictures = files_of("clip", tmp_path)
    _, squashed = files_of("siglip", tmp_path)
    sizes = {
        "siglip": SiglipConfig().vision_config.hidden_size,
        "clip": CLIPConfig().projection_dim,
        "dinov2": Dinov2Config().hidden_size,
        "dinov2_with_registers": Dinov2WithRegistersConfig().hidden_size,
    }
    for kind, size in sizes.items():
        texts = {CONFIG: {"model_type": kind}, PICTURES: squashed if kind == "siglip" else pictures}
        plain = read_plain({name: json.dumps(content) for name, content in texts.items()}.get)
        assert plain is not None
        assert (plain.dim, plain.texts) == (size, not kind.startswith("dinov2"))


def test_a_crop_that_is_off_leaves_no_fixed_size(tmp_path: Path) -> None:
    config, pictures = files_of("clip", tmp_path)
    folder = write(tmp_path / "model", config, pictures | {"do_center_crop": False})
    assert read_plain(read(folder)) is None
    with pytest.raises(ValueError, match="choose a model with a fixed size"):
        HubEncoder(f"transformers:{folder}", None)


def test_vectors_and_pictures_of_any_sane_size_are_accepted(tmp_path: Path) -> None:
    config, pictures = files_of("clip", tmp_path)
    cases = [
        *((dim, (96, 96), "") for dim in (1, MOST_DIM)),
        *((24, size, "") for size in ((1, MOST_PIXELS), (MOST_PIXELS, 1))),
        (MOST_DIM + 1, (96, 96), f"its vectors have {MOST_DIM + 1} numbers"),
        (24, (MOST_PIXELS + 1, 96), f"{MOST_PIXELS + 1} x 96 pixels"),
        (24, (96, MOST_PIXELS + 1), f"96 x {MOST_PIXELS + 1} pixels"),
    ]

    def check(dim: int, size: tuple[int, int], message: str) -> None:
        crop = dict(zip(("height", "width"), size, strict=True))
        folder = write(tmp_path / f"{dim} {size}", config | {"projection_dim": dim}, pictures | {"crop_size": crop})
        with pytest.raises(ValueError, match=message) if message else contextlib.nullcontext():
            encoder = HubEncoder(f"transformers:{folder}", None)
            assert (encoder.dim, encoder.size) == (dim, size)

    check_cases(check, cases)


def test_a_folder_is_identified_by_all_its_weights(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", *files_of("siglip", tmp_path))
    encoder = HubEncoder(f"transformers:{folder}", None)
    with pytest.raises(FileNotFoundError, match=r"no \.safetensors files"):
        encoder.revision()
    (folder / "b.safetensors").write_bytes(b"last")
    (folder / "a.safetensors").write_bytes(b"first")
    (folder / "a.bin").write_bytes(b"left aside")
    hashes = hashlib.sha256(b"first").digest() + hashlib.sha256(b"last").digest()
    assert encoder.revision() == hashlib.sha256(hashes).hexdigest()[:16]


def test_weights_are_looked_for_at_the_models_revision(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config, pictures = files_of("siglip", tmp_path)
    texts = {CONFIG: json.dumps(config), PICTURES: json.dumps(pictures)}
    asked: list[tuple[Any, ...]] = []

    def read_from_hub(repository: str, name: str, *, revision: str | None) -> str | None:
        asked.append((repository, revision))
        return texts.get(name)

    module = "actors.encoders.transformers_encoders"
    monkeypatch.setattr(f"{module}.read", read_from_hub)
    monkeypatch.setattr(f"{module}.check_reachable", lambda *place, **keys: asked.append((place, keys)))
    monkeypatch.setattr(f"{module}.commit", lambda *place, revision: {"v2": "ab" * 20, "v3": None}.get(revision))
    encoder = HubEncoder("transformers:org/name", "v2")
    assert set(asked) == {("org/name", "v2")}
    monkeypatch.setattr(f"{module}.read", lambda *_, revision: None)
    with pytest.raises(ValueError, match=r"transformers:org/name: the hub has no such model .*no config\.json"):
        HubEncoder("transformers:org/name", "v2")
    monkeypatch.setattr(f"{module}.read", read_from_hub)
    encoder.check_weights()
    files = ("model.safetensors", "model.safetensors.index.json")
    assert asked[-1] == (("org/name",), {"files": files, "revision": "v2"})
    revisions = [HubEncoder("transformers:org/name", revision).revision() for revision in ("v2", "v3", None)]
    assert revisions == ["ab" * 20, "v3", "main"]


def test_damaged_files_and_settings_of_all_inputs_are_left_to_transformers(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", *files_of("siglip", tmp_path))
    (folder / OF_ALL).write_text("{}")
    assert read_plain(read(folder)) is None
    (folder / OF_ALL).unlink()
    for file in (PICTURES, CONFIG):
        whole = (folder / file).read_text()
        assert read_plain(read(folder)) is not None
        for text in ("", "{", "[1]", "[" * 100_000, "null"):
            (folder / file).write_text(text)
            assert read_plain(read(folder)) is None, (file, text[:5])
        (folder / file).write_text(whole)


def test_a_transformers_that_prepares_pictures_otherwise_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "model", *files_of("siglip", tmp_path))
    encoder = HubEncoder(f"transformers:{folder}", None)
    described = SiglipImageProcessor.to_dict
    monkeypatch.setattr(SiglipImageProcessor, "to_dict", lambda self: described(self) | {"resample": 2})
    with pytest.raises(RuntimeError, match="install the version that"):
        _ = encoder.processor


def test_an_encoder_is_identified_without_torch() -> None:
    program = (
        "import sys; from actors.encoders import encoder_sources; "
        f"name = 'transformers:' + {resolve('local:demo-encoder')!r}; "
        "assert encoder_sources.encoder_facts(name, pretrained=None).dim == 128; "
        "assert encoder_sources.logit_scalars(name, pretrained=None); "
        "print({'torch', 'transformers', 'torchvision'} & set(sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "set()\n"


TINY_VISION: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}
SIDES = {"image_size": 64, "patch_size": 16}


def siglip_like(pretrained: bool = False, **settings: Any) -> torch.nn.Module:
    """Return a tower of timm as SigLIP's: no class token, attention pooling."""
    from timm.models.vision_transformer import VisionTransformer

    sizes: dict[str, Any] = {"img_size": 256, "patch_size": 32, "embed_dim": 64, "depth": 2, "num_heads": 2}
    wanted: dict[str, Any] = {"class_token": False, "global_pool": "map", "num_classes": 0}
    return VisionTransformer(**(sizes | wanted | {k: v for k, v in settings.items() if k in wanted}))


@pytest.fixture
def open_clip_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    import timm
    from open_clip import CustomTextCLIP

    monkeypatch.setitem(timm.models._registry._model_entrypoints, "siglip_like", siglip_like)
    folder = shutil.copytree(local_models.resolve("local:siglip-tiny"), tmp_path / "model")
    config = json.loads((folder / "open_clip_config.json").read_text())
    config["model_cfg"]["vision_cfg"]["timm_model_name"] = "siglip_like"
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    torch.manual_seed(0)
    model = CustomTextCLIP(**{name: value for name, value in config["model_cfg"].items() if name != "custom_text"})
    save_file(model.state_dict(), folder / "open_clip_model.safetensors")
    return f"local-dir:{folder}"


def transformers_folder(folder: Path, kind: str) -> str:
    """Return a small model of transformers with random weights and its picture processor."""
    import transformers

    torch.manual_seed(0)
    if kind == "dinov2":
        model = transformers.Dinov2Model(transformers.Dinov2Config(**(TINY_VISION | SIDES | {"mlp_ratio": 2})))
    elif kind == "clip":
        config = transformers.CLIPConfig(text_config=TINY_VISION, vision_config=TINY_VISION | SIDES, projection_dim=32)
        model = transformers.CLIPModel(config)
    else:
        model = transformers.SiglipModel(
            transformers.SiglipConfig(text_config=TINY_VISION, vision_config=TINY_VISION | SIDES)
        )
    model.save_pretrained(folder)
    size = {"height": 64, "width": 64}
    transformers.SiglipImageProcessor(size=size, image_mean=[0.5] * 3, image_std=[0.5] * 3).save_pretrained(folder)
    return f"transformers:{folder}"


def inputs_of_norms(tower: Any, pixels: torch.Tensor) -> tuple[torch.Tensor, list[bool]]:
    """Return the vectors, and whether the patches that reach each layer norm of the vision tower are contiguous."""
    vision = getattr(tower._model, "visual", getattr(tower._model, "vision_model", tower._model))
    norms = [part for part in vision.modules() if isinstance(part, torch.nn.LayerNorm)]
    contiguous: list[bool] = []

    def note(norm: Any, inputs: Any) -> None:
        if inputs[0].ndim == 3:  # not the pooled ones
            contiguous.append(inputs[0].is_contiguous())

    hooks = [norm.register_forward_pre_hook(note) for norm in norms]
    with torch.inference_mode():
        vectors = tower.pictures(pixels)
    for hook in hooks:
        hook.remove()
    return vectors, contiguous


def check(model: str, monkeypatch: pytest.MonkeyPatch, side: int, *, strided: bool) -> None:
    pixels = torch.randint(0, 256, (3, 3, side, side), dtype=torch.uint8)
    device = find_device("cpu")
    vectors, contiguous = inputs_of_norms(towers.load_tower(model, None, device=device, dtype="float32"), pixels)
    assert len(contiguous) >= 4
    assert all(contiguous)
    for module in (towers, transformers_encoders):
        monkeypatch.setattr(module, "make_contiguous", lambda _: None)
    plain, contiguous = inputs_of_norms(towers.load_tower(model, None, device=device, dtype="float32"), pixels)
    assert torch.equal(vectors, plain)
    assert all(contiguous) is not strided


def test_a_tower_of_open_clip(open_clip_folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(open_clip_folder, monkeypatch, 256, strided=True)


@pytest.mark.parametrize(("kind", "strided"), [("siglip", True), ("clip", False), ("dinov2", False)])
def test_towers_of_transformers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, strided: bool) -> None:
    """A class token makes the others contiguous without a hook."""
    check(transformers_folder(tmp_path, kind), monkeypatch, 64, strided=strided)


def test_other_outputs_stay_as_they_are() -> None:
    class Maps(torch.nn.Module):
        def forward(self, maps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return maps.transpose(2, 3), maps.transpose(2, 3)

    pair = Maps()
    make_contiguous(pair)
    assert not any(part.is_contiguous() for part in pair(torch.zeros(2, 3, 4, 5)))
