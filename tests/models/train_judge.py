"""Train the judge of the demo: Qwen2.5-VL's architecture, on the project's rubrics about pictures of the little world.

    python -m tests.models.train_judge FOLDER

First the picture tower learns to tell what each cell of a picture shows by the sum of the words' embeddings; then the
whole model learns the answers to `tests.models.lessons`. The same arguments give the same weights on one machine and
version of torch, with one process or, in half the time, with two. A run that was cut off continues where it was.
"""

import argparse
import json
import random
import tempfile
import time
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from actors.local_models import qwen, tiny
from actors.vlm.chat import Chat
from jobs.testbed.little_world.scenes import YEARS, Scene, random_scene
from tests.models import cells, lessons, packing, pool, vocabulary
from tests.models.gradients import HALVES, Gradients

WIDTH, VISION, VOCABULARY = 128, 96, 600
LESSONS_PER_HALF, MICROBATCH = 8, 4  # of half a step; lessons of one microbatch are about equally long
PICTURES_PER_STEP = 96
RATE, LAST_RATE = 1.6e-3, 6e-4  # the highest, and that of the last lessons
ROPE_BASE = 1_000_000.0  # as in the published models
EMBEDDING = 0.05  # standard deviation of words' embeddings at the beginning
SEEN_SHARE = 0.2  # of the loss of pictures, where answers are taught
STATE = "state.pt"  # of a run that is not finished
MATCHING, TURNING = 1.0, 4  # gain of the heads that match, and pairs of dimensions that turn too fast for it


def write_processor(folder: Path, texts: Sequence[str], *, parts: Sequence[str], words: Sequence[str]) -> Any:
    """Write tokenizer and processors; returns the processor.

    Args:
        texts: what the byte pairs are learnt from.
        parts: fixed parts of prompts and answers, each of which becomes one token.
        words: words that become one token each where they are not part of a longer one.
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
    tokenizer.add_tokens([AddedToken(part, normalized=False) for part in parts])
    tokenizer.add_tokens([AddedToken(word, normalized=False, single_word=not word.isdigit()) for word in words])
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
        | tiny.rope(ROPE_BASE, sections=(4, 6, 6)),
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
    model: Any = Qwen2_5_VLForConditionalGeneration(config)
    nn.init.normal_(model.get_input_embeddings().weight, std=EMBEDDING)
    _start_years(model, processor.tokenizer)
    _start_matching(model)
    model.set_attn_implementation("eager")  # several times faster backwards on a CPU, at these lengths
    return model


def _start_matching(model: Any) -> None:
    """Let the first head of each group begin by attending to tokens that are like their own, wherever they are.

    Queries and keys are then equal projections, as they are nearly in trained models (Trockman and Kolter, "Mimetic
    Initialization of Self-Attention Layers", 2023). What tells a word that is true of the picture from one that is not
    is then there from the first step.
    """
    for layer in model.model.language_model.layers:
        attention = layer.self_attn
        size, group = attention.head_dim, attention.num_key_value_groups
        with torch.no_grad():
            for number in range(attention.config.num_key_value_heads):
                same = nn.init.orthogonal_(torch.empty(size, WIDTH), gain=MATCHING)
                same.view(2, size // 2, WIDTH)[:, :TURNING] = 0
                attention.k_proj.weight[number * size : (number + 1) * size] = same
                attention.q_proj.weight[number * group * size : (number * group + 1) * size] = same


def _start_years(model: Any, tokenizer: Any) -> None:
    """Let the embedding of a year begin as a sum of what all years, those of its decade, and it alone have."""
    rows = model.get_input_embeddings().weight
    ids = [year_token(tokenizer, year) for year in YEARS]
    with torch.no_grad():
        every, *decades = nn.init.normal_(torch.empty(1 + len(YEARS) // 10 + 1, WIDTH), std=EMBEDDING)
        for year, token in zip(YEARS, ids, strict=True):
            decade = decades[(year - YEARS[0]) // 10]
            rows[token] = 0.2**0.5 * every + 0.3**0.5 * decade + 0.5**0.5 * rows[token]


def year_token(tokenizer: Any, year: int) -> int:
    """Return the token that a year is."""
    (token,) = tokenizer(str(year), add_special_tokens=False)["input_ids"]
    return int(token)


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


class Trainer:
    """The model in training, with the pictures.

    Args:
        processor: the judge's.
        scenes: of the pictures.
        pixels: the pictures, from `pool.pixels`.
    """

    def __init__(self, processor: Any, scenes: Sequence[Scene], pixels: np.ndarray) -> None:
        self.model = build(processor)
        self.scenes = scenes
        self.draws = [random.Random(half) for half in range(HALVES)]
        self._gallery = Gallery(scenes, pixels, processor)
        self._teacher = cells.CellTeacher(processor.tokenizer)
        self._packer = packing.Packer(
            Chat(processor, name="demo-judge"),
            picture=self.model.config.image_token_id,
            copied={year_token(processor.tokenizer, year) for year in YEARS},
        )
        self._pad = processor.tokenizer.pad_token_id

    def begin_last_lessons(self) -> None:
        """Continue from the weights as they are saved, in bfloat16, and with new random numbers."""
        self.draws = [random.Random(HALVES + half) for half in range(HALVES)]
        with torch.no_grad():
            for weight in self.model.parameters():
                weight.copy_(weight.to(torch.bfloat16))

    def look(self, half: int) -> tuple[float, float]:
        """Teach the picture tower half a step; returns 0 and the loss, and adds to the gradients."""
        chosen = self.draws[half].sample(self.scenes, PICTURES_PER_STEP // HALVES)
        loss = self._seen_loss(features(self.model, self._gallery.tensors(chosen)), chosen) / HALVES
        loss.backward()
        return 0.0, loss.item()

    def answer(self, half: int, kinds: Sequence[lessons.Kind]) -> tuple[float, float]:
        """Teach half a step's lessons of `kinds`; returns the losses of answers and pictures, and adds to gradients."""
        draw = self.draws[half]
        taught = [lessons.lesson(draw.choice(self.scenes), draw, kinds) for _ in range(LESSONS_PER_HALF)]
        packed = sorted(((self._packer.pack(one), one) for one in taught), key=lambda pair: len(pair[0].ids))
        answered, seen = 0.0, 0.0
        for begin in range(0, len(packed), MICROBATCH):
            part = packed[begin : begin + MICROBATCH]
            share = len(part) / len(packed) / HALVES
            shown = [one for _, lesson in part for one in lesson.scenes]
            sight = features(self.model, self._gallery.tensors(shown)) if shown else None
            batch = packing.collate([tokens for tokens, _ in part], pad=self._pad)
            answers = answer_loss(self.model, batch, sight)
            pictures = torch.zeros(()) if sight is None else self._seen_loss(sight, shown)
            ((answers + SEEN_SHARE * pictures) * share).backward()
            answered += answers.item() * share
            seen += pictures.item() * share
        return answered, seen

    def _seen_loss(self, seen: torch.Tensor, scenes: Sequence[Scene]) -> torch.Tensor:
        return self._teacher.loss(seen, cells.cell_codes(scenes), self.model.get_input_embeddings().weight)


def train(
    folder: Path, *, pictures: int, steps: Sequence[int], cache: Path | None = None, rank: int | None = None
) -> None:
    """Write the trained checkpoint into `folder`; a run that was cut off continues from its last state in that folder.

    Args:
        pictures: number of pictures.
        steps: of the picture tower alone, of the first lessons, of easier ones, of all lessons, and of the last ones.
        cache: file in which the resampled pictures are kept.
        rank: number of this process, if there are two.
    """
    from transformers import AutoProcessor

    torch.manual_seed(0)
    torch.set_num_threads(1)  # sums in one order on any machine
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / STATE
    if not state.exists() and not rank:
        parts = vocabulary.fixed_runs() + vocabulary.phrases()
        write_processor(folder, list(vocabulary_texts()), parts=parts, words=vocabulary.words())
    if rank is not None:
        torch.distributed.barrier()
    processor = AutoProcessor.from_pretrained(folder)
    scenes = pool.scenes(pictures, seed=pool.TRAINED)
    trainer = Trainer(processor, scenes, pool.pixels(scenes, seed=pool.TRAINED, cache=None if rank else cache))
    model = trainer.model
    print(f"parameters={sum(p.numel() for p in model.parameters())} vocabulary={len(processor.tokenizer)}", flush=True)
    ends = [*accumulate(steps)]
    tower = _optimizer(model.model.visual.parameters(), ends[0])
    whole = _optimizer(model.parameters(), ends[3] - ends[0])
    last = _optimizer(model.parameters(), ends[4] - ends[3], rate=LAST_RATE)
    stages = [
        (tower, ()),
        (whole, lessons.FIRST),
        (whole, lessons.EASIER),
        (whole, lessons.ALL),
        (last, lessons.LAST),
    ]
    done, seconds = 0, 0.0
    if state.exists():
        kept = torch.load(state, weights_only=False)
        done, seconds = kept["done"], kept["seconds"]
        for draw, draw_state in zip(trainer.draws, kept["draws"], strict=True):
            draw.setstate(draw_state)
        for part, part_state in zip((model, *tower, *whole, *last), kept["parts"], strict=True):
            part.load_state_dict(part_state)
    gradients = Gradients(model.parameters(), rank)
    begun = time.process_time() - seconds
    for step in range(done, ends[-1]):
        if step == ends[3]:
            trainer.begin_last_lessons()
        (optimizer, schedule), kinds = stages[bisect_right(ends, step)]
        half_step = partial(trainer.answer, kinds=kinds) if kinds else trainer.look
        answered, seen = gradients.compute(half_step)
        nn.utils.clip_grad_norm_([w for group in optimizer.param_groups for w in group["params"]], 1.0)
        optimizer.step()
        schedule.step()
        seconds = time.process_time() - begun
        if not rank and (step % 25 == 0 or step == ends[-1] - 1):
            print(f"step={step} loss={answered:.3f} pictures={seen:.2f} seconds={seconds:.0f}", flush=True)
        if step % 100 == 99 or step == ends[-1] - 1:
            draws = _draws(trainer, rank)
            parts = [part.state_dict() for part in (model, *tower, *whole, *last)]
            if not rank:
                save(model, folder)
                torch.save(
                    {"done": step + 1, "seconds": seconds, "draws": draws, "parts": parts}, state.with_suffix(".new")
                )
                state.with_suffix(".new").replace(state)
    if not rank:
        state.unlink(missing_ok=True)


def _draws(trainer: Trainer, rank: int | None) -> list[Any]:
    """Return the states of the halves' random numbers; with two processes each knows its own."""
    states = [draw.getstate() for draw in trainer.draws]
    if rank is None:
        return states
    gathered: list[Any] = [None] * HALVES
    torch.distributed.all_gather_object(gathered, states[rank])
    return gathered


def _process(rank: int, address: str, folder: Path, settings: Mapping[str, Any]) -> None:
    """One of two processes."""
    torch.distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=HALVES)
    train(folder, rank=rank, **settings)
    torch.distributed.destroy_process_group()


def _optimizer(weights: Iterable[Any], steps: int, *, rate: float = RATE) -> tuple[Any, Any]:
    optimizer = torch.optim.AdamW(weights, lr=rate, weight_decay=0.02, betas=(0.9, 0.98))
    return optimizer, torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=max(2, steps), pct_start=0.05)


def vocabulary_texts() -> Any:
    """Yield the prompts and answers of some lessons, from which the tokenizer learns."""
    draw = random.Random(1)
    for _ in range(3000):
        for task in lessons.lesson(random_scene(draw.randrange(10**6)), draw).tasks:
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
    parser.add_argument("--steps", type=int, nargs=5, default=(300, 200, 3000, 3500, 2000), help="see `train`")
    parser.add_argument("--processes", type=int, choices=(1, 2), default=1)
    parser.add_argument("--cache", type=Path, help="file in which the resampled pictures are kept")
    arguments = parser.parse_args()
    settings = {"pictures": arguments.pictures, "steps": arguments.steps, "cache": arguments.cache}
    if arguments.processes == 1:
        train(arguments.folder, **settings)
        return
    with tempfile.TemporaryDirectory() as folder:
        address = (Path(folder) / "rendezvous").as_uri()
        torch.multiprocessing.spawn(_process, args=(address, arguments.folder, settings), nprocs=HALVES)


if __name__ == "__main__":
    main()
