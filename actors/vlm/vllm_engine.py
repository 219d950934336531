"""A model that vLLM loads and runs (prefix caching, continuous batching, tensor parallelism), and its two uses.

vLLM runs in the actor's process; on several GPUs, with one worker process each. Its usage reports are off.

`VllmTextGenerator` has the interface of `actors.vlm.generation.TextGenerator`, `VllmScorer` that of
`actors.vlm.scoring.ClosedSetScorer`. An answer of several tokens is read token by token: after the prompt, and after
each beginning of an answer, one request asks for the log-probabilities of the tokens that may follow, over the full
vocabulary. The requests about a picture share all but their last tokens through vLLM's prefix cache.
"""

from __future__ import annotations

import gc
import math
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from actors.devices import find_dtype, has_cuda
from actors.errors import ModelError, first_line
from actors.model_files import resolve
from actors.vlm import errors, memory
from actors.vlm.engines import RequestLikelihoods
from actors.vlm.errors import EngineError, ScoringError
from actors.vlm.generation import Generated
from actors.vlm.loading import RaterFacts, load_config, load_processor, rater_name
from actors.vlm.model_checks import weights_form
from actors.vlm.model_inputs import VllmPrompt, unpack_for_vllm, vllm_prompts_of
from actors.vlm.picture_size import NO_BOUNDS, PictureSizer, PixelBounds
from actors.vlm.scoring import AnswerScorer
from actors.vlm.scoring_requests import AnswerCodes, RequestGroup
from actors.vlm.settings import ModelSettings, Sampling

if TYPE_CHECKING:
    import vllm

    from actors.vlm.model_types import Inputs

DRAWS = "actors.vlm.vllm_draws:SeededDraws"
DRAWS_KEY = "seeded_draws"  # key in a request's `extra_args`: [seed, temperature, top_p, max_tokens]
MOST_PICTURES = 64  # per prompt
PIXELS_AT_ONCE = 128 << 20  # in the pictures of one call; the models' inputs take 24 bytes per pixel
ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # no process is left over when the actor is killed
    "VLLM_USE_V2_MODEL_RUNNER": "0",  # `actors.vlm.vllm_draws` has the interface of version 1
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}
MOST_IDS = 128  # log-probabilities that vLLM returns for one request


class VllmModel:
    """A model in vLLM, with its processor and the facts about it.

    Args:
        model: which model to load, on all GPUs of this process, or on the CPU if there are none.
        memory_budget_gb: memory for the cache of keys and values; None: vLLM's share of a GPU, or half of the free
            memory without GPUs.
        sequences: largest number of sequences that run at a time; None: vLLM's choice.
        threads: torch's threads on a CPU; None: torch's default.

    Attributes:
        config, generation_config, processor: as transformers loads them.
        facts: facts about the model, for the table `raters`.
        max_positions: the longest prompt with its answer, in tokens: the model's limit, or fewer if the cache is
            smaller.

    Raises:
        ValueError: the model cannot be loaded.
    """

    def __init__(
        self,
        model: ModelSettings,
        *,
        memory_budget_gb: float | None = None,
        sequences: int | None = None,
        threads: int | None = None,
    ) -> None:
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        import torch
        import vllm
        from transformers import GenerationConfig

        device = "cuda" if model.device_map != "cpu" and has_cuda() else "cpu"
        if threads is not None and device == "cpu":
            torch.set_num_threads(threads)
        devices = torch.cuda.device_count() if device == "cuda" else 1
        dtype = find_dtype(model.dtype, torch.device(device))
        source, self._vllm = resolve(model.checkpoint), vllm
        options: dict[str, Any] = {"revision": model.revision or "main"}
        self.config = load_config(model.checkpoint, revision=model.revision)
        try:
            self.generation_config = GenerationConfig.from_pretrained(source, **options)
        except OSError:  # the model has no such file
            self.generation_config = GenerationConfig.from_model_config(self.config)
        self.processor = load_processor(model.checkpoint, revision=model.revision, variables=model.template)
        cache = int(memory_budget_gb * 1e9) if memory_budget_gb else None
        if device == "cpu":
            cache = cache or int(memory.SHARE * memory.free_cpu_bytes())
        self.label = f"model {model.checkpoint!r}"
        gc.collect()  # freeing an earlier model of this process later would free the process groups of all models
        try:
            self._llm = vllm.LLM(
                model=source,
                tokenizer_revision=options["revision"],
                trust_remote_code=False,
                load_format="safetensors",
                dtype=dtype,
                tensor_parallel_size=devices,
                distributed_executor_backend="mp" if devices > 1 else None,
                max_model_len=-1,  # as long as the model and the memory allow
                kv_cache_memory_bytes=cache,
                enable_prefix_caching=True,
                enforce_eager=device == "cpu",
                generation_config="vllm",  # without the model's own sampling settings
                logits_processors=[DRAWS],
                seed=0,
                **({} if sequences is None else {"max_num_seqs": sequences}),
                **self._picture_options(model),
                **options,
            )
        except (RuntimeError, MemoryError):  # an error of the device, such as too little memory
            raise
        except Exception as error:  # model files are untrusted, so any exception is possible
            raise ModelError(
                f"vLLM {vllm.__version__} cannot load the model ({first_line(error)}); use another engine=",
                model.checkpoint,
            ) from error
        length = int(self._llm.llm_engine.model_config.max_model_len)
        self.max_positions = min(length, getattr(self.config.get_text_config(), "max_position_embeddings", length))
        form = weights_form(model.checkpoint, revision=model.revision, as_stored=True)
        place = device if devices == 1 else f"{devices} x {device}"
        self.facts = RaterFacts(
            rater=rater_name(model.checkpoint, revision=model.revision),
            family=str(self.config.model_type),
            revision=str(getattr(self.config, "_commit_hash", None) or model.revision or ""),
            dtype=", ".join(filter(None, [dtype, form])),
            engine=f"vllm {vllm.__version__} / torch {torch.__version__}, {place}",
        )

    def _picture_options(self, model: ModelSettings) -> dict[str, Any]:
        """Return vLLM's settings for prompts with pictures, which it also uses to plan its memory."""
        from PIL import Image

        if getattr(self.processor, "image_processor", None) is None:
            return {}
        _, options = PictureSizer(self.processor, model.bounds)([Image.new("RGB", (64, 64))])
        kwargs = {"mm_processor_kwargs": {"images_kwargs": options}} if options else {}
        return {"limit_mm_per_prompt": {"image": MOST_PICTURES, "video": 0}, **kwargs}

    def params(self, **values: Any) -> vllm.SamplingParams:
        """Return vLLM's `SamplingParams` for texts as tokens; the most likely token is always taken."""
        return self._vllm.SamplingParams(temperature=0.0, detokenize=False, ignore_eos=True, **values)

    def too_long(self, tokens: int, *, positions: int | None) -> ScoringError | None:
        """Return why a prompt of `tokens` tokens cannot be answered; None if it can.

        Args:
            positions: the model's positions.
        """
        if positions is not None and tokens >= positions:
            return ScoringError("prompt_too_long", f"{tokens} tokens; the model takes {positions} including its answer")
        if tokens >= self.max_positions:
            message = f"{tokens} tokens; the device's memory holds the cache of {self.max_positions}"
            return ScoringError("out_of_memory", message)
        return None

    def run(
        self, prompts: Sequence[VllmPrompt], params: Sequence[vllm.SamplingParams]
    ) -> list[vllm.RequestOutput | ScoringError]:
        """Return vLLM's `RequestOutput` of each prompt, or the `ScoringError` of one that failed.

        All prompts are passed in one call, which ends with the longest text, unless their pictures do not fit into
        memory as the model's inputs.

        Raises:
            EngineError: the engine failed; it answers no more requests.
        """
        return [
            output for first, last in _calls(prompts) for output in self._call(prompts[first:last], params[first:last])
        ]

    def _call(
        self, prompts: Sequence[VllmPrompt], params: Sequence[vllm.SamplingParams]
    ) -> list[vllm.RequestOutput | ScoringError]:
        try:
            outputs = self._llm.generate([prompt.request for prompt in prompts], list(params), use_tqdm=False)
        except Exception as error:
            if not isinstance(error, (ValueError, TypeError, KeyError)) or errors.is_fatal(error):
                raise EngineError(f"{self.label}: vLLM: {type(error).__name__}: {first_line(error)}") from error
            if len(prompts) == 1:
                return [errors.reason(error)]
            # If vLLM does not accept one prompt, it refuses all prompts of the call.
            middle = len(prompts) // 2
            return [
                *self._call(prompts[:middle], params[:middle]),
                *self._call(prompts[middle:], params[middle:]),
            ]
        return [_checked(output, prompt) for output, prompt in zip(outputs, prompts, strict=True)]


def _calls(prompts: Sequence[VllmPrompt]) -> Iterator[tuple[int, int]]:
    """Yield the first prompt of each call, and the one after its last; pictures shared by prompts count once."""
    first, pixels, shown = 0, 0, set[int]()
    for number, prompt in enumerate(prompts):
        pictures = prompt.request.get("multi_modal_data", {}).get("image", ())
        new = {id(picture): picture.width * picture.height for picture in pictures if id(picture) not in shown}
        if number > first and new and pixels + sum(new.values()) > PIXELS_AT_ONCE:
            yield first, number
            first, pixels, shown = number, 0, set()
            new = {id(picture): picture.width * picture.height for picture in pictures}
        pixels += sum(new.values())
        shown |= set(new)
    if prompts:
        yield first, len(prompts)


def _checked(output: vllm.RequestOutput, prompt: VllmPrompt) -> vllm.RequestOutput | ScoringError:
    """Return `output` if vLLM made the same tokens of `prompt` as the model's processor."""
    if list(output.prompt_token_ids) == prompt.tokens:
        return output
    message = f"vLLM makes {len(output.prompt_token_ids)} tokens of this prompt, the processor {len(prompt.tokens)}"
    return ScoringError("other_prompt", message)


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
        self, prompts: Sequence[Inputs | VllmPrompt], *, seeds: Sequence[Sequence[int]], sampling: Sampling
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
            prompt = inputs if isinstance(inputs, VllmPrompt) else unpack_for_vllm(inputs)
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

    def token_logprobs(self, inputs: Inputs, tokens: Sequence[int]) -> list[float]:
        """Return the log-probabilities of a text's tokens; see `actors.vlm.generation.TextGenerator.token_logprobs`.

        Raises:
            ValueError: vLLM refuses the prompt.
            EngineError: the engine failed.
        """
        prompt_of = vllm_prompts_of(inputs, shared=int(inputs["input_ids"].shape[1]))
        prompts = [prompt_of(tokens[:number]) for number in range(len(tokens))]
        params = [self.model.params(max_tokens=1, logprob_token_ids=[token]) for token in tokens]
        values = []
        for token, output in zip(tokens, self.model.run(prompts, params), strict=True):
            if isinstance(output, ScoringError):
                raise ValueError(output.message)
            values.append(float(output.outputs[0].logprobs[0][token].logprob))
        return values

    def _params(self, seed: int, steps: int, sampling: Sampling) -> vllm.SamplingParams:
        draws = {DRAWS_KEY: [seed, sampling.temperature, sampling.top_p, steps]} if sampling.temperature else None
        # The likelihood of the drawn tokens (`logprobs=0`) shows whether the model's likelihoods are finite.
        return self.model.params(max_tokens=steps, stop_token_ids=self.ends, logprobs=0, extra_args=draws)

    def _text(self, completion: vllm.CompletionOutput) -> Generated | ScoringError:
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


class VllmScorer(AnswerScorer):
    """Scorer of closed answers with a model in vLLM.

    Args:
        bounds: bounds of a picture's pixels as the model sees it; by default the processor's.
    """

    def __init__(self, model: VllmModel, *, bounds: PixelBounds = NO_BOUNDS) -> None:
        super().__init__(model.config, model.processor, bounds=bounds, keeps_pictures=True)
        self.model = model

    @property
    def engine(self) -> str:
        """Name of the engine."""
        return "vllm"

    def _all_likelihoods(
        self, parts: Sequence[tuple[RequestGroup, Sequence[int]]]
    ) -> list[list[RequestLikelihoods | ScoringError]]:
        """See `AnswerScorer`; all requests form one call of vLLM, which batches them itself."""
        readings = [self._reading(group, numbers) for group, numbers in parts]
        prompts = [prompt for reading in readings for prompt in reading.prompts]
        params = [self.model.params(max_tokens=1, logprob_token_ids=ids) for r in readings for ids in r.asked]
        outputs = iter(self.model.run(prompts, params) if prompts else [])
        return [reading.likelihoods(list(islice(outputs, len(reading.prompts)))) for reading in readings]

    def _reading(self, group: RequestGroup, numbers: Sequence[int]) -> _Reading:
        reading = _Reading(group, numbers)
        try:
            prompt_of = vllm_prompts_of(group.inputs, shared=group.shared)
        except Exception as error:
            reading.errors = dict.fromkeys(numbers, errors.reason(error))
            return reading
        for number in numbers:
            steps = following(group.answers[number])
            longest = group.length(number) + max(map(len, steps))
            if reason := self.model.too_long(longest, positions=self.max_tokens):
                reading.errors[number] = reason
                continue
            for start, ids in steps.items():
                reading.add(number, start, prompt_of([*group.suffixes[number], *start]), ids)
        return reading


class _Reading:
    """The prompts by which a group's answers are read token by token, and the resulting likelihoods."""

    def __init__(self, group: RequestGroup, numbers: Sequence[int]) -> None:
        self._group, self._numbers = group, numbers
        self.prompts: list[VllmPrompt] = []
        self.asked: list[list[int]] = []  # token ids of each prompt
        self.errors: dict[int, ScoringError] = {}  # errors of requests, by number
        self._owners: list[tuple[int, tuple[int, ...]]] = []  # each prompt's request and beginning of an answer

    def add(self, number: int, start: tuple[int, ...], prompt: VllmPrompt, ids: Sequence[int]) -> None:
        """Request the likelihoods of the tokens `ids` after `start` in request `number`."""
        for first in range(0, len(ids), MOST_IDS):
            self.prompts.append(prompt)
            self.asked.append(list(ids[first : first + MOST_IDS]))
            self._owners.append((number, start))

    def likelihoods(
        self, outputs: Sequence[vllm.RequestOutput | ScoringError]
    ) -> list[RequestLikelihoods | ScoringError]:
        """Return the likelihoods of the requests, in the order of their numbers.

        Args:
            outputs: vLLM's output for each prompt, or a ScoringError.
        """
        values: dict[int, dict[tuple[int, ...], float]] = {number: {} for number in self._numbers}
        tokens = dict.fromkeys(self._numbers, 0)
        failed = dict(self.errors)
        for (number, start), ids, output in zip(self._owners, self.asked, outputs, strict=True):
            if isinstance(output, ScoringError):
                failed[number] = output
                continue
            logprobs = output.outputs[0].logprobs[0]
            values[number] |= {(*start, token): float(logprobs[token].logprob) for token in ids}
            tokens[number] += len(output.prompt_token_ids) - (output.num_cached_tokens or 0)
        answers = self._group.answers
        return [
            failed[number] if number in failed else _summed(answers[number], values[number], tokens[number])
            for number in self._numbers
        ]


def following(codes: AnswerCodes) -> dict[tuple[int, ...], list[int]]:
    """Return the tokens that may follow each beginning of an answer, including the empty one."""
    steps: dict[tuple[int, ...], list[int]] = {}
    for sequence in codes.sequences:
        for cut, token in enumerate(sequence):
            ids = steps.setdefault(sequence[:cut], [])
            if token not in ids:
                ids.append(token)
    return steps


def _summed(codes: AnswerCodes, values: dict[tuple[int, ...], float], tokens: int) -> RequestLikelihoods:
    """Return the likelihoods of whole answers from those of their tokens."""
    logprobs = [sum(values[sequence[: cut + 1]] for cut in range(len(sequence))) for sequence in codes.sequences]
    return RequestLikelihoods(logprobs, tokens)
