"""Small checkpoints with the published models' picture sizes and settings."""

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from actors.local_models import resolve, tiny
from actors.rubrics.prompts import Prompt
from actors.vlm.chat import ChatEncoder
from actors.vlm.chat_format import ChatFormat
from actors.vlm.families import layout
from actors.vlm.generation import Generated, text_generator
from actors.vlm.loading import load_processor, load_vlm
from actors.vlm.model_checks import check_vlm
from actors.vlm.scoring import ClosedSetScorer
from actors.vlm.scoring_requests import Scores, ScoringRequest
from actors.vlm.settings import Sampling
from tests.actors.vlm import real_configs
from tests.actors.vlm.helpers import picture

Load = Callable[[str], tuple[Any, Any]]
SENTENCE = "The museum holds objects of many peoples.\n"
SMALL = (640, 480)
TOLERANCE = 1e-4  # of log-likelihoods, float32


def with_settings(processor: Any, published: real_configs.Published) -> Any:
    """Return the local processor (its tokenizer, its template) with the published one's settings."""
    pictures = type(processor.image_processor)(**published.pictures)
    video = {name: part for name, part in vars(processor).items() if name == "video_processor"}
    return type(processor)(
        pictures, processor.tokenizer, **video, chat_template=processor.chat_template, **published.processor
    )


@pytest.fixture(scope="module")
def published(load: Load, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Any, Any]]:
    """Tiny weights with a published model's picture sizes and settings, by the name of its local checkpoint."""
    files: dict[str, tuple[Any, Any]] = {}

    def build(name: str) -> tuple[Any, Any]:
        if name not in files:
            facts = real_configs.MODELS[name]
            model, processor = load(name)
            config = copy.deepcopy(model.config)
            for part, values in ((config.vision_config, facts.vision), (config.get_text_config(), facts.text)):
                for key, value in values.items():
                    setattr(part, key, value)
            config.get_text_config().max_position_embeddings = facts.positions
            if name == "mllama-tiny":
                config.vision_config.attention_heads = 1  # of 6,432 patches: four heads take four times as long
            if name == "gemma3-tiny":
                config.mm_tokens_per_image = facts.processor["image_seq_length"]
            if name == "smolvlm-tiny":
                config.scale_factor = 3
            if name == "llava-next-tiny":
                config.image_grid_pinpoints = facts.pictures["image_grid_pinpoints"]
                config.image_seq_length = 576
            folder = tmp_path_factory.mktemp(name)
            tiny.save(folder, make=lambda: type(model)(config), processor=with_settings(processor, facts))
            files[name] = load_vlm(str(folder), dtype="float32", device_map="cpu")
        return files[name]

    return build


def picture_tokens(processor: Any, width: int, height: int) -> int:
    inputs = ChatEncoder(processor).encode([None, "Is it?"], [Image.new("RGB", (width, height))])
    token = getattr(processor.tokenizer, "image_token", None) or processor.image_token  # Gemma's own is the mark before
    return int((inputs["input_ids"] == processor.tokenizer.convert_tokens_to_ids(token)).sum())


@pytest.mark.parametrize("name", real_configs.MODELS)
def test_number_of_tokens_of_a_picture(load: Load, name: str) -> None:
    facts = real_configs.MODELS[name]
    processor = with_settings(load(name)[1], facts)
    by_key = {size: picture_tokens(processor, *size) for size in facts.tokens}
    assert by_key == facts.tokens


def test_llamas_picture_is_seen_in_tiles(load: Load) -> None:
    processor = with_settings(load("mllama-tiny")[1], real_configs.LLAMA_VISION)
    for (width, height), tiles in {(300, 200): 1, (640, 480): 2, (1500, 500): 3, (4000, 3000): 4}.items():
        inputs = ChatEncoder(processor).encode([None, "Is it?"], [picture(1, width=width, height=height)])
        assert inputs["pixel_values"].shape[2:] == (4, 3, 560, 560)
        assert int(inputs["cross_attention_mask"][0, -1].sum()) == tiles


@pytest.mark.long
@pytest.mark.parametrize("name", real_configs.MODELS)
def test_every_engine_equals_one_whole_pass(published: Callable[[str], tuple[Any, Any]], name: str) -> None:
    model, processor = published(name)
    facts = real_configs.MODELS[name]
    assert layout(model.config.get_text_config()) is not None
    shown = picture(1, width=SMALL[0], height=SMALL[1])
    window = facts.text.get("sliding_window", 0)
    article = SENTENCE * max(5, window // 8)  # longer than the window, if there is one
    asked = [
        ScoringRequest(Prompt((None, article), t), shown, ("1", "2", "3")) for t in ("Is it Nordic?", "Is it old?")
    ]
    results = {}
    for engine in ("naive", "cascade", "batched"):
        scores = ClosedSetScorer(model, processor, engine=engine).score(asked)
        assert all(isinstance(score, Scores) for score in scores), scores
        results[engine] = [value for entry in scores for value in entry.logprobs]  # type: ignore[union-attr]
    assert scores[0].prompt_tokens > window + facts.tokens[SMALL]  # type: ignore[union-attr]
    for engine in ("cascade", "batched"):
        assert max(abs(a - b) for a, b in zip(results[engine], results["naive"], strict=True)) < TOLERANCE


@pytest.mark.long
@pytest.mark.parametrize("name", real_configs.MODELS)
def test_a_models_own_sampling_is_not_used(
    published: Callable[[str], tuple[Any, Any]], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import GenerationConfig

    model, processor = published(name)
    chat = ChatEncoder(processor)
    prompt = chat.encode([None, "Describe it, describe it, describe it."], [picture(1, width=300, height=200)])

    def drawn(config: GenerationConfig) -> list[Generated]:
        monkeypatch.setattr(model, "generation_config", config)
        engine = text_generator(model, chat)
        engine.ends = []
        (texts,) = engine.generate([prompt], seeds=[[1, 2]], sampling=Sampling(max_tokens=3))
        assert isinstance(texts, list), texts
        assert model.generation_config is config
        return texts

    facts = real_configs.MODELS[name]
    assert drawn(GenerationConfig(**facts.generation)) == drawn(GenerationConfig())


@pytest.mark.parametrize("name", real_configs.MODELS)
def test_a_text_ends_at_each_of_the_models_ends(load: Load, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import GenerationConfig

    model, processor = load(name)
    facts = real_configs.MODELS[name]
    monkeypatch.setattr(model, "generation_config", GenerationConfig(**facts.generation))
    ends = facts.generation["eos_token_id"]
    ids = {*(ends if isinstance(ends, list) else [ends]), processor.tokenizer.eos_token_id}
    assert set(text_generator(model, ChatEncoder(processor)).ends) == ids


@pytest.fixture(params=[None, 14], ids=["null", "14"])
def pangea(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The files of neulab/Pangea-7B-hf, before and after its processor got a patch size: the only template is the
    tokenizer's, and takes strings."""
    folder = tmp_path / "pangea"
    shutil.copytree(resolve("local:llava-next-tiny"), folder)
    (folder / "chat_template.jinja").unlink()
    settings = json.loads((folder / "processor_config.json").read_text())
    (folder / "preprocessor_config.json").write_text(json.dumps(settings["image_processor"]))
    own_settings = {
        "image_token": "<image>",
        "processor_class": "LlavaNextProcessor",
        "vision_feature_select_strategy": None,
    }
    (folder / "processor_config.json").write_text(json.dumps(own_settings | {"patch_size": request.param}))
    file = folder / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"chat_template": real_configs.STRING_TEMPLATE}))
    return folder


def test_pangeas_own_files(pangea: Path, load: Load) -> None:
    import torch

    assert check_vlm(str(pangea)) is True
    model, processor = load_vlm(str(pangea), dtype="float32", device_map="cpu")
    chat = ChatEncoder(processor)
    assert chat.text([None, "Is it?"], 1) == (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n<image>\nIs it?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    shown = picture(1, width=200, height=100)
    inputs = chat.encode([None, "Is it?"], [shown])
    prepared = ChatEncoder(load_processor(str(pangea))).encode([None, "Is it?"], [shown])
    assert torch.equal(inputs["input_ids"], prepared["input_ids"])
    assert picture_tokens(processor, 200, 100) == picture_tokens(load("llava-next-tiny")[1], 200, 100)
    asked = [
        ScoringRequest(Prompt(("Look.\n\n", None), suffix), shown, ("1", "2")) for suffix in ("Is it?", "Is it so?")
    ]
    naive, cascade = (ClosedSetScorer(model, processor, engine=e).score(asked) for e in ("naive", "cascade"))
    for one, other in zip(naive, cascade, strict=True):
        assert isinstance(one, Scores)
        assert isinstance(other, Scores)
        assert other.logprobs == pytest.approx(one.logprobs, abs=TOLERANCE)


@pytest.mark.parametrize("name", ["mllama-tiny", "llama-tiny"])
def test_a_prompt_does_not_depend_on_the_day(load: Load, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    processor = load(name)[1]
    holder = processor if name == "mllama-tiny" else processor.tokenizer
    monkeypatch.setattr(holder, "chat_template", real_configs.DATED_TEMPLATE)
    chat = ChatFormat(processor)
    assert "Today Date: 26 Jul 2024\n" in chat.render([{"role": "user", "content": "Is it?"}])
    if chat.sees_pictures:
        shown = chat.render([{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Is it?"}]}])
        assert "Today" not in shown


def test_a_template_that_prints_the_list_of_pieces(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """The printed list differs with a picture, but the model would not see the picture."""
    processor = load("llava-next-tiny")[1]
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    monkeypatch.setattr(processor, "chat_template", template)
    assert ChatEncoder(processor).text([None, "Is it?"], 1) == "user: <image>\nIs it?\n"
