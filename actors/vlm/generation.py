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
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from actors.ids import content_id
from actors.vlm import decoding_ways, errors, memory, model_inputs
from actors.vlm.chat import ChatEncoder
from actors.vlm.decoding import draw
from actors.vlm.decoding_ways import DecodingWays, Way, decode
from actors.vlm.engines import NaiveEngine
from actors.vlm.errors import EngineError, ScoringError
from actors.vlm.settings import Sampling

if TYPE_CHECKING:
    from torch import Tensor

    from actors.vlm.model_types import Inputs, Tensors, Vlm, WithEnds

MIN_BUDGET = 64 << 20  # bytes
# Bytes per entry of the vocabulary and row: logits, their softmax and its running sum in float64.
LOGIT_BYTES = 24
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
        self._ways = DecodingWays(model, pad_id=pad_id)
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
        waiting: list[tuple[Way, list[int]]] = []
        for places in fitting.values():
            way = self._way([prompts[place] for place in places], sampling)
            groups = self._groups(places, lengths, samples, sampling.max_tokens, way=way)
            waiting += [(way, group) for group in groups]
        while waiting:
            way, group = waiting.pop(0)
            texts = self._attempt(group, prompts, seeds, sampling, way=way)
            if texts is None:  # out of memory: split the group; a single prompt must fit
                if len(group) == 1:
                    results[group[0]] = _OUT_OF_MEMORY
                    continue
                middle = len(group) // 2
                waiting[:0] = [(way, group[:middle]), (way, group[middle:])]
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

    def _groups(
        self,
        places: Sequence[int],
        lengths: Sequence[int],
        samples: int,
        max_tokens: int,
        *,
        way: Way,
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
            fits = decoding_ways.fits(way, longest, lengths[place]) and (lengths[place] == longest or not ends_early)
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
        *,
        way: Way,
    ) -> list[list[Generated] | ScoringError] | None:
        """Return the results of a group; None if memory ran out."""
        import torch

        try:
            chosen = [prompts[place] for place in group]
            return list(self._group(chosen, [seeds[place] for place in group], sampling, way=way))
        except Exception as error:
            self._raise_if_fatal(error)
            is_scarce, reason = errors.is_out_of_memory(error), errors.reason(error)
        # outside the except clause, whose traceback would keep the failed group's memory alive
        if is_scarce:
            if self.model.device.type == "cuda":
                torch.cuda.empty_cache()
            return None
        if len(group) > 1:  # the prompt that fails must not fail the others
            alone = (self._attempt([place], prompts, seeds, sampling, way=way) or [_OUT_OF_MEMORY] for place in group)
            return [result for results in alone for result in results]
        return [reason]

    def _way(self, prompts: Sequence[Tensors], sampling: Sampling) -> Way:
        """Return how prompts with the same tensors are decoded. Raises EngineError if the device failed."""
        try:
            return self._ways.of(prompts, steps=self._steps(prompts, sampling))
        except Exception as error:
            self._raise_if_fatal(error)
            raise

    def _steps(self, prompts: Sequence[Tensors], sampling: Sampling) -> int:
        """Return how many tokens may follow the longest of some prompts."""
        if self.max_positions is None:
            return sampling.max_tokens
        longest = max(int(prompt["input_ids"].shape[1]) for prompt in prompts)
        return min(sampling.max_tokens, self.max_positions - longest)

    def _raise_if_fatal(self, error: Exception) -> None:
        if errors.is_fatal(error):
            raise EngineError(f"model {self.model.config.model_type!r}: {error}") from error

    def _group(
        self, prompts: Sequence[Tensors], seeds: Sequence[Sequence[int]], sampling: Sampling, *, way: Way
    ) -> Iterator[list[Generated]]:
        streams = [np.random.Generator(np.random.Philox(seed)) for prompt_seeds in seeds for seed in prompt_seeds]
        texts: list[list[int]] = [[] for _ in streams]
        has_ended: list[bool] = [False] * len(streams)

        def choose(logits: Tensor) -> Tensor | None:
            chosen = draw(logits, [stream.random() for stream in streams], sampling)
            if self.on_tokens is not None:
                self.on_tokens(has_ended.count(False))
            for row, token in enumerate(chosen.tolist()):
                if has_ended[row]:
                    continue
                if token in self.ends:
                    has_ended[row] = True
                else:
                    texts[row].append(token)
            return None if all(has_ended) else chosen

        samples, steps = len(seeds[0]), self._steps(prompts, sampling)
        decode(self.model, prompts, way, pad_id=self.pad_id, samples=samples, steps=steps, choose=choose)
        rows = [
            Generated(tokens, "stop" if ended else "length") for tokens, ended in zip(texts, has_ended, strict=True)
        ]
        for first in range(0, len(rows), samples):
            yield rows[first : first + samples]


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
