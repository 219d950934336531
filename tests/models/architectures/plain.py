"""Prompts, likelihoods and texts by transformers alone: what remine's jobs are compared with.

Nothing here comes from `actors`: prompts are those of `apply_chat_template`, likelihoods those of whole forward passes,
greedy texts those of `generate`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

Content = Sequence[Any]  # of a user's turn: texts, and pictures as PIL images


class Plain:
    """A checkpoint in transformers, float32 on the CPU."""

    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import (
            AutoConfig,
            AutoModelForCausalLM,
            AutoModelForImageTextToText,
            AutoProcessor,
            AutoTokenizer,
        )

        self.sees = type(AutoConfig.from_pretrained(folder)) in AutoModelForImageTextToText._model_mapping
        loader: Any = AutoModelForImageTextToText if self.sees else AutoModelForCausalLM
        self.model: Any = loader.from_pretrained(folder, dtype=torch.float32).eval()
        self.processor: Any = (AutoProcessor if self.sees else AutoTokenizer).from_pretrained(folder)
        self.tokenizer: Any = self.processor.tokenizer if self.sees else self.processor

    def inputs(self, content: Content, start: str = "") -> dict[str, Any]:
        """Return the inputs of a prompt: a user's turn, and the beginning `start` of the model's turn."""
        messages = [self._turn("user", content)]
        options = {"add_generation_prompt": True, "return_dict": True, "return_tensors": "pt"}
        if not start:
            return _as_float32(self.processor.apply_chat_template(messages, tokenize=True, **options))
        text = self.processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True) + start
        if not self.sees:
            return dict(self.tokenizer(text, add_special_tokens=False, return_tensors="pt"))
        pictures = [piece for piece in content if not isinstance(piece, str)]
        shown = {"images": pictures} if pictures else {}
        return _as_float32(self.processor(text=[text], add_special_tokens=False, return_tensors="pt", **shown))

    def answer(self, code: str) -> list[int]:
        """Return the first tokens of a model's turn that begins with `code`, white space before it included."""
        question = self._turn("user", ["Is it?"])
        chat = [question, self._turn("assistant", [code])]
        opened = self._text([question], opens=True)
        whole = self._text(chat, opens=False)
        assert whole.startswith(opened), (opened, whole)
        spaces = whole[len(opened) : whole.index(code, len(opened))]
        return self.continuation(opened, spaces + code)

    def continuation(self, text: str, more: str) -> list[int]:
        """Return the tokens of `more` after `text`."""
        before, both = (self.tokenizer(t, add_special_tokens=False)["input_ids"] for t in (text, text + more))
        assert both[: len(before)] == before, (text, more)
        return list(both[len(before) :])

    def opened(self, start: str = "") -> str:
        """Return the text of an opened turn of the model."""
        return self._text([self._turn("user", ["Is it?"])], opens=True) + start

    def logprobs(self, inputs: dict[str, Any], tokens: Sequence[int]) -> Any:
        """Return log-probabilities [tokens + 1, vocabulary] before each of `tokens` and after them, in one pass."""
        import torch

        length = inputs["input_ids"].shape[1]
        self.forget()
        with torch.inference_mode():
            logits = self.model(**extended(inputs, tokens), use_cache=False).logits[0, length - 1 :]
        return logits.double().log_softmax(-1)

    def greedy(self, inputs: dict[str, Any], count: int) -> list[int]:
        """Return the first `count` likeliest tokens after a prompt, wherever the model would end."""
        import torch
        from transformers import GenerationConfig

        self.forget()
        config = GenerationConfig(max_new_tokens=count, do_sample=False, pad_token_id=self.tokenizer.pad_token_id)
        self.model.generation_config = GenerationConfig()
        with torch.inference_mode():
            tokens = self.model.generate(**inputs, generation_config=config)
        return [int(token) for token in tokens[0, inputs["input_ids"].shape[1] :]]

    def forget(self) -> None:
        """Forget the positions of the last picture, which models of Qwen's kind keep for the next step."""
        for module in self.model.modules():
            if getattr(module, "rope_deltas", None) is not None:
                module.rope_deltas = None

    def _turn(self, role: str, content: Content) -> dict[str, Any]:
        if not self.sees:
            return {"role": role, "content": "".join(piece for piece in content if isinstance(piece, str))}
        pieces: list[dict[str, Any]] = [
            {"type": "text", "text": piece} if isinstance(piece, str) else {"type": "image", "image": piece}
            for piece in content
        ]
        return {"role": role, "content": pieces}

    def _text(self, chat: list[dict[str, Any]], *, opens: bool) -> str:
        return str(self.processor.apply_chat_template(chat, tokenize=False, add_generation_prompt=opens))


def _as_float32(inputs: Any) -> dict[str, Any]:
    """Return a processor's tensors; Llama 4's rounds pictures to bfloat16."""
    return {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in inputs.items()}


def extended(inputs: dict[str, Any], tokens: Sequence[int]) -> dict[str, Any]:
    """Return `inputs` followed by `tokens` of text; in every tensor with an entry per token."""
    import torch

    if not tokens:
        return dict(inputs)
    length, result = inputs["input_ids"].shape, {}
    for name, tensor in inputs.items():
        if tensor.shape[:2] != length:
            result[name] = tensor
            continue
        if name == "input_ids":
            more = torch.tensor([list(tokens)])
        elif name in ("attention_mask", "cross_attention_mask"):
            more = tensor[:, -1:].expand(-1, len(tokens), *tensor.shape[2:])
        else:  # kinds of tokens: 0 is text
            more = torch.zeros(1, len(tokens), *tensor.shape[2:])
        result[name] = torch.cat([tensor, more.to(tensor.dtype)], dim=1)
    return result


def draw_gap(logprobs: Any, number: float, token: int) -> float:
    """Return how far a number lies outside the interval of `token` in the cumulative distribution; 0: inside."""
    shares = logprobs.exp().cumsum(-1)
    high = float(shares[token]) / float(shares[-1])
    low = high - float(logprobs[token].exp()) / float(shares[-1])
    return max(0.0, low - number, number - high)
