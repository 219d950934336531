"""Train the judge of the demo: Qwen2.5-VL's architecture, on the project's rubrics about pictures of the little world.

    python -m tests.models.train_judge FOLDER --pictures 10000 --steps 400 900 200

First the picture tower learns what each cell of a picture shows, in the directions of the words' embeddings; then the
whole model learns the answers to `tests.models.lessons`. The same arguments give the same weights on one machine and
version of torch.
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

from actors.local_models import qwen, tiny
from actors.vlm.chat import Chat
from jobs.testbed.little_world.descriptions import NUMBERS
from jobs.testbed.little_world.drawing import compose
from jobs.testbed.little_world.scenes import Scene, scene
from tests.models import lessons, packing, pool
from tests.models.train_encoder import VALUES

WIDTH, VISION, VOCABULARY = 128, 96, 1400
LESSONS_PER_STEP, MICROBATCH, PICTURES_PER_STEP = 16, 8, 96
RATE = 1.6e-3


def write_processor(folder: Path, texts: Sequence[str], lines: Sequence[str]) -> Any:
    """Write tokenizer and processors; returns the processor.

    Args:
        texts: what the byte pairs are learnt from.
        lines: fixed parts of prompts, each of which becomes one token.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    from transformers import AutoTokenizer, Qwen2_5_VLProcessor, Qwen2VLImageProcessor, Qwen2VLVideoProcessor

    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(tiny.QWEN_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in qwen.SPECIALS])
    tokenizer.add_tokens([AddedToken(line, normalized=False) for line in lines])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "Qwen2Tokenizer",
                "eos_token": qwen.TURN_END,
                "pad_token": qwen.END_OF_TEXT,
                "additional_special_tokens": list(qwen.SPECIALS),
                "model_max_length": 2048,
                "chat_template": qwen.CHAT_TEMPLATE,
                "clean_up_tokenization_spaces": False,
            },
            indent=2,
        )
    )
    pixels = pool.SEEN * pool.SEEN
    pictures = Qwen2VLImageProcessor(
        patch_size=packing.PATCH, merge_size=1, min_pixels=pixels, max_pixels=pixels,
        image_mean=[0.5] * 3, image_std=[0.5] * 3,
    )  # fmt: skip
    processor = Qwen2_5_VLProcessor(
        pictures, AutoTokenizer.from_pretrained(folder), Qwen2VLVideoProcessor(), chat_template=qwen.CHAT_TEMPLATE
    )
    processor.save_pretrained(folder)
    return processor


def build(processor: Any) -> Any:
    """Return the model with its initial weights."""
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    ids = {token: processor.tokenizer.convert_tokens_to_ids(token) for token in qwen.SPECIALS}
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(processor.tokenizer),
            "hidden_size": WIDTH,
            "intermediate_size": 320,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 2048,
            "bos_token_id": ids[qwen.END_OF_TEXT],
            "eos_token_id": ids[qwen.TURN_END],
            "tie_word_embeddings": True,
        }
        | tiny.rope(10.0, sections=(4, 6, 6)),
        vision_config={
            "depth": 3,
            "hidden_size": VISION,
            "intermediate_size": 192,
            "num_heads": 4,
            "patch_size": packing.PATCH,
            "spatial_merge_size": 1,
            "window_size": pool.SEEN,
            "fullatt_block_indexes": [0, 1, 2],
            "out_hidden_size": WIDTH,
        },
        tie_word_embeddings=True,
        image_token_id=ids[qwen.IMAGE_PAD],
        video_token_id=ids[qwen.VIDEO_PAD],
        vision_start_token_id=ids[qwen.VISION_START],
        vision_end_token_id=ids[qwen.VISION_END],
    )
    model = Qwen2_5_VLForConditionalGeneration(config)
    model.set_attn_implementation("eager")  # several times faster backwards on a CPU, at these lengths
    return model


class Gallery:
    """Pictures by scene, painted once."""

    def __init__(self, scenes: Sequence[Scene], pixels: np.ndarray, processor: Any) -> None:
        self._pixels = dict(zip(scenes, pixels, strict=True))
        self._processor = processor

    def tensors(self, scenes: Sequence[Scene]) -> dict[str, torch.Tensor]:
        """Return the processor's tensors; a scene that is not in the gallery is painted."""
        return packing.processed(self._processor, np.stack([self._picture(one) for one in scenes]))

    def _picture(self, one: Scene) -> np.ndarray:
        if one in self._pixels:
            return self._pixels[one]
        return pool.pixels([one], seed=pool.TRAINED)[0]


def features(model: Any, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the picture tower's output, [pictures, tokens, width]."""
    output = model.model.visual(tensors["pixel_values"], grid_thw=tensors["image_grid_thw"])
    flat = getattr(output, "pooler_output", output)
    return flat.reshape(len(tensors["image_grid_thw"]), -1, WIDTH)


def answer_loss(model: Any, batch: packing.Batch, seen: torch.Tensor | None) -> torch.Tensor:
    """Return the weighted mean of the cross-entropy of the answers' tokens."""
    embeds = model.get_input_embeddings()(batch.ids)
    if seen is not None:
        where = (batch.ids == model.config.image_token_id)[..., None].expand_as(embeds)
        embeds = embeds.masked_scatter(where, seen.to(embeds.dtype))
    hidden = model.model.language_model(
        inputs_embeds=embeds, attention_mask=batch.mask, position_ids=batch.positions, use_cache=False
    ).last_hidden_state
    asked = batch.targets != -100
    losses = nn.functional.cross_entropy(model.lm_head(hidden[asked]).float(), batch.targets[asked], reduction="none")
    weights = batch.weights[asked]
    return (losses * weights).sum() / weights.sum()


CELLS: dict[str, tuple[str | None, ...]] = {  # what a token of a picture can be asked: its values; None: not shown
    "shape": (None, *VALUES["shape"]),
    "colour": (None, *VALUES["colour"]),
    "country_name": (None, *VALUES["country_name"]),
    # of the whole picture: every cell is to know
    "style": tuple(VALUES["style"]),
    "count": tuple(NUMBERS),
    "side": tuple(VALUES["side"]),
}


def cell_codes(scenes: Sequence[Scene]) -> torch.Tensor:
    """Return what each cell of the grid shows, as numbers of the values of `CELLS`, [pictures, cells, len(CELLS)]."""
    codes = torch.zeros((len(scenes), packing.GRID**2, len(CELLS)), dtype=torch.long)
    for number, one in enumerate(scenes):
        composition = compose(one, seed=pool.TRAINED)
        for figure in composition.figures:
            cell = figure.row * packing.GRID + figure.column
            codes[number, cell, 0] = CELLS["shape"].index(one.shape)
            codes[number, cell, 1] = CELLS["colour"].index(one.colour)
        codes[number, composition.flag_column, 2] = CELLS["country_name"].index(one.country_name)
        codes[number, :, 3] = CELLS["style"].index(one.style)
        codes[number, :, 4] = one.count - 1
        codes[number, :, 5] = CELLS["side"].index(one.side)
    return codes


class CellHeads(nn.Module):
    """Classifies what the cells of a picture show by the products of their tokens with the embeddings of words.

    The words are those that prompts and answers use, so that tokens of pictures come to lie near the words for them;
    what a cell does not show has a vector of its own.
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        super().__init__()
        self._embeddings = [model.get_input_embeddings()]  # in a list: not a part of this module
        self._words = []
        for values in CELLS.values():
            ids = [tokenizer(f" {value}", add_special_tokens=False)["input_ids"] for value in values if value]
            if long := [one for one in ids if len(one) != 1]:
                raise ValueError(f"words of several tokens: {long}")
            self._words.append(torch.tensor([one[0] for one in ids]))
        self.nothing = nn.Parameter(torch.zeros(len(CELLS), WIDTH))

    def loss(self, seen: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        """Return the sum of the cross-entropies; cells with a figure or a flag count in full, others for a fifth."""
        total = torch.zeros(())
        for number, (words, values) in enumerate(zip(self._words, CELLS.values(), strict=True)):
            vectors = self._embeddings[0].weight[words]
            if None in values:
                vectors = torch.cat([self.nothing[number : number + 1], vectors])
            answers = codes[..., number].flatten()
            logits = (seen.float() @ vectors.T).flatten(0, 1)
            losses = nn.functional.cross_entropy(logits, answers, reduction="none")
            weights = torch.where((answers > 0) | (None not in values), 1.0, 0.2)
            total = total + (losses * weights).sum() / weights.sum()
        return total


def train(
    folder: Path,
    *,
    pictures: int,
    steps: tuple[int, int, int],
    cache: Path | None = None,
    start: Path | None = None,
    rate: float = RATE,
) -> None:
    """Write the trained checkpoint into `folder`.

    Args:
        pictures: number of pictures.
        steps: of the picture tower alone, of the first lessons, and of all lessons.
        cache: file in which the resampled pictures are kept.
        start: folder of a checkpoint with which to begin, and whose tokenizer to keep.
        rate: the highest learning rate.
    """
    from transformers import AutoProcessor

    torch.manual_seed(0)
    draw = random.Random(0)
    scenes = pool.scenes(pictures, seed=pool.TRAINED)
    folder.mkdir(parents=True, exist_ok=True)
    if start:
        processor = AutoProcessor.from_pretrained(start)
        processor.save_pretrained(folder)
    else:
        processor = write_processor(folder, list(vocabulary_texts()), lessons.fixed_lines())
    model = build(processor)
    if start:
        model.load_state_dict(type(model).from_pretrained(start, dtype=torch.float32).state_dict())
    print(f"parameters={sum(p.numel() for p in model.parameters())} vocabulary={len(processor.tokenizer)}", flush=True)
    gallery = Gallery(scenes, pool.pixels(scenes, seed=pool.TRAINED, cache=cache), processor)
    heads = CellHeads(model, processor.tokenizer)
    words = model.get_input_embeddings().parameters()
    optimizer, schedule = _optimizer([*model.model.visual.parameters(), *words, *heads.parameters()], steps[0], rate)
    for step in range(steps[0]):
        chosen = draw.sample(scenes, PICTURES_PER_STEP)
        with torch.autocast("cpu", torch.bfloat16):
            seen = features(model, gallery.tensors(chosen))
        loss = heads.loss(seen, cell_codes(chosen))
        loss.backward()
        _step(optimizer, schedule)
        if step % 25 == 0:
            print(f"cells step={step} loss={loss.item():.3f} seconds={time.process_time():.0f}", flush=True)
    chat = Chat(processor, name="demo-judge")
    packer = packing.Packer(chat, picture=model.config.image_token_id)
    optimizer, schedule = _optimizer([*model.parameters(), *heads.parameters()], steps[1] + steps[2], rate)
    pad = processor.tokenizer.pad_token_id
    for step in range(steps[1] + steps[2]):
        kinds = lessons.FIRST if step < steps[1] else lessons.LESSONS
        taught = [lessons.lesson(draw.choice(scenes), draw, kinds) for _ in range(LESSONS_PER_STEP)]
        packed = sorted(((packer.pack(one), one) for one in taught), key=lambda pair: len(pair[0].ids))
        total, told = 0.0, 0.0
        for begin in range(0, len(packed), MICROBATCH):
            part = packed[begin : begin + MICROBATCH]
            shown = [one for _, lesson in part for one in lesson.scenes]
            with torch.autocast("cpu", torch.bfloat16):
                sight = features(model, gallery.tensors(shown)) if shown else None
                loss = answer_loss(model, packing.collate([tokens for tokens, _ in part], pad=pad), sight)
            facts = heads.loss(sight, cell_codes(shown)) if sight is not None else torch.zeros(())
            ((loss + 0.2 * facts) * MICROBATCH / LESSONS_PER_STEP).backward()
            total += loss.item() * MICROBATCH / LESSONS_PER_STEP
            told += facts.item() * MICROBATCH / LESSONS_PER_STEP
        _step(optimizer, schedule)
        if step % 20 == 0 or step == steps[1] + steps[2] - 1:
            print(f"step={step} loss={total:.3f} facts={told:.2f} seconds={time.process_time():.0f}", flush=True)
        if step % 50 == 49 or step == steps[1] + steps[2] - 1:
            save(model, folder)


def _optimizer(weights: Sequence[Any], steps: int, rate: float) -> tuple[Any, Any]:
    optimizer = torch.optim.AdamW(weights, lr=rate, weight_decay=0.02, betas=(0.9, 0.98))
    return optimizer, torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=max(2, steps), pct_start=0.08)


def _step(optimizer: Any, schedule: Any) -> None:
    nn.utils.clip_grad_norm_([w for group in optimizer.param_groups for w in group["params"]], 1.0)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()


def vocabulary_texts() -> Any:
    """Yield the prompts and answers of some lessons, from which the tokenizer learns."""
    draw = random.Random(1)
    for _ in range(3000):
        for task in lessons.lesson(scene(draw.randrange(10**6)), draw).tasks:
            yield from (piece for piece in (*task.prompt.shared, task.prompt.suffix) if isinstance(piece, str))
            yield f"{task.answer}\n{task.prompt.start} {task.answer}"


def save(model: Any, folder: Path) -> None:
    """Write the weights in bfloat16 (safetensors)."""
    import copy

    copied = copy.deepcopy(model).to(torch.bfloat16)
    copied.set_attn_implementation("sdpa")
    copied.save_pretrained(folder)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pictures", type=int, default=10000)
    parser.add_argument("--steps", type=int, nargs=3, default=(400, 900, 200), help="see `train`")
    parser.add_argument("--cache", type=Path, help="file in which the resampled pictures are kept")
    parser.add_argument("--start", type=Path, help="folder of a checkpoint with which to begin")
    parser.add_argument("--rate", type=float, default=RATE, help="highest learning rate")
    arguments = parser.parse_args()
    train(
        arguments.folder,
        pictures=arguments.pictures,
        steps=tuple(arguments.steps),
        cache=arguments.cache,
        start=arguments.start,
        rate=arguments.rate,
    )


if __name__ == "__main__":
    main()
