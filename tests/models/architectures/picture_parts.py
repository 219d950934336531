"""What writers of small vision-language models share: sizes, and their registry."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.models.architectures.small_configs import HEADS, PICTURE, WIDTH

SQUARE = {"height": PICTURE, "width": PICTURE}
TOWER = {"hidden_size": WIDTH, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": HEADS}
TOWER |= {"image_size": PICTURE, "patch_size": 14}
SIGLIP = TOWER | {"model_type": "siglip_vision_model"}
PIXTRAL = TOWER | {"model_type": "pixtral", "head_dim": 16, "image_size": 224}


class Parts(NamedTuple):
    """The config and the processor of a checkpoint."""

    config: Any
    processor: Any


Writer = Callable[[Path], Parts]
WRITERS: dict[str, Writer] = {}  # by `config.model_type`
EXAMPLES: dict[str, str] = {}  # published models of an architecture


def writer(kind: str, examples: str = "") -> Callable[[Writer], Writer]:
    def register(write: Writer) -> Writer:
        WRITERS[kind], EXAMPLES[kind] = write, examples
        return write

    return register


def ids(tokenizer: Any, *tokens: str) -> list[int]:
    return [tokenizer.convert_tokens_to_ids(token) for token in tokens]
