"""Train the encoder of the demo: SigLIP's architecture and loss, on captions of the little world in twelve languages.

    python -m tests.models.train_encoder FOLDER

A text is a positive of every picture of the batch of which it is true. While training, linear classifiers of the single
facts read the picture's vector; they are not kept. The same arguments give the same weights on one machine and version
of torch. It takes one core.
"""

import argparse
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from jobs.testbed.little_world import census, scene_texts
from jobs.testbed.little_world.scenes import BY_NAME, COLOURS, COUNTS, SHAPES, SIDES, STYLES, VISIBLE, Scene
from tests.models import pool

WIDTH, LENGTH, VOCABULARY = 128, 24, 1000
BATCH = 128
VALUES: dict[str, Sequence[Any]] = {
    "shape": SHAPES, "colour": tuple(COLOURS), "count": COUNTS, "side": SIDES, "style": STYLES,
    "country_name": tuple(BY_NAME),
}  # fmt: skip


def build(vocabulary: int, pad: int) -> Any:
    """Return the model with its initial weights."""
    from transformers import SiglipConfig, SiglipModel

    shared = {"hidden_size": WIDTH, "intermediate_size": 2 * WIDTH, "num_attention_heads": 4}
    config = SiglipConfig(
        text_config=shared
        | {
            "num_hidden_layers": 2,
            "vocab_size": vocabulary,
            "max_position_embeddings": LENGTH,
            "projection_size": WIDTH,
            "pad_token_id": pad,
            "bos_token_id": pad,
            "eos_token_id": pad,
        },
        vision_config=shared | {"num_hidden_layers": 4, "image_size": pool.SEEN, "patch_size": 16},
    )
    model = SiglipModel(config)
    with torch.no_grad():
        model.logit_scale.fill_(np.log(10.0))
        model.logit_bias.fill_(-4.0)
    return model


def write_processors(folder: Path, texts: Sequence[str]) -> Any:
    """Write the tokenizer, trained on `texts`, and the picture processor; returns the tokenizer."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast, SiglipImageProcessor

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.NFKC(),
            normalizers.Lowercase(),
            normalizers.Replace(Regex(r"[^\p{L}\p{M}\p{N}\s]"), ""),
            normalizers.Replace(Regex(r"\s+"), " "),
            normalizers.Strip(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Metaspace()]
    )
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=["<pad>", "</s>", "<unk>"], show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=LENGTH
    )
    fast.save_pretrained(folder)
    size = {"height": pool.SEEN, "width": pool.SEEN}
    SiglipImageProcessor(size=size, resample=3, image_mean=[0.5] * 3, image_std=[0.5] * 3).save_pretrained(folder)
    return fast


def text_about(scene: Scene, draw: random.Random) -> tuple[str, tuple[str, ...]]:
    """Return a text about a scene, and the visible facts that it states."""
    kind = draw.random()
    language = draw.choice(list(scene_texts.LANGUAGES))
    entity = census.entity_of(scene)
    if kind < 0.5:
        return scene_texts.caption(scene, language), VISIBLE
    if kind < 0.75:
        stated = tuple(draw.sample(VISIBLE, draw.randint(1, 5)))
        return scene_texts.caption(scene, language, facts=stated), stated
    if kind < 0.85:
        return entity.lemma(draw.choice(("en", language))), census.FACTS
    if kind < 0.9:
        return entity.gloss, census.FACTS
    if kind < 0.95:
        return entity.article, census.FACTS
    return scene_texts.article(scene), ("country_name",)


def matching(one: Sequence[Scene], stated: Sequence[tuple[str, ...]], codes: np.ndarray) -> torch.Tensor:
    """Return which text is true of which picture, [texts, pictures] bool."""
    needed = torch.tensor([[name in names for name in VISIBLE] for names in stated])
    equal = torch.from_numpy(codes[:, None] == codes[None])
    return (equal | ~needed[:, None]).all(-1)


def train(folder: Path, *, pictures: int, steps: int, cache: Path | None) -> None:
    """Write the trained checkpoint into `folder`."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # sums in one order on any machine
    draw = random.Random(0)
    scenes = pool.scenes(pictures, seed=pool.TRAINED)
    pixels = torch.from_numpy(pool.pixels(scenes, seed=pool.TRAINED, cache=cache)).permute(0, 3, 1, 2)
    codes = np.array([[VALUES[name].index(getattr(scene, name)) for name in VISIBLE] for scene in scenes])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = write_processors(folder, [text_about(draw.choice(scenes), draw)[0] for _ in range(20000)])
    model = build(len(tokenizer), tokenizer.pad_token_id)
    model.set_attn_implementation("eager")  # several times faster backwards on a CPU, at these lengths
    heads = nn.ModuleList(nn.Linear(WIDTH, len(VALUES[name])) for name in VISIBLE)
    weights = [*model.parameters(), *heads.parameters()]
    optimizer = torch.optim.AdamW(weights, lr=2e-3, weight_decay=0.05, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps, pct_start=0.08)
    begun = time.process_time()
    for step in range(steps):
        chosen = draw.sample(range(len(scenes)), BATCH)
        written = [text_about(scenes[i], draw) for i in chosen]
        ids = tokenizer(
            [text for text, _ in written], padding="max_length", truncation=True, max_length=LENGTH, return_tensors="pt"
        )["input_ids"]
        true = matching(scenes, [stated for _, stated in written], codes[chosen])
        shown = pixels[chosen].float() / 127.5 - 1
        with torch.autocast("cpu", torch.bfloat16):
            seen = model.vision_model(pixel_values=shown).pooler_output
            read = model.text_model(input_ids=ids).pooler_output
            counts = [head(seen) for head in heads]
        seen, read = (nn.functional.normalize(vectors.float(), dim=-1) for vectors in (seen, read))
        logits = read @ seen.T * model.logit_scale.exp() + model.logit_bias
        signs = true.float() * 2 - 1
        pairs = -nn.functional.logsigmoid(signs * logits).sum(-1).mean()
        answers = torch.from_numpy(codes[chosen])
        facts = [nn.functional.cross_entropy(answer.float(), answers[:, i]) for i, answer in enumerate(counts)]
        share = max(0.05, 1 - 2 * step / steps)
        loss = pairs + share * sum(facts)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        schedule.step()
        if step % 25 == 0 or step == steps - 1:
            shares = " ".join(f"{name}={fact.item():.2f}" for name, fact in zip(VISIBLE, facts, strict=True))
            print(f"step={step} loss={pairs.item():.3f} {shares} seconds={time.process_time() - begun:.0f}", flush=True)
        if step % 250 == 249 or step == steps - 1:
            save(model, folder)


def save(model: Any, folder: Path) -> None:
    """Write the weights in float16 (safetensors)."""
    import copy

    copy.deepcopy(model).half().save_pretrained(folder)
    file = folder / "config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pictures", type=int, default=10000)
    parser.add_argument("--steps", type=int, default=700)
    parser.add_argument("--cache", type=Path, help="file in which the resampled pictures are kept")
    arguments = parser.parse_args()
    train(arguments.folder, pictures=arguments.pictures, steps=arguments.steps, cache=arguments.cache)


if __name__ == "__main__":
    main()
