"""Small checkpoints of the architectures of `conf/embedder.yaml` against plain transformers, before rounding."""

import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
import safetensors.torch
import torch
import transformers as hf
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

from actors.embedder import Embedder, PictureDecoder, TextEmbedder
from actors.encoders import transformers_encoders
from actors.encoders.encoder_sources import EncoderSettings, encoder_facts, logit_scalars
from actors.encoders.towers import find_geometry, load_tower
from actors.encoders.vlm_encoders import INSTRUCTION, MOST_TOKENS, VlmEncoder, find_hub_encoder
from actors.errors import ModelError, SettingError
from actors.local_models import resolve

CPU = torch.device("cpu")
TEXTS = ["A cat, sitting: here!", "ein Hund", "寺院の庭", "one two three " * 40]
SIZES = [(90, 60), (224, 224), (31, 300), (2000, 3), (1, 900), (225, 223)]
TOWER = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
VISION = TOWER | {"image_size": 64, "patch_size": 16}
LENGTH, WORDS = 24, 400
CLIP_LIKE = hf.CLIPImageProcessor(size={"shortest_edge": 64}, crop_size={"height": 64, "width": 64})


def pictures() -> list[Image.Image]:
    draw = np.random.default_rng(3)
    return [Image.fromarray(draw.integers(0, 255, (7, 5, 3), np.uint8)).resize(size) for size in SIZES]


def write_tokenizer(folder: Path, **options: Any) -> dict[str, int]:
    """Write a tokenizer of bytes into `folder`; return the ids of its special tokens."""
    tokens = Tokenizer(models.BPE())
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<bos>", "<eos>", "<pad>", "<unk>", "<mask>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=WORDS, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokens.train_from_iterator(TEXTS, trainer)
    ids = dict(zip(("bos", "eos", "pad"), map(tokens.token_to_id, special), strict=False))
    ends = [(special[0], ids["bos"]), (special[1], ids["eos"])]
    tokens.post_processor = processors.TemplateProcessing(single="<bos> $A <eos>", special_tokens=ends)
    hf.PreTrainedTokenizerFast(
        tokenizer_object=tokens,
        bos_token="<bos>",
        eos_token="<eos>",
        pad_token="<pad>",
        model_max_length=LENGTH,
        **options,
    ).save_pretrained(folder)
    return {f"{name}_token_id": number for name, number in ids.items() if number is not None}


def save(model: Any, processor: Any, folder: Path) -> None:
    """Save with weights large enough that a wrong pixel or token is seen in the vectors."""
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0, 0.3 if weight.ndim > 1 else 0.1)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


class Kind(NamedTuple):
    """An architecture: its class, its config, the picture processor of its card, and whether it reads texts."""

    model: Any
    config: Callable[[dict[str, Any]], Any]
    processor: Any
    texts: bool = True


KINDS = {
    "siglip2 naflex": Kind(
        hf.Siglip2Model,
        lambda text: hf.Siglip2Config(text_config=text, vision_config=TOWER | {"num_patches": 16, "patch_size": 8}),
        hf.Siglip2ImageProcessor(patch_size=8, max_num_patches=20),
    ),
    "metaclip 2": Kind(
        hf.MetaClip2Model,
        lambda text: hf.MetaClip2Config(text_config=text, vision_config=VISION, projection_dim=24),
        CLIP_LIKE,
    ),
    "aimv2": Kind(
        hf.Aimv2Model,
        lambda text: hf.Aimv2Config(text_config=text, vision_config=VISION, projection_dim=24),
        CLIP_LIKE,
    ),
    "aimv2 pictures": Kind(hf.Aimv2VisionModel, lambda _: hf.Aimv2VisionConfig(**VISION), CLIP_LIKE, False),
    "dinov3": Kind(
        hf.DINOv3ViTModel,
        lambda _: hf.DINOv3ViTConfig(**VISION, num_register_tokens=4),
        hf.DINOv3ViTImageProcessor(size={"height": 64, "width": 80}),
        False,
    ),
    "dinov3 convnext": Kind(
        hf.DINOv3ConvNextModel,
        lambda _: hf.DINOv3ConvNextConfig(hidden_sizes=[8, 16, 24, 40], depths=[1, 1, 1, 1]),
        hf.DINOv3ViTImageProcessor(size={"height": 64, "width": 64}),
        False,
    ),
    "siglip's tower": Kind(
        hf.SiglipVisionModel,
        lambda _: hf.SiglipVisionConfig(**VISION),
        hf.SiglipImageProcessor(size={"height": 64, "width": 64}),
        False,
    ),
}


@pytest.fixture(scope="module", params=KINDS)
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Kind, Path]:
    kind, folder = KINDS[request.param], tmp_path_factory.mktemp("encoder")
    ids = write_tokenizer(folder) if kind.texts else {}
    text = TOWER | ids | {"vocab_size": WORDS, "max_position_embeddings": LENGTH, "projection_size": 32}
    save(kind.model(kind.config(text)), kind.processor, folder)
    return kind, folder


def of_library(output: Any) -> np.ndarray:
    features = output if isinstance(output, torch.Tensor) else output.pooler_output
    return torch.nn.functional.normalize(features.flatten(1), dim=-1).numpy()


def tower_and_rows(model: str, **options: Any) -> tuple[Any, torch.Tensor]:
    """Return the loaded encoder, and its rows of the pictures."""
    prepare = find_geometry(model, None).prepare
    rows = torch.from_numpy(np.stack([np.frombuffer(prepare(p).tobytes(), np.uint8) for p in pictures()]))
    return load_tower(model, None, device=CPU, dtype="float32", **options), rows


def normal(features: torch.Tensor) -> np.ndarray:
    return torch.nn.functional.normalize(features.float(), dim=-1).numpy()


def same(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(((one * other).sum(1) > 1 - 1e-5).all())


def test_pictures_have_the_vectors_of_the_library_in_any_batch(checkpoint: tuple[Kind, Path]) -> None:
    kind, folder = checkpoint
    model = kind.model.from_pretrained(folder).eval()
    inputs = hf.AutoImageProcessor.from_pretrained(folder)(images=pictures(), return_tensors="pt")
    tower, rows = tower_and_rows(f"transformers:{folder}")
    with torch.inference_mode():
        expected = of_library(model.get_image_features(**inputs) if kind.texts else model(**inputs))
        batches = [
            normal(tower.rows(rows)),
            *(np.concatenate([normal(tower.rows(p)) for p in rows.split(n)]) for n in (1, 4)),
        ]
    facts = encoder_facts(f"transformers:{folder}", pretrained=None)
    assert expected.shape == (len(SIZES), facts.dim)
    assert facts.texts == kind.texts
    assert (expected @ expected.T)[~np.eye(len(expected), dtype=bool)].max() < 0.9999
    assert [same(batch, expected) for batch in batches] == [True] * 3


def test_texts_have_the_vectors_of_the_library(checkpoint: tuple[Kind, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    kind, folder = checkpoint
    if not kind.texts:
        return
    monkeypatch.setattr(transformers_encoders, "_GEMMA_VOCABULARY", WORDS)
    is_siglip = kind.model is hf.Siglip2Model
    shown = [text.lower() for text in TEXTS] if is_siglip else TEXTS
    tokens = hf.AutoTokenizer.from_pretrained(folder)(
        shown, padding="max_length" if is_siglip else True, truncation=True, max_length=LENGTH, return_tensors="pt"
    )
    model = kind.model.from_pretrained(folder).eval()
    tower = load_tower(f"transformers:{folder}", None, device=CPU, dtype="float32")
    inputs = {"input_ids": tokens["input_ids"]} if is_siglip else dict(tokens, token_type_ids=None)
    inputs.pop("token_type_ids", None)
    with torch.inference_mode():
        expected = of_library(model.get_text_features(**inputs))
        assert same(normal(tower.texts(TEXTS)), expected)
    scalars = logit_scalars(f"transformers:{folder}", pretrained=None)
    assert scalars is None or scalars == pytest.approx((model.logit_scale.item(), model.logit_bias.item()))
    assert (scalars is not None) == is_siglip


def test_texts_without_a_pooled_vector_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = next(kind for kind in KINDS.values() if kind.texts)
    text = TOWER | write_tokenizer(tmp_path) | {"vocab_size": WORDS, "max_position_embeddings": LENGTH}
    save(kind.model(kind.config(text | {"projection_size": 32})), kind.processor, tmp_path)
    tower = load_tower(f"transformers:{tmp_path}", None, device=CPU, dtype="float32")
    monkeypatch.setattr(
        kind.model, "get_text_features", lambda *_, **__: hf.modeling_outputs.BaseModelOutputWithPooling()
    )
    with pytest.raises(ModelError, match="has no vector for a whole text; use an encoder with a pooled output"):
        tower.texts(TEXTS)


def table(*data: bytes | None) -> pa.Table:
    columns = {"image_id": [f"id{n}" for n in range(len(data))], "bytes": pa.array(data, pa.large_binary())}
    end = {"status": ["missing" if d is None else "ok" for d in data]}
    return pa.table(
        columns | end | {name: pa.nulls(len(data), pa.string()) for name in ("error_kind", "error_message")}
    )


def png(picture: Image.Image) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    return stream.getvalue()


def embedded(model: str, *data: bytes | None, batch_size: int = 64) -> pa.Table:
    settings = EncoderSettings(model, device="cpu")
    return Embedder(settings, batch_size=batch_size)(PictureDecoder(settings)(table(*data)))


def rounded(rows: pa.Table) -> np.ndarray:
    return normal(torch.tensor([vector for vector in rows["embedding"].to_pylist() if vector]))


def test_rows_that_are_not_ok_leave_the_others_as_they_are(checkpoint: tuple[Kind, Path]) -> None:
    _, folder = checkpoint
    good = [png(picture) for picture in pictures()[:2]]
    alone = embedded(f"transformers:{folder}", *good)
    rows = embedded(f"transformers:{folder}", None, good[0], b"no picture", good[1])
    assert rows["status"].to_pylist() == ["missing", "ok", "error", "ok"]
    assert same(rounded(rows), rounded(alone))


def test_models_without_a_vector_are_refused_before_their_weights_are_read(tmp_path: Path) -> None:
    for name, config, message in (
        ("masked", hf.ViTMAEConfig(**VISION), "no vector for a whole picture"),
        ("headless", hf.Aimv2VisionConfig(**VISION, use_head=False), "no vector for a whole picture"),
        ("text", hf.BertConfig(), "is a bert; must be an encoder of pictures"),
    ):
        config.save_pretrained(tmp_path / name)
        CLIP_LIKE.save_pretrained(tmp_path / name)
        with pytest.raises(ModelError, match=message):
            encoder_facts(f"transformers:{tmp_path / name}", pretrained=None)


VLM = "transformers:local:qwen3-vl-tiny"


def plain_states(
    turn: list[dict[str, Any]], pictures: list[Image.Image], instruction: str = INSTRUCTION
) -> torch.Tensor:
    """Return the last state of one prompt by transformers' own calls."""
    folder = resolve("local:qwen3-vl-tiny")
    processor = hf.AutoProcessor.from_pretrained(folder)
    messages = [
        {"role": "system", "content": [{"type": "text", "text": instruction}]},
        {"role": "user", "content": turn},
    ]
    text = processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    inputs = processor(text=[text], images=pictures or None, return_tensors="pt")
    with torch.inference_mode():
        model = hf.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
        return model.model(**inputs).last_hidden_state[0, -1]


def test_an_embedder_made_from_a_vision_language_model() -> None:
    facts = encoder_facts(VLM, pretrained=None)
    tower: Any = load_tower(VLM, None, device=CPU, dtype="float32")
    prepare = find_geometry(VLM, None).prepare
    shown = [picture for picture in pictures() if max(picture.size) < 200 * min(picture.size)]
    expected = normal(torch.stack([plain_states([{"type": "image"}], [picture]) for picture in shown]))
    rows = [prepare(picture).tobytes() for picture in shown]
    with torch.inference_mode():
        assert same(normal(tower.rows(rows)), expected)
        assert same(normal(tower.rows(rows[:1])), expected[:1])
        expected = normal(torch.stack([plain_states([{"type": "text", "text": text}], []) for text in TEXTS]))
        assert same(normal(tower.texts(TEXTS)), expected)
        asked = load_tower(VLM, None, device=CPU, dtype="float32", instruction="Find it.").texts(TEXTS[:1])
        assert same(normal(asked), normal(plain_states([{"type": "text", "text": TEXTS[0]}], [], "Find it.")[None]))
        assert not same(normal(asked), expected[:1])
        long = "dog " * (2 * MOST_TOKENS)
        assert len(tower._cut(long)) < len(long)
    assert expected.shape[1] == facts.dim
    assert facts.texts
    assert "pooling=last" in facts.preprocessing


def test_inputs_that_change_in_a_batch_pass_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    tower: Any = load_tower(VLM, None, device=CPU, dtype="float32")
    sizes: list[int] = []
    right = type(tower)._pass

    def wrong(self: Any, inputs: list[Any]) -> torch.Tensor:
        sizes.append(len(inputs))
        return right(self, inputs) * (1 if len(inputs) == 1 else -1)

    monkeypatch.setattr(type(tower), "_pass", wrong)
    with torch.inference_mode():
        tower.texts(TEXTS[:2])
        tower.texts(TEXTS[:2])
    assert sizes == [2, 1, 1, 1, 1, 1]


def test_rows_of_a_vision_language_model(tmp_path: Path) -> None:
    good = [png(picture) for picture in pictures()[:3]]
    alone = embedded(VLM, *good, batch_size=1)
    rows = embedded(VLM, None, good[0], b"no picture", good[1], good[2])
    assert rows["status"].to_pylist() == ["missing", "ok", "error", "ok", "ok"]
    assert same(rounded(rows), rounded(alone))
    texts = TextEmbedder(EncoderSettings(VLM, device="cpu"))(pa.table({"text_id": ["a"], "text": ["a cat"]}))
    assert texts["status"].to_pylist() == ["ok"]
    folder = tmp_path / "bare"  # without a chat template
    hf.AutoConfig.from_pretrained(resolve("local:qwen3-vl-tiny")).save_pretrained(folder)
    shutil.copy(Path(resolve("local:qwen3-vl-tiny")) / "model.safetensors", folder)
    with pytest.raises(ModelError, match="processor"):
        encoder_facts(f"transformers:{folder}", pretrained=None)
    assert isinstance(find_hub_encoder(VLM, None), VlmEncoder)
    assert json.loads((Path(resolve("local:qwen3-vl-tiny")) / "config.json").read_text())["model_type"] == "qwen3_vl"


def test_files_without_some_weights_are_refused(checkpoint: tuple[Kind, Path], tmp_path: Path) -> None:
    """transformers would draw them at random."""
    folder = shutil.copytree(checkpoint[1], tmp_path / "some")
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    name = next(name for name, weight in weights.items() if weight.ndim > 1)
    del weights[name]
    safetensors.torch.save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=f"lack 1 weights .*{re.escape(name)}"):
        load_tower(f"transformers:{folder}", None, device=CPU, dtype="float32")


def test_only_an_embedder_with_a_chat_template_reads_an_instruction(checkpoint: tuple[Kind, Path]) -> None:
    for model in (f"transformers:{checkpoint[1]}", "local:siglip-tiny"):
        with pytest.raises(SettingError, match="only embedders made from a vision-language model"):
            encoder_facts(model, pretrained=None, instruction="Find it.")
    assert encoder_facts(VLM, pretrained=None, instruction="Find it.") == encoder_facts(VLM, pretrained=None)
