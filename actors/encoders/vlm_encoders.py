"""Embedders made from a vision-language model, such as Qwen3-VL-Embedding: `transformers:` and such a checkpoint.

A picture or a text is the user's turn behind an instruction as the system's turn, in the model's chat format, and its
vector is the last layer's state of the last token, where the model's turn begins (Li et al. 2026, "Qwen3-VL-Embedding",
section 2; the scripts of its repository). The processor runs on CPUs; the model gets its tensors.
"""

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from actors.encoders.plain_files import CONFIG, in_one_line, is_plain_kind
from actors.encoders.transformers_encoders import HubEncoder, HubFiles, check_dim, has_text_tower
from actors.errors import ModelError, SettingError
from actors.untrusted import parse_json

if TYPE_CHECKING:
    import torch
    from PIL import Image

    from actors.vlm.chat import ChatEncoder

INSTRUCTION = "Represent the user's input."
MOST_PIXELS = (
    1800 * 32 * 32
)  # of a picture, as in the scripts of Qwen3-VL-Embedding; the processor's own is ten times it
MOST_TOKENS = 8192  # of a text
_SAME = 0.99  # cosine of a picture's vectors alone and in a batch, which differ by rounding


def find_hub_encoder(model: str, revision: str | None, *, instruction: str | None = None) -> "HubEncoder | VlmEncoder":
    """Return the config and processors of a `transformers:` model.

    Args:
        instruction: of an embedder made from a vision-language model (`INSTRUCTION` by default).

    Raises:
        ValueError, OSError: see `HubFiles`; also ValueError for an instruction to another encoder.
    """
    if _is_vlm(HubFiles(model, revision)):
        return VlmEncoder(model, revision, instruction=instruction)
    if instruction is not None:
        raise instruction_error(instruction)
    return HubEncoder(model, revision)


def instruction_error(instruction: str) -> SettingError:
    """Return the error for an encoder that reads no instruction."""
    why = "only embedders made from a vision-language model read an instruction; leave it out"
    return SettingError(why, "instruction", instruction)


def _is_vlm(files: HubFiles) -> bool:
    """Return whether `config.json` is that of a vision-language model without a tower for texts."""
    try:
        kind = parse_json(files.read_file(CONFIG) or "").get("model_type")
    except (ValueError, OSError, AttributeError):  # `HubEncoder` says what is wrong
        return False
    if is_plain_kind(kind):
        return False
    import transformers
    from transformers.models.auto import modeling_auto as auto

    if kind not in auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        return False
    name = auto.MODEL_MAPPING_NAMES.get(kind, "")
    return not has_text_tower(getattr(transformers, name if isinstance(name, str) else name[0], object))


class VlmEncoder(HubFiles):
    """A vision-language model as an embedder: its config and processor, without weights."""

    texts, size, shortest, row_bytes = True, (0, 0), False, None

    def __init__(self, model: str, revision: str | None, *, instruction: str | None = None) -> None:
        """Read the config; raises the errors of `HubFiles`."""
        super().__init__(model, revision)
        self.instruction = (instruction or INSTRUCTION).strip()
        check_dim(self.dim, model)

    @cached_property
    def config(self) -> Any:
        """The config of transformers."""
        from actors.vlm.loading import load_config

        return load_config(self.name, revision=self._revision)

    @cached_property
    def chat(self) -> "ChatEncoder":
        """The model's chat format.

        Raises:
            ModelError: it has no chat template, or no processor of pictures.
        """
        from actors.vlm.chat import ChatEncoder
        from actors.vlm.loading import load_processor
        from actors.vlm.picture_size import PixelBounds

        try:
            processor = load_processor(self.name, revision=self._revision)
            return ChatEncoder(processor, bounds=PixelBounds(MOST_PIXELS), config=self.config)
        except ModelError:
            raise
        except ValueError as error:
            raise ModelError(str(error), self._model) from error

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return int(self.config.get_text_config().hidden_size)

    @property
    def preprocessing(self) -> str:
        """The picture processor's settings, the chat template's hash and the pooling, on one line.

        Not the instruction: queries may have another one than what they search.
        """
        digest = hashlib.sha256(json.dumps(self.chat.template, sort_keys=True).encode()).hexdigest()[:16]
        pictures = in_one_line(getattr(self.chat.processor, "image_processor", None))
        return f"{pictures};max_pixels={MOST_PIXELS};template={digest};pooling=last"

    def prepare(self, picture: "Image.Image") -> np.ndarray:
        """Return the processor's tensors for a picture as bytes (`actors.vlm.model_inputs.to_bytes`)."""
        from actors.vlm.model_inputs import to_bytes

        return np.frombuffer(to_bytes(self.chat.encode([None], [picture], system=self.instruction)), np.uint8)

    def load(self, *, device: "torch.device", dtype: "torch.dtype") -> "VlmTower":
        """Load the model from safetensors onto the device."""
        return VlmTower(self, device=device, dtype=dtype)


class VlmTower:
    """A loaded vision-language model, whose states are not normalised yet."""

    row_bytes: int | None = None
    logit_scale: float | None = None

    def __init__(self, encoder: VlmEncoder, *, device: "torch.device", dtype: "torch.dtype") -> None:
        from actors.devices import enable_onednn

        enable_onednn()
        self._chat, self._instruction = encoder.chat, encoder.instruction
        self._model = encoder.load_model(dtype).to(device).eval()
        self.dim = encoder.dim
        self._joins: dict[str, bool] = {}  # whether several inputs may pass as one batch, by their kind

    def rows(self, rows: Sequence[bytes]) -> "torch.Tensor":
        """Encode pictures, each the bytes of `VlmEncoder.prepare`; return [n, dim]."""
        from actors.vlm.model_inputs import from_bytes

        return self._states("pictures", [from_bytes(row) for row in rows])

    def texts(self, texts: Sequence[str]) -> "torch.Tensor":
        """Encode texts, cut after `MOST_TOKENS` tokens; return [n, dim]."""
        return self._states("texts", [self._chat.encode([self._cut(t)], [], system=self._instruction) for t in texts])

    def _cut(self, text: str) -> str:
        starts = self._chat.token_starts(text) if len(text) > MOST_TOKENS else []
        return text[: starts[MOST_TOKENS]] if len(starts) > MOST_TOKENS else text

    def _states(self, kind: str, inputs: list[dict[str, "torch.Tensor"]]) -> "torch.Tensor":
        """Return the last states [n, dim], of one batch if that changes nothing.

        Tensors of some processors hold indices into others, so that joining them shows a picture to another one's turn;
        the first batch is compared with its last input alone.
        """
        import torch

        if len(inputs) == 1 or self._joins.get(kind, True):
            states = self._pass(inputs)
            if len(inputs) == 1:
                return states
            if kind in self._joins:
                return states
            alone = self._pass(inputs[-1:])
            self._joins[kind] = bool(torch.cosine_similarity(alone[0].float(), states[-1].float(), dim=0) > _SAME)
            if self._joins[kind]:
                return states
        return torch.cat([self._pass([part]) for part in inputs])

    def _pass(self, inputs: list[dict[str, "torch.Tensor"]]) -> "torch.Tensor":
        from actors.vlm.model_inputs import collate, on_device

        batch = on_device(self._model, collate(inputs, pad_id=self._chat.tokenizer.pad_token_id or 0))
        states: torch.Tensor = self._model(**batch, use_cache=False).last_hidden_state[:, -1]
        return states
