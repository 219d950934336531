"""A model that vLLM loads and runs: prefix caching, continuous batching, tensor parallelism over its GPUs.

vLLM runs in the actor's process; on several GPUs, with one worker process each. Its usage reports are off.
"""

import gc
import os
from collections.abc import Iterator, Sequence
from typing import Any

from actors.devices import find_dtype, has_cuda
from actors.errors import ModelError, first_line
from actors.model_files import resolve
from actors.vlm import errors, memory
from actors.vlm.encoding import load_config, load_processor
from actors.vlm.errors import EngineError, ScoringError
from actors.vlm.loading import RaterFacts, rater_name
from actors.vlm.picture_size import PictureSizer
from actors.vlm.settings import ModelSettings
from actors.vlm.vllm_prompts import EnginePrompt

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
        self.processor = load_processor(model.checkpoint, revision=model.revision)
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
                f"{model.checkpoint}: vLLM {vllm.__version__} cannot load the model ({first_line(error)}); "
                "use another engine="
            ) from error
        length = int(self._llm.llm_engine.model_config.max_model_len)
        self.max_positions = min(length, getattr(self.config.get_text_config(), "max_position_embeddings", length))
        place = device if devices == 1 else f"{devices} x {device}"
        self.facts = RaterFacts(
            rater=rater_name(model.checkpoint, revision=model.revision),
            family=str(self.config.model_type),
            revision=str(getattr(self.config, "_commit_hash", None) or model.revision or ""),
            dtype=dtype,
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

    def params(self, **values: Any) -> Any:
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

    def run(self, prompts: Sequence[EnginePrompt], params: Sequence[Any]) -> list[Any]:
        """Return vLLM's `RequestOutput` of each prompt, or the `ScoringError` of one that failed.

        All prompts are passed in one call, which ends with the longest text, unless their pictures do not fit into
        memory as the model's inputs.

        Raises:
            EngineError: the engine failed; it answers no more requests.
        """
        return [
            output for first, last in _calls(prompts) for output in self._call(prompts[first:last], params[first:last])
        ]

    def _call(self, prompts: Sequence[EnginePrompt], params: Sequence[Any]) -> list[Any]:
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


def _calls(prompts: Sequence[EnginePrompt]) -> Iterator[tuple[int, int]]:
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


def _checked(output: Any, prompt: EnginePrompt) -> Any:
    """Return `output` if vLLM made the same tokens of `prompt` as the model's processor."""
    if list(output.prompt_token_ids) == prompt.tokens:
        return output
    message = f"vLLM makes {len(output.prompt_token_ids)} tokens of this prompt, the processor {len(prompt.tokens)}"
    return ScoringError("other_prompt", message)
