"""Types of models and processors, as far as `actors.vlm` uses them: for type checkers and readers.

torch must not be imported before it is needed, so that modules import these names under `TYPE_CHECKING` only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch
    from PIL import Image
    from torch import Tensor, nn
    from transformers import DynamicCache, GenerationConfig, PretrainedConfig, PreTrainedTokenizerBase

    Pictures = Image.Image | Sequence[Image.Image] | None  # of one prompt, RGB
    Inputs = Mapping[str, Tensor]  # a processor's output by name; those of PER_TOKEN are [prompts, tokens, ...]
    Tensors = dict[str, Tensor]  # inputs that may be changed
    KeysValues = tuple[Tensor, Tensor]  # of one layer, each [rows, key heads, tokens, head size]
    # What transformers' `generate` passes from one step to the next: the cache (`past_key_values`), masks, positions.
    DecodingState = dict[str, Any]


class ModelOutput(Protocol):
    """The result of a forward pass."""

    logits: Tensor  # [rows, tokens, vocabulary]
    past_key_values: DynamicCache


class WithEnds(Protocol):
    """A model in any engine, for the tokens that end a text."""

    generation_config: GenerationConfig


class Vlm(Protocol):
    """A vision-language or text model of transformers, in evaluation mode."""

    config: PretrainedConfig
    generation_config: GenerationConfig
    dtype: torch.dtype
    device: torch.device
    forward: Callable[..., ModelOutput]

    def __call__(self, **inputs: Any) -> ModelOutput:
        """Run a forward pass."""

    def generate(self, **inputs: Any) -> Any:
        """Prepare `inputs` for decoding and run `custom_generate`."""

    def prepare_inputs_for_generation(self, input_ids: Tensor, **state: Any) -> dict[str, Any]:
        """Return the arguments of the next forward pass."""

    def _update_model_kwargs_for_generation(self, outputs: Any, state: DecodingState, **options: Any) -> DecodingState:
        """Return the state after a forward pass."""

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the module that maps token ids to the first hidden states."""

    def get_output_embeddings(self) -> Callable[[Tensor], Tensor]:
        """Return the module that maps the last hidden states to logits."""

    def modules(self) -> Iterator[nn.Module]:
        """Yield the model and all modules in it."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """Yield all weights."""


class Processor(Protocol):
    """A processor of transformers, or a `TextProcessor`."""

    tokenizer: PreTrainedTokenizerBase

    def __call__(self, text: Any = None, **options: Any) -> Mapping[str, Tensor]:
        """Return the inputs of a model for texts and pictures."""

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> str:
        """Return the text of a conversation."""
