"""A `vllm` with the part of its interface that the engine uses, which runs whole prompts through transformers.

It takes the same requests and returns results in the same form, so that tests without vLLM notice a change in how
prompts are built, log-probabilities are read and tokens are drawn.
"""

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

VERSION = "0.0.fake"


class SamplingParams(SimpleNamespace):
    """Arguments as attributes."""

    extra_args: dict[str, Any] | None = None
    logprob_token_ids: Sequence[int] = ()
    stop_token_ids: Sequence[int] = ()


class LLM:
    """Runs one prompt after the other and records calls; `fails` and `limit` of the class are set by tests."""

    fails: Callable[[Mapping[str, Any]], Exception | None] = staticmethod(lambda prompt: None)
    limit: int | None = None
    made: list[dict[str, Any]] = []
    calls: list[int] = []  # numbers of prompts

    def __init__(self, **options: Any) -> None:
        from actors.vlm.loading import load_processor, load_vlm

        LLM.made.append(options)
        self.model, _ = load_vlm(options["model"], dtype=options["dtype"], device_map="cpu")
        self.processor: Any = load_processor(options["model"])
        length = self.limit or self.model.config.get_text_config().max_position_embeddings
        self.llm_engine = SimpleNamespace(model_config=SimpleNamespace(max_model_len=length))
        module, _, name = options["logits_processors"][0].partition(":")
        self.draws = getattr(importlib.import_module(module), name)(None, None, False)

    def generate(
        self, prompts: Sequence[Mapping[str, Any]], params: Sequence[SamplingParams], *, use_tqdm: bool
    ) -> list[Any]:
        """Results as vLLM's `RequestOutput`; one bad prompt refuses all."""
        LLM.calls.append(len(prompts))
        for prompt in prompts:
            if error := self.fails(prompt):
                raise error
        return [self._output(prompt, parameters) for prompt, parameters in zip(prompts, params, strict=True)]

    def _output(self, prompt: Mapping[str, Any], params: SamplingParams) -> Any:
        import torch

        from actors.vlm import model_inputs

        inputs = self._inputs(prompt)
        drawn: list[int] = []
        logprobs: list[dict[int, Any]] = []
        total, reason = 0.0, "length"
        self.draws.update_state([(0, params, None, drawn)])
        for _ in range(params.max_tokens):
            with torch.inference_mode():
                logits = self.model(**model_inputs.extended(inputs, drawn), use_cache=False).logits[:, -1]
            logits = logits.clone()  # a tensor of inference mode cannot be changed outside of it
            values = logits.log_softmax(-1)[0]
            token = int(self.draws.apply(logits)[0].argmax())
            ids = [token, *params.logprob_token_ids]
            logprobs.append({i: SimpleNamespace(logprob=float(values[i])) for i in ids})
            total += float(values[token])
            drawn.append(token)
            if token in params.stop_token_ids:
                reason = "stop"
                break
        completion = SimpleNamespace(
            token_ids=list(drawn), finish_reason=reason, cumulative_logprob=total, logprobs=logprobs
        )
        ids = inputs["input_ids"][0].tolist()
        return SimpleNamespace(prompt_token_ids=ids, outputs=[completion], num_cached_tokens=0)

    def _inputs(self, prompt: Mapping[str, Any]) -> dict[str, Any]:
        """Return the processor's output: each mark of a picture becomes the picture's tokens."""
        import torch

        ids = prompt["prompt_token_ids"]
        data = prompt.get("multi_modal_data")
        if not data:
            return {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}
        images = data["image"]
        text = self.processor.image_token * len(images)
        tensors = dict(
            self.processor(text=[text], images=[images], return_tensors="pt", **prompt.get("mm_processor_kwargs", {}))
        )
        mark = self.model.config.image_token_id
        counts = iter((tensors["image_grid_thw"].prod(-1) // self.processor.image_processor.merge_size**2).tolist())
        whole = [i for token in ids for i in ([mark] * next(counts) if token == mark else [token])]
        tensors["input_ids"] = torch.tensor([whole])
        tensors["attention_mask"] = torch.ones_like(tensors["input_ids"])
        tensors["mm_token_type_ids"] = (tensors["input_ids"] == mark).long()
        return tensors


def process_dict_updates(rows: dict[int, Any], added: Sequence[Any], new_row: Callable[..., Any]) -> None:
    """Replace the batch by the request that runs."""
    rows.clear()
    for index, *row in added:
        if (state := new_row(*row)) is not None:
            rows[index] = state


@contextmanager
def installed() -> Iterator[type[LLM]]:
    """Have `import vllm` find this module's classes."""
    names = ("vllm", "vllm.v1", "vllm.v1.sample", "vllm.v1.sample.logits_processor")
    modules: dict[str, Any] = {name: ModuleType(name) for name in (*names, f"{names[-1]}.builtin")}
    modules["vllm"].LLM, modules["vllm"].SamplingParams, modules["vllm"].__version__ = LLM, SamplingParams, VERSION
    modules["vllm.v1.sample.logits_processor"].LogitsProcessor = object
    modules["vllm.v1.sample.logits_processor.builtin"].process_dict_updates = process_dict_updates
    with pytest.MonkeyPatch.context() as patch:
        for name, module in modules.items():
            patch.setitem(sys.modules, name, module)
        patch.delitem(sys.modules, "actors.vlm.vllm_draws", raising=False)
        patch.setattr(LLM, "made", [])
        patch.setattr(LLM, "calls", [])
        yield LLM
    sys.modules.pop("actors.vlm.vllm_draws", None)
