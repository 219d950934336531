"""Ways in which prompts may be decoded together, and the choice of one by the first prompts of a checkpoint.

- `padded`: prompts of similar length pass together, the shorter ones padded on the left.
- `equal`: prompts of the same length pass together.
- `alone`: each prompt passes by itself; its samples continue from a repeated cache.
- `whole`: as `alone`, without a cache: for each token, the prompt and the text so far pass again.

The first of them is used whose likelihoods are those of a whole pass of each prompt by itself, and in which no picture
changes the text about another one: processors' tensors may hold indices into others (Molmo 2's `image_token_pooling`),
which a batch would have to shift. The second is compared by which picture changes what, so that rounding in half
precision hides nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, get_args

from actors.vlm import decoding, errors, families, model_inputs, shared_prefix
from actors.vlm.decoding import GraphDecoder, advance, encode_once, repeated, run_custom
from actors.vlm.engines import NaiveEngine
from actors.vlm.model_inputs import collate

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import GenerationConfig

    from actors.vlm.model_types import Tensors, Vlm

    Choose = Callable[[Tensor], Tensor | None]  # [rows, vocabulary] -> token ids [rows]; None ends all texts

Way = Literal["padded", "equal", "alone", "whole"]
WAYS: tuple[Way, ...] = get_args(Way)
PADDING_SHARE = 0.2  # largest share of padding in a group's shortest prompt; padding is wasted computation
COMPARED = 3  # tokens of a text that are compared
LIKELIEST = 8  # tokens whose likelihoods are compared at each of them
UNCHANGED = 1e-4  # by which log-likelihoods may change with the picture of another prompt
LEAST_OWN = 10  # how many times as much they must change with the prompt's own picture otherwise
log = logging.getLogger(__name__)


def fits(way: Way, longest: int, length: int) -> bool:
    """Return whether a prompt of `length` tokens may be in a group with a longer one."""
    if way == "padded":
        return length >= longest * (1 - PADDING_SHARE)
    return way == "equal" and length == longest


class DecodingWays:
    """The ways that a checkpoint's first prompts have shown to be right.

    Args:
        model: a model loaded by transformers, in evaluation mode.
        pad_id: any token id, for padding.
    """

    def __init__(self, model: Vlm, *, pad_id: int) -> None:
        self._model, self._pad_id = model, pad_id
        reaches = families.reaches(model.config.get_text_config()).values()
        self._shortest = min((reach.size for reach in reaches), default=None)
        self._verdicts: dict[tuple[bool, bool, Way], bool] = {}

    def of(self, prompts: Sequence[Tensors], *, steps: int) -> Way:
        """Return the way of prompts that have the same tensors; compare it if it is new.

        Args:
            prompts: inputs from `ChatEncoder.encode`; at least one.
            steps: the largest number of tokens of a text.

        Raises:
            Exception: the device is lost.
        """
        has_pictures = not set(model_inputs.PER_TOKEN).issuperset(prompts[0])
        longest = max(map(_length, prompts))
        traits = has_pictures, self._shortest is not None and longest > self._shortest
        for way in WAYS[:-1]:
            verdict = self._verdicts.get((*traits, way))
            if verdict is None and (example := _example(way, prompts)):
                verdict = self._compared(way, example, steps=min(steps, COMPARED))
                if verdict is not None:
                    self._verdicts[*traits, way] = verdict
                elif way == "alone":
                    return way
            if verdict:
                return way
        return "whole"

    def _compared(self, way: Way, prompts: Sequence[Tensors], *, steps: int) -> bool | None:
        """Return whether a way gives the likelihoods of whole passes; None if the prompts cannot show it."""
        try:
            distance = self._distance(way, prompts, steps=steps)
            mixes = distance is not None and len(prompts) > 1 and self._mixes(way, prompts)
        except Exception as error:
            if errors.is_fatal(error):
                raise
            if errors.is_out_of_memory(error) or not self._pass_whole(prompts):
                return None
            reason = f"{type(error).__name__}: {error}"
        else:
            if distance is None:
                return None
            reason = "the picture of one prompt changes the text about another" if mixes else ""
            if not mixes and distance > shared_prefix.tolerance(self._model):
                reason = f"log-likelihoods differ by {distance:.2g}"
        if reason:
            slower = {
                "padded": "only prompts of equal length pass together",
                "equal": "each prompt passes alone",
                "alone": "whole prompts pass for each token, up to as many times the work as a text has tokens",
            }
            name = self._model.config.model_type
            log.warning("model %r: prompts do not pass %s (%s); slower: %s", name, way, reason, slower[way])
        return not reason

    def _distance(self, way: Way, prompts: Sequence[Tensors], *, steps: int) -> float | None:
        """Return the largest difference of a log-likelihood from whole passes; None where those are not finite."""
        import torch

        logits = self._logits(way, prompts, steps=steps)
        texts = logits.argmax(-1).tolist()
        distance = 0.0
        for number, (prompt, text) in enumerate(zip(prompts, texts, strict=True)):
            whole = model_inputs.extended(model_inputs.on_device(self._model, prompt), text[:-1])
            expected = NaiveEngine(self._model).log_probabilities(whole, last=len(text)).cpu()
            likeliest = expected.topk(min(LIKELIEST, expected.shape[-1])).indices
            values = logits[number].log_softmax(-1).double().gather(-1, likeliest)
            differences = (values - expected.gather(-1, likeliest)).abs()
            if not bool(torch.isfinite(expected.gather(-1, likeliest)).all()):
                return None
            distance = max(distance, float(differences.max()))
        return distance

    def _pass_whole(self, prompts: Sequence[Tensors]) -> bool:
        """Return whether whole passes of the prompts, each by itself, succeed; if not, no way is to blame."""
        try:
            for prompt in prompts:
                NaiveEngine(self._model).log_probabilities(model_inputs.on_device(self._model, prompt), last=1)
        except Exception as error:
            if errors.is_fatal(error):
                raise
            return False
        return True

    def _mixes(self, way: Way, prompts: Sequence[Tensors]) -> bool:
        """Return whether a prompt's picture changes the likelihoods of another, more than that one's own does."""
        before = self._logits(way, prompts, steps=1)
        for changed in range(len(prompts)) if set(prompts[0]) - {*model_inputs.PER_TOKEN} else ():
            shown = [_other_picture(prompt) if n == changed else prompt for n, prompt in enumerate(prompts)]
            moved = (self._logits(way, shown, steps=1) - before).abs().amax((1, 2))
            allowed = max(UNCHANGED, float(moved[changed]) / LEAST_OWN)
            if any(float(value) > allowed for n, value in enumerate(moved) if n != changed):
                return True
        return False

    def _logits(self, way: Way, prompts: Sequence[Tensors], *, steps: int) -> Tensor:
        """Return the logits [prompts, steps, vocabulary], float32 on the CPU, along the likeliest texts."""
        import torch

        taken: list[Tensor] = []

        def choose(logits: Tensor) -> Tensor:
            taken.append(logits.float().cpu())
            return logits.argmax(-1)

        decode(self._model, prompts, way, pad_id=self._pad_id, samples=1, steps=steps, choose=choose)
        return torch.stack(taken, 1)


def _length(prompt: Tensors) -> int:
    return int(prompt["input_ids"].shape[1])


def _example(way: Way, prompts: Sequence[Tensors]) -> list[Tensors]:
    """Return prompts that show whether a way is right; none if these prompts do not need it."""
    if way == "alone":
        return [prompts[0]]
    for first, second in combinations(sorted(prompts, key=_length, reverse=True), 2):
        if fits(way, _length(first), _length(second)) and (way == "equal") == (_length(first) == _length(second)):
            return [first, second]
    return []


def _other_picture(prompt: Tensors) -> Tensors:
    """Return a prompt with the negatives of its pictures."""
    return {
        name: -tensor if tensor.is_floating_point() and name not in model_inputs.PER_TOKEN else tensor
        for name, tensor in prompt.items()
    }


def decode(
    model: Vlm, prompts: Sequence[Tensors], way: Way, *, pad_id: int, samples: int, steps: int, choose: Choose
) -> None:
    """Decode texts after prompts token by token.

    Args:
        way: how the prompts pass. They must fit together in it (`fits`).
        samples: rows per prompt; those of a prompt follow one another.
        steps: the largest number of tokens after the prompts.
        choose: gets the logits [rows, vocabulary] of each step and returns the rows' next tokens, or None to end.
    """
    if way == "whole":
        _decode_whole(model, prompts, samples=samples, steps=steps, choose=choose)
        return
    import torch

    def decode_cached(model: Vlm, input_ids: Tensor, generation_config: GenerationConfig, **state: Any) -> Tensor:
        logits, state = encode_once(model, input_ids, state)
        logits = logits.repeat_interleave(samples, dim=0)
        recorded: GraphDecoder | None = None
        if decoding.can_record(model, steps=steps):
            recorded = GraphDecoder(model, state, samples=samples, steps=steps)
        else:
            state = repeated(state, samples, rows=len(input_ids))
            input_ids = input_ids.repeat_interleave(samples, dim=0)
        for step in range(steps):
            chosen = choose(logits[:, -1])
            if chosen is None or step == steps - 1:
                break
            if recorded is not None:
                logits = recorded.step(chosen)[:, None]
                continue
            input_ids = torch.cat([input_ids, chosen[:, None].to(input_ids.device)], dim=1)
            logits, state = advance(model, input_ids, state, tokens=1)
        return input_ids

    run_custom(model, collate(prompts, pad_id=pad_id), decode_cached, pad_id=pad_id, steps=steps)


def _decode_whole(model: Vlm, prompts: Sequence[Tensors], *, samples: int, steps: int, choose: Choose) -> None:
    """Decode with a whole pass for each token; all prompts have one length."""
    import torch

    rows = [prompt for prompt in prompts for _ in range(samples)]
    texts: list[list[int]] = [[] for _ in rows]
    for step in range(steps):
        passed = rows if step else prompts  # at first, the rows of a prompt are the same
        so_far = texts if step else [[] for _ in prompts]
        inputs = collate([model_inputs.extended(row, text) for row, text in zip(passed, so_far, strict=True)], pad_id=0)
        shared_prefix.forget_positions(model)
        with torch.inference_mode():
            logits = model(**model_inputs.on_device(model, inputs), use_cache=False).logits[:, -1]
        chosen = choose(logits if step else logits.repeat_interleave(samples, dim=0))
        if chosen is None:
            return
        for text, token in zip(texts, chosen.tolist(), strict=True):
            text.append(token)
