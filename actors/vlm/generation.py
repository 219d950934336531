"""Generation of free text: several samples per prompt from one encoding of it, with prompts grouped by length.

transformers' own `generate` repeats a prompt for each sample before encoding it. Here a group of prompts is encoded
once, and its cache is repeated.

The n-th token of a sample is drawn with the n-th number of a Philox stream keyed by the sample's seed, so that a sample
depends only on its seed and its prompt's likelihoods. The likelihoods are the same in any group up to rounding (about
1e-6 in float32, 1e-2 in bfloat16): a text changes with the group only if a number falls within that distance of a
boundary between two tokens. With `group_rows` equal to the samples per prompt, each prompt is a separate group, and
its texts are bitwise reproducible on the same machine and versions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from actors.ids import content_id
from actors.vlm import decoding, errors, families, memory, model_inputs
from actors.vlm.chat import ChatEncoder
from actors.vlm.decoding import GraphDecoder, advance, draw, encode_once, repeated, run_custom
from actors.vlm.engines import NaiveEngine
from actors.vlm.errors import EngineError, ScoringError
from actors.vlm.model_inputs import collate
from actors.vlm.settings import Sampling

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import GenerationConfig

    from actors.vlm.model_types import Inputs, Tensors, Vlm, WithEnds

MIN_BUDGET = 64 << 20  # bytes
# Bytes per entry of the vocabulary and row: logits, their softmax and its running sum in float64.
LOGIT_BYTES = 24
PADDING_SHARE = 0.2  # largest share of padding in a group's shortest prompt; padding is wasted computation
log = logging.getLogger(__name__)
_OUT_OF_MEMORY = ScoringError("out_of_memory", "the device's memory does not hold this prompt")


class Generated(NamedTuple):
    """A generated text.

    Attributes:
        tokens: its tokens, without the one that ended it.
        finish_reason: `stop` if the model ended the text, `length` if a limit did.
    """

    tokens: list[int]
    finish_reason: str


class TextGenerator:
    """Generator that draws texts from a loaded model.

    Args:
        model: a model loaded by transformers, in evaluation mode.
        pad_id: any token id, for padding.
        ends: token ids that end a text; by default those of the model's generation config.
        budget: bytes for caches; by default a share of the free memory.
        group_rows: largest number of rows (prompts x samples) of a group; None: as many as the budget allows.

    Attributes:
        on_tokens: if set, called at each step with the number of tokens drawn, to report progress.
    """

    def __init__(
        self,
        model: Vlm,
        *,
        pad_id: int,
        ends: Sequence[int] | None = None,
        budget: int | None = None,
        group_rows: int | None = None,
    ) -> None:
        self.model = model
        self.pad_id = pad_id
        end_ids = ends if ends is not None else model.generation_config.eos_token_id
        self.ends = [end_ids] if isinstance(end_ids, int) else [int(end) for end in end_ids or ()]
        self.group_rows = group_rows
        text = model.config.get_text_config()
        self.max_positions: int | None = getattr(text, "max_position_embeddings", None)
        self._row_bytes = int(text.vocab_size) * LOGIT_BYTES
        self._token_bytes = memory.key_bytes(text, model.dtype.itemsize)
        self._budget = budget
        self._warns_of_family = model.config.model_type not in families.BATCHED
        self.on_tokens: Callable[[int], None] | None = None

    def generate(
        self, prompts: Sequence[Tensors], *, seeds: Sequence[Sequence[int]], sampling: Sampling
    ) -> list[list[Generated] | ScoringError]:
        """Return the samples of each prompt, in the order of `prompts`.

        Args:
            prompts: inputs from `ChatEncoder.encode`.
            seeds: one seed per sample for each prompt; the same number for all prompts.

        Raises:
            EngineError: the device failed.
        """
        results: list[list[Generated] | ScoringError] = [ScoringError("not_asked", "")] * len(prompts)
        lengths = [int(prompt["input_ids"].shape[1]) for prompt in prompts]
        fitting: dict[frozenset[str], list[int]] = {}  # prompts with and without pictures have different inputs
        for place, length in enumerate(lengths):
            if self.max_positions is not None and length >= self.max_positions:
                message = f"{length} tokens; the model takes {self.max_positions} including its answer"
                results[place] = ScoringError("prompt_too_long", message)
            else:
                fitting.setdefault(frozenset(prompts[place]), []).append(place)
        samples = len(seeds[0]) if seeds else 0
        waiting = [
            group
            for names, places in fitting.items()
            for group in self._groups(places, lengths, samples, sampling.max_tokens, joins=self._joins(names))
        ]
        while waiting:
            group = waiting.pop(0)
            texts = self._attempt(group, prompts, seeds, sampling)
            if texts is None:  # out of memory: split the group; a single prompt must fit
                if len(group) == 1:
                    results[group[0]] = _OUT_OF_MEMORY
                    continue
                middle = len(group) // 2
                waiting[:0] = [group[:middle], group[middle:]]
                self._halve()
                continue
            for place, result in zip(group, texts, strict=True):
                results[place] = result
        return results

    def reserve(self, tokens: int) -> None:
        """Leave this many of the model's positions free after each text."""
        if self.max_positions is not None:
            self.max_positions -= tokens

    def token_logprobs(self, inputs: Inputs, tokens: Sequence[int]) -> list[float]:
        """Return the natural logarithm of the probability of each token of a text after a prompt."""
        whole = model_inputs.extended(model_inputs.on_device(self.model, inputs), list(tokens[:-1]))
        values = NaiveEngine(self.model).log_probabilities(whole, last=len(tokens))
        return [float(values[number, token]) for number, token in enumerate(tokens)]

    def _joins(self, names: Collection[str]) -> Callable[[int, int], bool]:
        """Return which prompts with tensors of these `names` may be in one group, given their two lengths.

        Only the listed families are known to give the same texts in a batch. Other families may have tensors that hold
        indices into others (Molmo 2's `image_token_pooling`), which `collate` would have to shift, and other ways to
        pad. Their prompts of text pass together if they need no padding, those with pictures one at a time.
        """
        kind = self.model.config.model_type
        if kind in families.BATCHED:
            return lambda longest, length: length >= longest * (1 - PADDING_SHARE)
        if set(model_inputs.PER_TOKEN).issuperset(names):
            return lambda longest, length: length == longest
        if self._warns_of_family:
            self._warns_of_family = False
            log.warning("model %r: not tried in batches; each prompt with a picture passes alone, slower", kind)
        return lambda longest, length: False

    def _groups(
        self,
        places: Sequence[int],
        lengths: Sequence[int],
        samples: int,
        max_tokens: int,
        *,
        joins: Callable[[int, int], bool],
    ) -> Iterator[list[int]]:
        """Yield groups of prompts of similar length, longest first, each as large as the budget allows.

        If a prompt is so long that its texts are ended by the model's positions rather than `max_tokens`, it is grouped
        only with prompts of the same length: how long a text may be must not depend on other prompts.
        """
        budget = self.budget()
        group: list[int] = []
        for place in sorted(places, key=lambda place: (-lengths[place], place)):
            rows = (len(group) + 1) * samples
            longest = lengths[group[0]] if group else lengths[place]
            need = rows * ((longest + max_tokens) * self._token_bytes + self._row_bytes)
            is_full = need > budget or (self.group_rows is not None and rows > self.group_rows)
            ends_early = self.max_positions is not None and longest + max_tokens > self.max_positions
            fits = joins(longest, lengths[place]) and (lengths[place] == longest or not ends_early)
            if group and (is_full or not fits):
                yield group
                group = []
            group.append(place)
        if group:
            yield group

    def budget(self) -> int:
        """Return the bytes that a group's caches and likelihoods may take."""
        if self._budget is None:
            self._budget = max(MIN_BUDGET, int(memory.SHARE * memory.free_bytes(self.model.device)))
        return self._budget

    def _halve(self) -> None:
        self._budget = max(min(MIN_BUDGET, self.budget()), self.budget() // 2)
        log.warning("out of memory on %s: the memory budget is halved", self.model.device)

    def _attempt(
        self,
        group: Sequence[int],
        prompts: Sequence[Tensors],
        seeds: Sequence[Sequence[int]],
        sampling: Sampling,
    ) -> list[list[Generated] | ScoringError] | None:
        """Return the results of a group; None if memory ran out."""
        import torch

        try:
            return list(self._group([prompts[place] for place in group], [seeds[place] for place in group], sampling))
        except Exception as error:
            if errors.is_fatal(error):
                raise EngineError(f"model {self.model.config.model_type!r}: {error}") from error
            is_scarce, reason = errors.is_out_of_memory(error), errors.reason(error)
        # outside the except clause, whose traceback would keep the failed group's memory alive
        if is_scarce:
            if self.model.device.type == "cuda":
                torch.cuda.empty_cache()
            return None
        if len(group) > 1:  # the prompt that fails must not fail the others
            alone = (self._attempt([place], prompts, seeds, sampling) or [_OUT_OF_MEMORY] for place in group)
            return [result for results in alone for result in results]
        return [reason]

    def _group(
        self, prompts: Sequence[Tensors], seeds: Sequence[Sequence[int]], sampling: Sampling
    ) -> Iterator[list[Generated]]:
        samples = len(seeds[0])
        longest = max(int(prompt["input_ids"].shape[1]) for prompt in prompts)
        steps = sampling.max_tokens
        if self.max_positions is not None:
            steps = min(steps, self.max_positions - longest)
        streams = [np.random.Generator(np.random.Philox(seed)) for prompt_seeds in seeds for seed in prompt_seeds]
        inputs = collate(prompts, pad_id=self.pad_id)
        rows = self._run(inputs, streams=streams, samples=samples, steps=steps, sampling=sampling)
        for first in range(0, len(rows), samples):
            yield rows[first : first + samples]

    def _run(
        self,
        inputs: Tensors,
        *,
        streams: Sequence[np.random.Generator],
        samples: int,
        steps: int,
        sampling: Sampling,
    ) -> list[Generated]:
        import torch

        texts: list[list[int]] = [[] for _ in streams]
        has_ended: list[bool] = [False] * len(streams)

        def decode(model: Vlm, input_ids: Tensor, generation_config: GenerationConfig, **state: Any) -> Tensor:
            logits, state = encode_once(model, input_ids, state)
            logits = logits.repeat_interleave(samples, dim=0)
            recorded: GraphDecoder | None = None
            if decoding.can_record(model, steps=steps):
                recorded = GraphDecoder(model, state, samples=samples, steps=steps)
            else:
                state = repeated(state, samples, rows=len(input_ids))
                input_ids = input_ids.repeat_interleave(samples, dim=0)
            for step in range(steps):
                numbers = [stream.random() for stream in streams]
                chosen = draw(logits[:, -1], numbers, sampling)
                if self.on_tokens is not None:
                    self.on_tokens(has_ended.count(False))
                for row, token in enumerate(chosen.tolist()):
                    if has_ended[row]:
                        continue
                    if token in self.ends:
                        has_ended[row] = True
                    else:
                        texts[row].append(token)
                if all(has_ended) or step == steps - 1:
                    break
                if recorded is not None:
                    logits = recorded.step(chosen)[:, None]
                    continue
                input_ids = torch.cat([input_ids, chosen[:, None].to(input_ids.device)], dim=1)
                logits, state = advance(model, input_ids, state, tokens=1)
            return input_ids

        run_custom(self.model, inputs, decode, pad_id=self.pad_id, steps=steps)
        return [
            Generated(tokens, "stop" if ended else "length") for tokens, ended in zip(texts, has_ended, strict=True)
        ]


def text_ends(model: WithEnds, chat: ChatEncoder) -> list[int]:
    """Return the tokens that end a text: the end tokens of the model's generation config and of its tokenizer."""
    end_ids = set(_end_ids(model))
    if chat.tokenizer.eos_token_id is not None:
        end_ids.add(chat.tokenizer.eos_token_id)
    return sorted(end_ids)


def text_generator(
    model: Vlm, chat: ChatEncoder, *, memory_budget_gb: float | None = None, group_rows: int | None = None
) -> TextGenerator:
    """Return the generator of a loaded model; texts end at an end token of the model's config or of its tokenizer."""
    return TextGenerator(
        model,
        pad_id=pad_token(chat, model),
        ends=text_ends(model, chat),
        budget=None if memory_budget_gb is None else int(memory_budget_gb * 1e9),
        group_rows=group_rows,
    )


def pad_token(chat: ChatEncoder, model: WithEnds) -> int:
    """Return the token id for padding; padding is masked, so any token will do."""
    pad_id = chat.tokenizer.pad_token_id
    return int(pad_id if pad_id is not None else next(iter(_end_ids(model)), 0))


def _end_ids(model: WithEnds) -> list[int]:
    """Return the ids of the end tokens in the model's config, in its order."""
    ids = model.generation_config.eos_token_id
    return [ids] if isinstance(ids, int) else list(ids or ())


def sample_seed(base: int, item: str, sample: int) -> int:
    """Return the seed of one sample: 63 bits of a hash of the run's seed, the item and the sample's number."""
    return int(content_id("seed", str(base), item, str(sample))[:16], 16) >> 1
