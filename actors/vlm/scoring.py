"""Closed-set scoring: the likelihood of each allowed answer, not a text that has to be parsed.

The answers are one-token codes that the prompt lists. What is scored is the model's next token after the start of
its own turn, over the full vocabulary; a code's probability is its share of what all codes got, and what they did
not get is reported as `outside_mass`. One forward pass over the whole prompt a request, batch 1, no padding.
"""

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from actors.vlm.prompts import Prompt


class EngineError(RuntimeError):
    """The engine is dead (a failed GPU, say): no further request can be answered, so none may be recorded."""


@dataclass(frozen=True)
class Request:
    """One prompt about one picture (PIL image, RGB), to be answered with one of `codes`."""

    prompt: Prompt
    picture: Any
    codes: tuple[str, ...]


class Scores(NamedTuple):
    """What a model makes of one request; sequences are in the order of the request's codes."""

    probabilities: tuple[float, ...]  # of the codes among themselves, float64, summing to 1
    logprobs: tuple[float, ...]  # natural logarithm of the probability over the full vocabulary
    outside_mass: float  # probability of any other token, 0 to 1
    prompt_tokens: int  # the picture's included


class ScoringError(NamedTuple):
    """Why one request has no scores."""

    kind: str
    message: str


class ClosedSetScorer:
    """Scores closed answers with a model and processor from `actors.vlm.loading.load_vlm`."""

    def __init__(self, model: Any, processor: Any) -> None:
        self.model = model
        self.processor = processor
        accepted = inspect.signature(model.forward).parameters
        self._options = {"use_cache": False} | ({"logits_to_keep": 1} if "logits_to_keep" in accepted else {})
        text_config = model.config.get_text_config()
        self.max_tokens: int | None = getattr(text_config, "max_position_embeddings", None)
        self._special = _special_tokens(processor)
        self._start, self._lead = self._assistant_start()
        self._ids: dict[str, int] = {}

    def check_codes(self, codes: Sequence[str]) -> list[int]:
        """Token ids of `codes` at the start of the model's turn, as its chat template writes it.

        Raises:
            ValueError: a code that is not exactly one token there, or is the same token as another.
        """
        for code in codes:
            if code not in self._ids:
                self._ids[code] = self._code_id(code)
        ids = [self._ids[code] for code in codes]
        if len(set(ids)) != len(ids):
            raise ValueError(f"{self._name()} cannot tell the answer codes {', '.join(codes)} apart")
        return ids

    def score(self, requests: Sequence[Request]) -> list[Scores | ScoringError]:
        """Scores of `requests`, in their order; a request that fails does not touch the others.

        Raises:
            ValueError: a code that is not one token (`check_codes`).
            EngineError: the device failed.
        """
        return [self._score_one(request, ids=self.check_codes(request.codes)) for request in requests]

    def token_starts(self, text: str) -> list[int]:
        """For each token of `text` on its own, the character at which it begins."""
        encoded = self.processor.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return [start for start, _ in encoded["offset_mapping"]]

    def as_data(self, text: str) -> str:
        """`text` with a space inside whatever the model would read as a special token (a turn's end, a picture)."""
        return self._special.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)

    def _score_one(self, request: Request, *, ids: list[int]) -> Scores | ScoringError:
        import torch

        try:
            inputs = self._inputs(request)
            length = int(inputs["input_ids"].shape[-1])
            if self.max_tokens is not None and length > self.max_tokens:
                return ScoringError("prompt_too_long", f"{length} tokens, the model takes {self.max_tokens}")
            with torch.inference_mode():
                self._forget_positions()
                logits = self.model(**inputs, **self._options).logits[0, -1]
            logprobs = logits.float().log_softmax(-1).double().cpu()
        except Exception as error:
            if _is_fatal(error):
                raise EngineError(f"{self._name()}: {error}") from error
            return ScoringError(type(error).__name__, (str(error).strip().splitlines() or [""])[0])
        if not bool(torch.isfinite(logprobs[ids]).all()):
            return ScoringError("not_finite", "the model's likelihoods are not finite numbers")
        chosen = logprobs[ids]
        outside = logprobs.exp()
        outside[ids] = 0.0
        return Scores(
            probabilities=tuple(chosen.softmax(-1).tolist()),
            logprobs=tuple(chosen.tolist()),
            outside_mass=float(outside.sum()),
            prompt_tokens=length,
        )

    def _inputs(self, request: Request) -> Any:
        if request.prompt.start:
            return self._begun(request)
        # All that the processor returns goes to the model: Qwen2.5-VL without mm_token_type_ids silently takes
        # one-dimensional positions for the picture.
        inputs = self.processor.apply_chat_template(
            request.prompt.messages(request.picture),
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
        )
        return inputs.to(self.model.device, dtype=self.model.dtype)

    def _begun(self, request: Request) -> Any:
        """Inputs of a request whose answer stands behind the start of the model's own turn."""
        messages = request.prompt.messages(request.picture)
        text = self.processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        made = self.processor(text=[f"{text}{request.prompt.start} "], images=[[request.picture]], return_tensors="pt")
        return made.to(self.model.device, dtype=self.model.dtype)

    def _forget_positions(self) -> None:
        # Qwen keeps the last picture's position offsets on the module; they are wrong for the next one.
        for module in (self.model, getattr(self.model, "model", None)):
            if module is not None and hasattr(module, "rope_deltas"):
                module.rope_deltas = None

    def _assistant_start(self) -> tuple[str, str]:
        """The rendered text up to the model's turn, and the white space its template puts before an answer."""
        asked = [{"role": "user", "content": [{"type": "text", "text": "Is it?"}]}]
        answered = [*asked, {"role": "assistant", "content": [{"type": "text", "text": "A"}]}]
        render: Callable[..., str] = self.processor.apply_chat_template
        start = render(asked, tokenize=False, add_generation_prompt=True)
        whole = render(answered, tokenize=False, add_generation_prompt=False)
        lead = re.match(r"(\s*)A", whole.removeprefix(start)) if whole.startswith(start) else None
        return start, lead[1] if lead else ""

    def _code_id(self, code: str) -> int:
        def tokens(text: str) -> list[int]:
            return self.processor.tokenizer(text, add_special_tokens=False)["input_ids"]

        start, whole = tokens(self._start), tokens(self._start + self._lead + code)
        if whole[: len(start)] != start or len(whole) != len(start) + 1:
            raise ValueError(f"{self._name()} does not write the answer code {code!r} as one token; use other codes")
        return whole[-1]

    def _name(self) -> str:
        return f"model {getattr(self.model.config, '_name_or_path', '') or self.model.config.model_type!r}"


def _special_tokens(processor: Any) -> re.Pattern[str]:
    tokenizer = processor.tokenizer
    found = set(tokenizer.all_special_tokens)
    found |= {str(token) for token in tokenizer.added_tokens_decoder.values() if token.special}
    found |= {str(getattr(processor, name, "") or "") for name in ("image_token", "video_token", "boi_token")}
    # Longest first, so that a token is not broken at a shorter one inside it and left whole.
    longest = sorted((token for token in found if len(token) > 1), key=lambda token: (-len(token), token))
    return re.compile("|".join(map(re.escape, longest)) or r"(?!)")


def _is_fatal(error: Exception) -> bool:
    """Whether the device is lost; running out of its memory is one row's fault and is not."""
    import torch

    if isinstance(error, torch.cuda.OutOfMemoryError):
        return False
    return "CUDA error" in str(error) or isinstance(error, getattr(torch, "AcceleratorError", ()))
