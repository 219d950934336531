"""Families of other kinds: texts, likelihoods and answers are those of transformers, and prefixes pass once."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from actors.local_models import tiny
from actors.rubrics.prompts import Prompt
from actors.vlm.chat import ChatEncoder
from actors.vlm.errors import ScoringError
from actors.vlm.generation import TextGenerator
from actors.vlm.loglik import CompletionScorer
from actors.vlm.model_inputs import collate
from actors.vlm.scoring import ClosedSetScorer
from actors.vlm.scoring_requests import ScoringRequest
from actors.vlm.settings import Sampling
from tests.actors.vlm.helpers import ARTICLE, DIGITS, distance, logprobs, picture, scores_of

GREEDY = Sampling(temperature=0, max_tokens=6)
CHATML = """{%- for message in messages -%}{{- '<|im_start|>' + message.role + '\\n' -}}
{%- if message.content is string -%}{{- message.content -}}{%- else -%}{%- for piece in message.content -%}
{{- 'IMAGE' if piece.type == 'image' else piece.text -}}{%- endfor -%}{%- endif -%}{{- '<|im_end|>\\n' -}}{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"""
TURNS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MOLMO = (
    *("<|image|>", "<|video|>", "<im_start>", "<im_end>", "<im_patch>", "<im_col>", "<low_res_im_start>"),
    *("<frame_start>", "<frame_end>", "<im_low>"),
)
QWEN = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
HEADS = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4}


def text(specials: tuple[str, ...]) -> dict[str, Any]:
    start = tiny.MERGED
    ids = {"pad_token_id": start, "bos_token_id": start + 1, "eos_token_id": start + 2}
    sizes = {"num_hidden_layers": 4, "num_key_value_heads": 2, "max_position_embeddings": 8192}
    return HEADS | sizes | ids | {"vocab_size": start + len(specials) + 8}


def write_molmo2(folder: Path) -> None:
    """Its processor returns numbers of patches, which count from the first picture of a batch."""
    import transformers

    template, specials = CHATML.replace("IMAGE", "<|image|>"), (*TURNS, *MOLMO)
    tokenizer = tiny.write_tokenizer(folder, specials=specials, end="<|im_end|>", pad=TURNS[0], template=template)
    token = {name: tokenizer.convert_tokens_to_ids(f"<{name}>") for name in ("im_start", "im_end", "im_patch")}
    token |= {name: tokenizer.convert_tokens_to_ids(f"<{name}>") for name in ("frame_start", "frame_end")}
    heads = HEADS | {"num_key_value_heads": 4, "head_dim": 16}
    config = transformers.Molmo2Config(
        text_config=text(specials) | {"head_dim": 16, "additional_vocab_size": 16} | tiny.rope(1e6),
        vision_config=heads
        | {"num_hidden_layers": 3, "image_size": [112, 112], "patch_size": 14, "num_position_embeddings": 64},
        adapter_config=heads | {"vision_feature_layer": [-1, -2], "text_hidden_size": 64},
        image_start_token_id=token["im_start"],
        low_res_image_start_token_id=tokenizer.convert_tokens_to_ids("<low_res_im_start>"),
        image_end_token_id=token["im_end"],
        image_patch_id=token["im_patch"],
        frame_start_token_id=token["frame_start"],
        frame_end_token_id=token["frame_end"],
    )
    size = {"height": 112, "width": 112}
    pictures = transformers.Molmo2ImageProcessor(size=size, patch_size=14, max_crops=4, overlap_margins=[1, 1])
    videos = transformers.Molmo2VideoProcessor(size=size)
    processor = transformers.Molmo2Processor(pictures, videos, tokenizer, chat_template=template)
    tiny.save(folder, make=lambda: transformers.Molmo2ForConditionalGeneration(config), processor=processor)


def write_qwen3_5(folder: Path) -> None:
    """Three of four layers have linear attention, whose state is not a list of keys."""
    import transformers

    template = CHATML.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>")
    specials = (*TURNS, *QWEN)
    tokenizer = tiny.write_tokenizer(folder, specials=specials, end="<|im_end|>", pad=TURNS[0], template=template)
    start, end, image, video = map(tokenizer.convert_tokens_to_ids, QWEN)
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 1, 1]}
    linear = {"linear_key_head_dim": 16, "linear_value_head_dim": 16, "linear_num_key_heads": 2}
    config = transformers.Qwen3_5Config(
        text_config=text(specials)
        | linear
        | {"head_dim": 32, "linear_num_value_heads": 4}
        | {"rope_parameters": rope | {"mrope_interleaved": True, "partial_rotary_factor": 0.25}},
        vision_config={"depth": 2, "hidden_size": 64, "intermediate_size": 128, "num_heads": 4}
        | {"out_hidden_size": 64, "num_position_embeddings": 256},
        image_token_id=image,
        video_token_id=video,
        vision_start_token_id=start,
        vision_end_token_id=end,
    )
    pictures = transformers.Qwen2VLImageProcessor(patch_size=16, min_pixels=4 * 32 * 32, max_pixels=64 * 32 * 32)
    processor = transformers.Qwen3VLProcessor(
        pictures, tokenizer, transformers.Qwen3VLVideoProcessor(), chat_template=template
    )
    tiny.save(folder, make=lambda: transformers.Qwen3_5ForConditionalGeneration(config), processor=processor)


def write_gemma4(folder: Path) -> None:
    """The heads of its full-attention layers have another size, so that `head_dim` of its config cannot be read."""
    import transformers

    template, names = CHATML.replace("IMAGE", "<|image|>"), ("image", "audio")
    named = {f"{name}_token": f"<|{name}|>" for name in names}
    named |= {f"bo{name[0]}_token": f"<|{name}>" for name in names} | {
        f"eo{name[0]}_token": f"<{name}|>" for name in names
    }
    specials = (*TURNS, "<|video|>", *named.values())
    tokenizer = tiny.write_tokenizer(
        folder, specials=specials, end="<|im_end|>", pad=TURNS[0], template=template, named=named
    )
    ids = {f"{name}_id": tokenizer.convert_tokens_to_ids(token) for name, token in named.items()}
    config = transformers.Gemma4Config(
        text_config=text(specials)
        | {"head_dim": 16, "global_head_dim": 32, "sliding_window": 64, "num_kv_shared_layers": 2}
        | {"layer_types": ["sliding_attention", "full_attention"] * 2}
        | {"vocab_size_per_layer_input": tiny.MERGED + 20, "hidden_size_per_layer_input": 8},
        vision_config=HEADS
        | {"num_hidden_layers": 2, "num_key_value_heads": 4, "head_dim": 16, "patch_size": 16}
        | {"position_embedding_size": 512},
        audio_config=None,
        video_token_id=tokenizer.convert_tokens_to_ids("<|video|>"),
        **{name: value for name, value in ids.items() if name != "eoa_token_id"},
    )
    processor = transformers.Gemma4Processor(
        transformers.Gemma4AudioFeatureExtractor(),
        transformers.Gemma4ImageProcessor(max_soft_tokens=70),
        tokenizer,
        transformers.Gemma4VideoProcessor(),
        chat_template=template,
        image_seq_length=70,
    )
    tiny.save(folder, make=lambda: transformers.Gemma4ForConditionalGeneration(config), processor=processor)


@pytest.fixture(scope="module", params=[write_molmo2, write_qwen3_5, write_gemma4])
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ChatEncoder]:
    from actors.vlm.loading import load_vlm

    folder = tmp_path_factory.mktemp("other")
    write: Callable[[Path], None] = request.param
    write(folder)
    model, processor = load_vlm(str(folder), dtype="float32", device_map="cpu")
    return model, ChatEncoder(processor)


def expected(model: Any, prompt: dict[str, Any]) -> list[int]:
    import torch

    with torch.inference_mode():
        tokens = model.generate(**prompt, max_new_tokens=6, min_new_tokens=6, do_sample=False)
    return list(tokens[0, prompt["input_ids"].shape[1] :].tolist())


def test_texts_about_several_pictures_are_those_about_each(
    loaded: tuple[Any, ChatEncoder], caplog: pytest.LogCaptureFixture
) -> None:
    model, chat = loaded
    prompts = [chat.encode([None, "What is this?"], [picture(seed)]) for seed in (1, 2, 3)]
    prompts += [chat.encode(["Text. " * number, "Who?"], []) for number in (1, 5, 5)]
    engine = TextGenerator(model, pad_id=0, ends=[])
    groups: list[int] = []
    attempt = engine._attempt

    def counted(group: Sequence[int], *rest: Any, **options: Any) -> Any:
        groups.append(len(group))
        return attempt(group, *rest, **options)

    with pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(engine, "_attempt", counted)
        texts = engine.generate(prompts, seeds=[[1, 2]] * len(prompts), sampling=GREEDY)
    points_into_pictures = "image_token_pooling" in prompts[0]
    assert sorted(groups) == ([1, 1, 1, 1, 2] if points_into_pictures else [1, 2, 3])
    assert ("changes the text about another" in caplog.text) == points_into_pictures
    assert points_into_pictures or "do not pass" not in caplog.text
    for prompt, samples in zip(prompts, texts, strict=True):
        assert not isinstance(samples, ScoringError), samples
        assert [sample.tokens for sample in samples] == [expected(model, prompt)] * 2


def test_likelihoods_of_labels_are_those_of_whole_passes(loaded: tuple[Any, ChatEncoder]) -> None:
    import torch

    model, chat = loaded
    prompt = chat.encode([None, "What is this?"], [picture(2)], start="It is")
    labels = [chat.continuation("It is", f" {label}") for label in ("a town", "the harbour of a large town", "x")]
    scores = CompletionScorer(model, pad_id=0).score(prompt, labels)
    assert not isinstance(scores, ScoringError), scores
    for label, score in zip(labels, scores, strict=True):
        whole = dict(prompt)
        for name in whole.keys() & {"input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids"}:
            more = (
                torch.tensor([label]) if name == "input_ids" else torch.full((1, len(label)), name == "attention_mask")
            )
            whole[name] = torch.cat([whole[name], more.to(whole[name].dtype)], dim=1)
        with torch.inference_mode():
            logits = model(**whole, use_cache=False).logits[0, -len(label) - 1 : -1].double().log_softmax(-1)
        assert score == pytest.approx(float(logits[range(len(label)), label].sum()), abs=1e-4)


def test_answers_after_a_shared_prefix_are_those_of_whole_passes(
    loaded: tuple[Any, ChatEncoder], caplog: pytest.LogCaptureFixture
) -> None:
    """Labels before several questions, answers of several tokens, suffixes of one token and of many."""
    model, chat = loaded
    labels = ("Melanesia, which has many islands and languages.", "Nordic.", "I")
    suffixes = [f"The culture is {label} {question}" for label in labels for question in ("Is it?", "Was it so? Tell.")]
    words = ("Northern Africa", "Northern Europe", "North")
    asked = [
        ScoringRequest(Prompt((None, article), suffix), shown, codes)
        for article, shown in ((ARTICLE, picture(1)), ("Short.\n\n", picture(2, width=200)))
        for codes in (DIGITS, words)
        for suffix in suffixes
    ]
    whole = ClosedSetScorer(model, chat.processor, engine="naive").score(asked)
    scorer = ClosedSetScorer(model, chat.processor)
    shared = scorer.score(asked)
    assert distance(logprobs(shared), logprobs(whole)) < 1e-4
    assert (scorer.engine, caplog.text) == ("cascade", "")
    passed, alone = (sum(score.passed_tokens for score in scores_of(scores)) for scores in (shared, whole))
    assert passed < alone / 5
    assert scores_of(whole)[0].logprobs != scores_of(whole)[2].logprobs, "a label matters"


def test_indices_into_a_picture_are_not_those_of_a_batch(tmp_path: Path) -> None:
    """The reason why such prompts pass alone: concatenated, they all point into the first picture."""
    from actors.vlm.loading import load_processor

    write_molmo2(tmp_path)
    chat = ChatEncoder(load_processor(str(tmp_path)))
    prompts = [chat.encode([None, "x"], [picture(seed)]) for seed in (1, 2)]
    together = collate(prompts, pad_id=0)["image_token_pooling"]
    assert int(together.max()) == int(prompts[0]["image_token_pooling"].max())
