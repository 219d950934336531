"""Generation of free text by vLLM, with the interface of `actors.vlm.generation.TextGenerator`."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from actors.vlm.errors import ScoringError
from actors.vlm.generation import Generated
from actors.vlm.sampling import Sampling
from actors.vlm.vllm_model import DRAWS_KEY, VllmModel
from actors.vlm.vllm_prompts import EnginePrompt, prompts_of, unpack


class VllmTextGenerator:
    """Generator that draws texts; samples of a prompt share its encoding through vLLM's prefix cache.

    Args:
        ends: token ids that end a text.

    Attributes:
        on_tokens: if set, called with the number of tokens drawn for each batch.
    """

    def __init__(self, model: VllmModel, *, ends: Sequence[int]) -> None:
        self.model, self.ends = model, list(ends)
        text = model.config.get_text_config()
        self.max_positions: int | None = getattr(text, "max_position_embeddings", None)
        self.on_tokens: Callable[[int], None] | None = None
        self._reserved = 0

    def generate(
        self, prompts: Sequence[Mapping[str, Any] | EnginePrompt], *, seeds: Sequence[Sequence[int]], sampling: Sampling
    ) -> list[list[Generated] | ScoringError]:
        """Return the samples of each prompt, in the order of `prompts`.

        Args:
            prompts: inputs from a `ChatEncoder` that keeps pictures, or the prompts made of such inputs.
            seeds: for each prompt, one per sample.

        Raises:
            EngineError: the engine failed.
        """
        results: list[list[Generated] | ScoringError] = []
        requests, params, places = [], [], []
        for place, (inputs, prompt_seeds) in enumerate(zip(prompts, seeds, strict=True)):
            prompt = inputs if isinstance(inputs, EnginePrompt) else unpack(inputs)
            error = self.model.too_long(len(prompt.tokens), positions=self.max_positions)
            results.append(error if error else [])
            if error:
                continue
            steps = max(1, min(sampling.max_tokens, self.model.max_positions - self._reserved - len(prompt.tokens)))
            for seed in prompt_seeds:
                requests.append(prompt)
                params.append(self._params(seed, steps, sampling))
                places.append(place)
        for place, output in zip(places, self.model.run(requests, params) if requests else [], strict=True):
            text = output if isinstance(output, ScoringError) else self._text(output.outputs[0])
            texts = results[place]
            if isinstance(text, ScoringError):
                results[place] = text
            elif not isinstance(texts, ScoringError):
                texts.append(text)
        return results

    def reserve(self, tokens: int) -> None:
        """See `actors.vlm.generation.TextGenerator.reserve`."""
        self._reserved = tokens
        if self.max_positions is not None:
            self.max_positions -= tokens

    def token_logprobs(self, inputs: Mapping[str, Any], tokens: Sequence[int]) -> list[float]:
        """Return the log-probabilities of a text's tokens; see `actors.vlm.generation.TextGenerator.token_logprobs`.

        Raises:
            ValueError: vLLM refuses the prompt.
            EngineError: the engine failed.
        """
        prompt_of = prompts_of(inputs, shared=int(inputs["input_ids"].shape[1]))
        prompts = [prompt_of(tokens[:number]) for number in range(len(tokens))]
        params = [self.model.params(max_tokens=1, logprob_token_ids=[token]) for token in tokens]
        values = []
        for token, output in zip(tokens, self.model.run(prompts, params), strict=True):
            if isinstance(output, ScoringError):
                raise ValueError(output.message)
            values.append(float(output.outputs[0].logprobs[0][token].logprob))
        return values

    def _params(self, seed: int, steps: int, sampling: Sampling) -> Any:
        draws = {DRAWS_KEY: [seed, sampling.temperature, sampling.top_p, steps]} if sampling.temperature else None
        # The likelihood of the drawn tokens (`logprobs=0`) shows whether the model's likelihoods are finite.
        return self.model.params(max_tokens=steps, stop_token_ids=self.ends, logprobs=0, extra_args=draws)

    def _text(self, completion: Any) -> Generated | ScoringError:
        tokens = [int(token) for token in completion.token_ids]
        if self.on_tokens is not None:
            self.on_tokens(len(tokens))
        if not math.isfinite(completion.cumulative_logprob or 0.0):
            return ScoringError("not_finite", "the model's likelihoods are not finite")
        if completion.finish_reason not in ("stop", "length"):
            return ScoringError("not_finished", f"vLLM ended the text with finish_reason={completion.finish_reason}")
        if tokens and tokens[-1] in self.ends:
            tokens.pop()
        return Generated(tokens, completion.finish_reason)
