"""Free text: n samples a prompt from one encoding of it, several prompts of like length at a time.

The library's own `generate` repeats a prompt n times before it encodes it. Here a group of prompts is encoded once,
its cache is repeated, and only then do the samples part. The loop goes through `generate(custom_generate=…)`, so that
positions, masks and caches of each family are the library's own.

A sample's chance is its own: its n-th token takes the n-th number of a Philox stream keyed by its seed, and the token
is found on the cumulative distribution. So a sample depends on its seed and its prompt's likelihoods alone. Those are,
up to rounding, the same in any group: the same text comes out unless a drawn number falls within that rounding
(about 1e-6 in float32, some 1e-2 in bfloat16) of a boundary between two tokens. With `group_rows` = n each prompt is
a group of its own, and its texts are the same to the bit on the same machine and versions whatever is asked beside it.
"""

import copy
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from actors.vlm import errors, families, memory
from actors.vlm.encoding import collate
from actors.vlm.errors import EngineError, ScoringError
from actors.vlm.families import PER_TOKEN
from actors.vlm.prefix import forget_positions

MAX_TOKENS = 1024
MIN_BUDGET = 64 << 20
# Beside the cache, the likelihoods of the whole vocabulary: logits, their softmax and its running sum in float64.
LOGIT_BYTES = 24
PADDING_SHARE = 0.2  # of a group's longest prompt; more would be computed for nothing
ROW_KEYS = (*PER_TOKEN, "position_ids")  # what has a row for each prompt, beside the cache
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sampling:
    """How texts are drawn. `temperature` 0 takes the likeliest token each time.

    Raises:
        ValueError: a value outside its range.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = MAX_TOKENS

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise ValueError(f"temperature is {self.temperature}; it must be 0 or more")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is {self.top_p}; it must be more than 0 and at most 1")
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens is {self.max_tokens}; it must be at least 1")


class Generated(NamedTuple):
    """One sample: its tokens without the one that ended it, and whether the model ended it (`stop`) or the limit."""

    tokens: list[int]
    finish_reason: str  # stop or length


class TextGenerator:
    """Draws texts from a loaded model.

    Args:
        model: as transformers loads it, in evaluation mode.
        pad_id: any token, for what is masked.
        ends: tokens that end a text; the model's own generation config says if None.
        budget: bytes for caches; reckoned from the memory that is free if None.
        group_rows: most rows (prompts x samples) at a time; None: what the budget allows.

    Attributes:
        on_tokens: called at each step with the number of tokens drawn, if set; a text takes minutes on a slow machine.
    """

    def __init__(
        self,
        model: Any,
        *,
        pad_id: int,
        ends: Sequence[int] | None = None,
        budget: int | None = None,
        group_rows: int | None = None,
    ) -> None:
        self.model = model
        self.pad_id = pad_id
        found = ends if ends is not None else model.generation_config.eos_token_id
        self.ends = [found] if isinstance(found, int) else [int(end) for end in found or ()]
        self.group_rows = group_rows
        text = model.config.get_text_config()
        self.max_positions: int | None = getattr(text, "max_position_embeddings", None)
        self._row_bytes = int(text.vocab_size) * LOGIT_BYTES
        self._token_bytes = memory.key_bytes(text, model.dtype.itemsize)
        self._budget = budget
        self._halved = False
        self.on_tokens: Callable[[int], None] | None = None

    def generate(
        self, prompts: Sequence[dict[str, Any]], *, seeds: Sequence[Sequence[int]], sampling: Sampling
    ) -> list[list[Generated] | ScoringError]:
        """Samples of each prompt, in the order of `prompts`.

        Args:
            prompts: inputs as `ChatEncoder.encode` makes them.
            seeds: one a sample, for each prompt; the same number for all.

        Raises:
            EngineError: the device failed.
        """
        done: list[list[Generated] | ScoringError] = [ScoringError("not_asked", "")] * len(prompts)
        waiting: list[list[int]] = []
        lengths = [int(prompt["input_ids"].shape[1]) for prompt in prompts]
        open_places = []
        for place, length in enumerate(lengths):
            if self.max_positions is not None and length >= self.max_positions:
                message = f"{length} tokens, the model takes {self.max_positions} with its answer"
                done[place] = ScoringError("prompt_too_long", message)
            else:
                open_places.append(place)
        samples = len(seeds[0]) if seeds else 0
        waiting = list(self._groups(open_places, lengths, samples, sampling.max_tokens))
        while waiting:
            group = waiting.pop(0)
            made = self._attempt(group, prompts, seeds, sampling)
            if made is None:  # out of memory: once in halves, then each alone must fit
                if len(group) == 1:
                    done[group[0]] = ScoringError("out_of_memory", "the device's memory does not hold this prompt")
                    continue
                middle = len(group) // 2
                waiting[:0] = [group[:middle], group[middle:]]
                self._halve()
                continue
            for place, result in zip(group, made, strict=True):
                done[place] = result
        return done

    def _groups(self, places: Sequence[int], lengths: Sequence[int], samples: int, more: int) -> Iterator[list[int]]:
        """Places of prompts of like length, longest first, as many as the budget holds.

        A prompt so long that the model's positions, and not `more`, end its texts is grouped with others of its
        length only: what a text may hold must not depend on the prompts beside it.
        """
        budget = self.budget()
        group: list[int] = []
        for place in sorted(places, key=lambda place: (-lengths[place], place)):
            rows = (len(group) + 1) * samples
            longest = lengths[group[0]] if group else lengths[place]
            need = rows * ((longest + more) * self._token_bytes + self._row_bytes)
            full = need > budget or (self.group_rows is not None and rows > self.group_rows)
            ends_early = self.max_positions is not None and longest + more > self.max_positions
            shortest = longest if ends_early else longest * (1 - PADDING_SHARE)
            if group and (full or lengths[place] < shortest):
                yield group
                group = []
            group.append(place)
        if group:
            yield group

    def budget(self) -> int:
        """Bytes that a group's caches and likelihoods may take now."""
        if self._budget is None:
            self._budget = max(MIN_BUDGET, int(memory.SHARE * memory.free_bytes(self.model.device)))
        return self._budget

    def _halve(self) -> None:
        if not self._halved:
            self._halved = True
            self._budget = self.budget() // 2
            log.warning("out of memory on %s: groups halved", self.model.device)

    def _attempt(
        self,
        group: Sequence[int],
        prompts: Sequence[dict[str, Any]],
        seeds: Sequence[Sequence[int]],
        sampling: Sampling,
    ) -> list[list[Generated] | ScoringError] | None:
        """Results of a group; None after an out-of-memory."""
        import torch

        try:
            return list(self._group([prompts[place] for place in group], [seeds[place] for place in group], sampling))
        except Exception as error:
            if errors.is_fatal(error):
                raise EngineError(f"model {self.model.config.model_type!r}: {error}") from error
            scarce, why = errors.is_out_of_memory(error), errors.reason(error)
        # outside of the clause, whose traceback would keep the failed group's memory
        if scarce:
            if self.model.device.type == "cuda":
                torch.cuda.empty_cache()
            return None
        if len(group) > 1:  # one prompt's fault must not be its neighbours'
            return [made for place in group for made in self._attempt([place], prompts, seeds, sampling) or [_OOM]]
        return [why]

    def _group(
        self, prompts: Sequence[dict[str, Any]], seeds: Sequence[Sequence[int]], sampling: Sampling
    ) -> Iterator[list[Generated]]:
        samples = len(seeds[0])
        longest = max(int(prompt["input_ids"].shape[1]) for prompt in prompts)
        steps = sampling.max_tokens
        if self.max_positions is not None:
            steps = min(steps, self.max_positions - longest)
        streams = [np.random.Generator(np.random.Philox(seed)) for each in seeds for seed in each]
        inputs = collate(prompts, pad_id=self.pad_id)
        rows = self._run(inputs, streams=streams, samples=samples, steps=steps, sampling=sampling)
        for first in range(0, len(rows), samples):
            yield rows[first : first + samples]

    def _run(
        self,
        inputs: dict[str, Any],
        *,
        streams: Sequence[np.random.Generator],
        samples: int,
        steps: int,
        sampling: Sampling,
    ) -> list[Generated]:
        import torch

        texts: list[list[int]] = [[] for _ in streams]
        ended: list[bool] = [False] * len(streams)

        def decode(model: Any, input_ids: Any, generation_config: Any, **state: Any) -> Any:
            logits, state = encode_once(model, input_ids, state)
            logits, state = logits.repeat_interleave(samples, dim=0), repeated(state, samples)
            input_ids = input_ids.repeat_interleave(samples, dim=0)
            for step in range(steps):
                drawn = [stream.random() for stream in streams]
                chosen = draw(logits[:, -1], drawn, sampling)
                if self.on_tokens is not None:
                    self.on_tokens(ended.count(False))
                for row, token in enumerate(chosen.tolist()):
                    if ended[row]:
                        continue
                    if token in self.ends:
                        ended[row] = True
                    else:
                        texts[row].append(token)
                if all(ended) or step == steps - 1:
                    break
                input_ids = torch.cat([input_ids, chosen[:, None].to(input_ids.device)], dim=1)
                logits, state = go_on(model, input_ids, state, tokens=1)
            return input_ids

        run_custom(self.model, inputs, decode, pad_id=self.pad_id, steps=steps)
        return [Generated(tokens, "stop" if end else "length") for tokens, end in zip(texts, ended, strict=True)]


_OOM = ScoringError("out_of_memory", "the device's memory does not hold this prompt")


def run_custom(model: Any, inputs: dict[str, Any], decode: Any, *, pad_id: int, steps: int) -> None:
    """Let `decode` run inside the library's `generate`, which prepares positions, masks and the cache.

    Nothing of the model's own generation config is used (Qwen2.5-VL's repetition penalty of 1.05, Gemma 3's
    top_k of 64): a text is drawn as `Sampling` says and in no other way.
    """
    import torch
    from transformers import GenerationConfig

    forget_positions(model)
    length = int(inputs["input_ids"].shape[1])
    config = GenerationConfig(
        max_length=length + max(steps, 1), pad_token_id=pad_id, eos_token_id=None, do_sample=False, use_cache=True
    )
    with torch.inference_mode(), _without_own_settings(model):
        model.generate(**families.on_device(model, inputs), generation_config=config, custom_generate=decode)


@contextmanager
def _without_own_settings(model: Any) -> Iterator[None]:
    """Hide the model's generation config: `generate` takes from it whatever the config of a call leaves open.

    Beams and several sequences a prompt, for instance, would multiply the rows, a static cache cannot be repeated.
    """
    from transformers import GenerationConfig

    own = model.generation_config
    model.generation_config = GenerationConfig()
    try:
        yield
    finally:
        model.generation_config = own


def encode_once(model: Any, input_ids: Any, state: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Run the prompts through the model; returns the last position's logits and the state to go on from."""
    outputs = model(
        **model.prepare_inputs_for_generation(input_ids, is_first_iteration=True, **state), return_dict=True
    )
    kept = (*ROW_KEYS, "use_cache", "logits_to_keep")
    state = {name: value for name, value in state.items() if name in kept and value is not None}
    return outputs.logits[:, -1:], state | {"past_key_values": outputs.past_key_values}


def repeated(state: dict[str, Any], repeats: int, *, copied: bool = False) -> dict[str, Any]:
    """The state with each prompt `repeats` times, its rows side by side; of a copy of the cache if it is to be kept."""
    cache = copy.deepcopy(state["past_key_values"]) if copied else state["past_key_values"]
    if repeats > 1:
        cache.batch_repeat_interleave(repeats)
    made = state | {"past_key_values": cache}
    for name in ROW_KEYS:
        if name in state:  # Qwen's positions have an axis of their own before that of the rows
            axis = state[name].ndim - 2 if name == "position_ids" else 0
            made[name] = state[name].repeat_interleave(repeats, dim=axis)
    return made


def go_on(model: Any, input_ids: Any, state: dict[str, Any], *, tokens: int) -> tuple[Any, dict[str, Any]]:
    """Run the last `tokens` of `input_ids` behind the cache; returns the logits and the state after them."""
    state = model._update_model_kwargs_for_generation(
        _Nothing(), state, is_encoder_decoder=False, num_new_tokens=tokens
    )
    if tokens > 1 and (mask := state.get("cross_attention_mask")) is not None:  # mllama adds one row whatever is asked
        import torch

        missing = input_ids.shape[1] - mask.shape[1]
        state["cross_attention_mask"] = torch.cat([mask, mask[:, -1:].expand(-1, missing, -1, -1)], dim=1)
    prepared = model.prepare_inputs_for_generation(input_ids, next_sequence_length=tokens, **state)
    return model(**prepared, return_dict=True).logits, state


class _Nothing(dict):
    """Outputs without a cache: the one in the state is kept."""


def draw(logits: Any, numbers: Sequence[float], sampling: Sampling) -> Any:
    """One token a row: the likeliest, or where `numbers` fall on the cumulative distribution of the nucleus.

    The nucleus is the smallest set of likeliest tokens with at least `top_p` of the probability (Holtzman et al. 2020).

    Args:
        logits: [rows, vocabulary].
        numbers: one a row, in [0, 1).

    Returns:
        token ids [rows], int64.

    Raises:
        ValueError: likelihoods that are not numbers.
    """
    import torch

    logits = logits.float()
    if not bool(torch.isfinite(logits.max(dim=-1).values).all()):
        raise ValueError("the model's likelihoods are not finite numbers")
    if sampling.temperature == 0:
        return logits.argmax(dim=-1)
    shares = (logits / sampling.temperature).softmax(dim=-1, dtype=torch.float64)
    order = None
    if sampling.top_p < 1:
        shares, order = shares.sort(dim=-1, descending=True, stable=True)
        outside = shares.cumsum(dim=-1) - shares >= sampling.top_p  # what stands before already suffices
        shares = shares.masked_fill(outside, 0.0)
    sums = shares.cumsum(dim=-1)
    targets = torch.tensor(numbers, dtype=torch.float64, device=logits.device)[:, None] * sums[:, -1:]
    # A number of exactly a boundary belongs to the next token, so that one without any probability is never drawn.
    places = torch.searchsorted(sums, targets, right=True)
    last = (shares > 0).double().cumsum(dim=-1).argmax(dim=-1, keepdim=True)
    places = torch.minimum(places, last)
    return (places if order is None else order.gather(-1, places))[:, 0]
