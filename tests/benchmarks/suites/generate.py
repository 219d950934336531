"""Write n texts about one picture and article: one encoding for all of them, or `generate` once a text.

Greedy, so that all contenders write the same tokens; what sampling costs next to a forward pass is the same for all.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from tests.benchmarks.child import Result
from tests.benchmarks.harness import Benchmark, Contender, Size, Target

PROMPTS: dict[Size, int] = {"smoke": 1, "default": 6, "full": 24}
WORDS, SAMPLES, NEW_TOKENS = 800, 3, 16


def prepare(workdir: Path, size: Size) -> None:
    """Write a model of 26 M parameters, and a picture and an article of about 1,200 tokens for each prompt."""
    import random

    import numpy as np
    from PIL import Image

    _write_model(workdir / "model")
    draw = random.Random(7)
    words = "the a of river town war peace council assembly bridge market square harbour treaty king union".split()
    articles = []
    for number in range(PROMPTS[size]):
        pixels = np.random.default_rng(number).integers(0, 256, (168, 224, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(workdir / f"{number}.png")
        articles.append(" ".join(draw.choice(words) for _ in range(WORDS)))
    (workdir / "articles.json").write_text(json.dumps(articles), encoding="utf-8")


def _write_model(folder: Path) -> None:
    """Write the local model, wider and deeper, because a smaller one would measure little but start-up."""
    import torch
    from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor

    from actors.local_models import resolve

    small = resolve("local:qwen2.5-vl-tiny")
    config = AutoConfig.from_pretrained(small)
    text = {"hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 8, "num_attention_heads": 8}
    for name, value in text.items():
        setattr(config.text_config, name, value)
    config.text_config.layer_types = ["full_attention"] * 8
    config.vision_config.out_hidden_size = 512
    torch.manual_seed(0)
    AutoModelForImageTextToText.from_config(config).save_pretrained(folder)
    AutoProcessor.from_pretrained(small).save_pretrained(folder)


def remine(workdir: Path, size: Size) -> Result:
    """The project's generator: a prompt is encoded once for its samples."""
    from actors.vlm.generation import TextGenerator
    from actors.vlm.settings import Sampling

    model, chat, prompts = _loaded(workdir)
    engine = TextGenerator(model, pad_id=chat.tokenizer.pad_token_id, ends=[])
    sampling = Sampling(temperature=0, max_tokens=NEW_TOKENS)
    seeds = [list(range(SAMPLES))] * len(prompts)
    results: list[list[int]] = []
    for output in engine.generate(prompts, seeds=seeds, sampling=sampling):
        if not isinstance(output, list):
            raise ValueError(f"a prompt failed: {output}")
        results += [one.tokens for one in output]
    return _result(results)


def separate(workdir: Path, size: Size) -> Result:
    """transformers' generate, once a text."""
    model, _, prompts = _loaded(workdir)
    return _result([_library(model, prompt)[0] for prompt in prompts for _ in range(SAMPLES)])


def num_return_sequences(workdir: Path, size: Size) -> Result:
    """transformers' generate, once a prompt: it repeats the prompt before it encodes it."""
    model, _, prompts = _loaded(workdir)
    return _result([tokens for prompt in prompts for tokens in _library(model, prompt, repeats=SAMPLES)])


def _library(model: Any, prompt: dict[str, Any], *, repeats: int = 1) -> list[list[int]]:
    import torch

    length = prompt["input_ids"].shape[1]
    # num_return_sequences needs sampling; of the likeliest token alone there is one choice
    options = {"do_sample": repeats > 1, "top_k": 1 if repeats > 1 else None, "num_return_sequences": repeats}
    with torch.inference_mode():
        generated = model.generate(
            **prompt, max_new_tokens=NEW_TOKENS, min_new_tokens=NEW_TOKENS, eos_token_id=None, **options
        )
    return [row[length:].tolist() for row in generated]


def _loaded(workdir: Path) -> tuple[Any, Any, list[dict[str, Any]]]:
    import torch
    from PIL import Image

    from actors.vlm.chat import ChatEncoder
    from actors.vlm.loading import load_vlm

    torch.set_num_threads(1)
    model, processor = load_vlm(str(workdir / "model"), dtype="float32")
    chat = ChatEncoder(processor)
    articles = json.loads((workdir / "articles.json").read_text(encoding="utf-8"))
    pictures = [Image.open(workdir / f"{number}.png").convert("RGB") for number in range(len(articles))]
    return model, chat, [chat.encode([None, text], [picture]) for text, picture in zip(articles, pictures, strict=True)]


def _result(texts: list[list[int]]) -> Result:
    return Result(rows=len(texts), digest=hashlib.sha256(json.dumps(texts).encode()).hexdigest())


BENCHMARK = Benchmark(
    name="generate",
    about=__doc__ or "",
    bound="the model's matrix products, one step of all texts at a time",
    prepare=prepare,
    contenders=(
        Contender(name="remine", function=f"{__name__}:remine", about="actors.vlm.generation"),
        Contender(name="separate", function=f"{__name__}:separate", about="generate, once a text"),
        Contender(
            name="num_return_sequences",
            function=f"{__name__}:num_return_sequences",
            about="generate, once a prompt, which repeats it first",
        ),
    ),
    reference="separate",
    targets=(Target(metric="cpu_s", contender="remine", against="separate", at_most=0.75),),
    packages=("torch", "transformers"),
)
