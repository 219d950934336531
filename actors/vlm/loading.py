"""Open-weight vision-language models, from a hub, a folder or `local:NAME`, and what is to be recorded of them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from actors import hub
from actors.errors import first_line
from actors.local_models import is_local, resolve

CONFIG = "config.json"
WRITERS = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")  # how classes end that have an output layer
WEIGHTS = ("model.safetensors.index.json", "model.safetensors")
TOLD_IN = ("tokenizer_config.json", "processor_config.json")  # files that may hold a chat template
TEMPLATES = ("chat_template.jinja", "chat_template.json")  # files that are one
DTYPES = ("auto", "float32", "bfloat16", "float16")


class RaterFacts(NamedTuple):
    """What table `raters` says about a model."""

    rater: str  # model@revision
    family: str  # the architecture: config.model_type
    revision: str  # the commit of the weights where the hub told it, else the revision asked for, else empty
    dtype: str
    engine: str  # libraries, their versions, and the kind of device

    @property
    def tally(self) -> str:
        """The name under which an actor counts the rows that this model made, among its counts (`take_tally`)."""
        return f"rater/{self.family}|{self.revision}|{self.dtype}|{self.engine}"


def rater_name(model: str, *, revision: str | None = None) -> str:
    """`model@revision` for a hub model (`main` unless given); `local:NAME` and a folder's own name as they are."""
    if is_local(model):
        return model
    if Path(model).is_dir():
        return Path(model).resolve().name
    return f"{model}@{revision or 'main'}"


def check_dtype(dtype: str) -> None:
    """Refuse an unknown type of numbers.

    Raises:
        ValueError: naming it and what there is.
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype {dtype!r} is not one of {', '.join(DTYPES)}")


def check_vlm(model: str, *, revision: str | None = None) -> bool:
    """Ask, before anything is loaded, whether `model` can be had and is one that answers; whether it sees pictures.

    Of a model on a hub a few small files are read, which come into the hub's cache.

    Raises:
        ValueError: no such local model or folder, or a hub's that is neither cached nor to be had; or one of another
            kind, without weights as safetensors, or without a chat template.
    """
    if is_local(model) or Path(model).is_dir():
        return _check_files(model, _ModelFiles(Path(resolve(model))))
    if model.startswith(("/", ".", "~")):
        raise ValueError(f"{model}: no such folder")
    return _check_files(model, _Repository(model, revision))


class _ModelFiles:
    """The files of a model in a folder."""

    place = "there"

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, name: str) -> str | None:
        file = self.path / name
        return file.read_text(encoding="utf-8") if file.is_file() else None

    def has_weights(self) -> bool:
        return any(self.path.glob("*.safetensors"))


class _Repository:
    """The files of a model on a hub, or in the hub's cache."""

    place = "on the hub or in its cache"

    def __init__(self, name: str, revision: str | None) -> None:
        self.name, self.revision = name, revision

    def read(self, name: str) -> str | None:
        try:
            return hub.read(self.name, name, revision=self.revision)
        except ValueError:
            if name == CONFIG:
                raise
            return None  # the model itself is to be had: this file of it is not there, or was never cached

    def has_weights(self) -> bool:
        try:
            hub.check_reachable(self.name, files=WEIGHTS, revision=self.revision)
        except ValueError:
            return False
        return True


def _check_files(model: str, files: _ModelFiles | _Repository) -> bool:
    from transformers.models.auto import modeling_auto

    text = files.read(CONFIG)
    try:
        config = json.loads(text or "")
        kind = config["model_type"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{model}: no model {files.place} (no {CONFIG} with a model_type)") from None
    sees = kind in modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
    if not sees and kind not in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise ValueError(
            f"{model}: a model of type {kind!r}, which is neither one of pictures and text nor one of text"
        )
    held = config.get("architectures") or ()
    if held and not any(name.endswith(WRITERS) for name in held):
        # It would load all the same, with random weights where the words come from.
        raise ValueError(f"{model}: weights of a {held[0]}, which writes no text; name a model that does")
    if not files.has_weights():
        raise ValueError(f"{model}: no weights {files.place} (no .safetensors file)")
    if not any('"chat_template"' in (files.read(name) or "") for name in TOLD_IN) and not any(
        files.read(name) for name in TEMPLATES
    ):
        raise ValueError(f"{model}: no chat template {files.place}; name an instruction-tuned model")
    return sees


def load_vlm(
    model: str, *, revision: str | None = None, dtype: str = "auto", device_map: str = "auto"
) -> tuple[Any, Any]:
    """Load a model and its processor, for inference, without running code that comes with the weights.

    A model of text alone is loaded too: its processor (`TextProcessor`) leaves pictures out. Several processes that
    ask for one hub model wait for one download (the hub cache locks each file); each then maps the same files.

    Args:
        model: a hub name, a folder, or `local:NAME` (`actors.local_models`).
        revision: commit, tag or branch of a hub model.
        dtype: `auto` is bfloat16 on a GPU and float32 without one.
        device_map: handled by accelerate; `auto` takes the GPUs there are, else the CPU.

    Returns:
        (model, processor) as AutoModelForImageTextToText and AutoProcessor make them (AutoModelForCausalLM and a
        `TextProcessor` for a model of text); weights from safetensors only.

    Raises:
        ValueError: an unknown dtype, or a model that cannot be found or loaded.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, AutoProcessor, AutoTokenizer

    from actors import onednn

    onednn.enable()
    check_dtype(dtype)
    if dtype == "auto":
        dtype = "bfloat16" if torch.cuda.is_available() and device_map != "cpu" else "float32"
    source = resolve(model)
    common = {"revision": revision or "main", "trust_remote_code": False}
    try:
        loader: Any = AutoModelForImageTextToText
        config = AutoConfig.from_pretrained(source, **common)
        if type(config) in AutoModelForImageTextToText._model_mapping:
            processor = completed(AutoProcessor.from_pretrained(source, **common), config)
        else:
            loader, processor = AutoModelForCausalLM, TextProcessor(AutoTokenizer.from_pretrained(source, **common))
        loaded = loader.from_pretrained(
            source, dtype=getattr(torch, dtype), device_map=device_map, use_safetensors=True, **common
        )
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ValueError(
            f"cannot load model {model!r} at revision {revision or 'main'!r} ({first_line(error)}); "
            "name a vision-language model (or one of text) of the hub, a folder that holds one as safetensors, "
            "or local:NAME"
        ) from error
    return loaded.eval(), processor


def completed(processor: Any, config: Any) -> Any:
    """`processor` with what its files leave open taken from the model's `config`.

    LLaVA-NeXT checkpoints from before transformers 4.45 (neulab/Pangea-7B-hf is one) have `patch_size: null` in their
    processor, since the model itself made room for a picture's tokens then. Processors of today cannot count without.
    """
    if getattr(processor, "patch_size", 0) is None and hasattr(processor, "vision_feature_select_strategy"):
        processor.patch_size = config.vision_config.patch_size
        processor.vision_feature_select_strategy = config.vision_feature_select_strategy
        # CLIP's class token, which the strategy `default` leaves out again
        processor.num_additional_image_tokens = int(config.vision_config.model_type == "clip_vision_model")
    return processor


class TextProcessor:
    """A tokenizer in the place of a processor, for models that see no picture.

    Messages may hold pieces, as for models that do; pictures among them are left out.
    """

    sees_pictures = False

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def __call__(self, text: Any = None, *, images: Any = None, **options: Any) -> Any:
        return self.tokenizer(text, **options)

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> Any:
        """The tokenizer's template, over messages whose content is one text each."""
        return self.tokenizer.apply_chat_template([_as_text(message) for message in messages], **options)

    def batch_decode(self, *arguments: Any, **options: Any) -> list[str]:
        found: list[str] = self.tokenizer.batch_decode(*arguments, **options)
        return found


def _as_text(message: Mapping[str, Any]) -> dict[str, Any]:
    content = message["content"]
    if isinstance(content, str):
        return dict(message)
    return {**message, "content": "".join(piece.get("text", "") for piece in content if piece["type"] == "text")}


def model_facts(loaded: Any, *, model: str, revision: str | None = None, engine: str | None = None) -> RaterFacts:
    """The facts of a model that `load_vlm` loaded under the name `model`; `engine` is how it is scored."""
    import torch
    import transformers

    commit = getattr(loaded.config, "_commit_hash", None)
    return RaterFacts(
        rater=rater_name(model, revision=revision),
        family=str(loaded.config.model_type),
        revision=str(commit or revision or ""),
        dtype=str(loaded.dtype).removeprefix("torch."),
        engine=(f"{engine}, " if engine else "")
        + f"transformers {transformers.__version__} / torch {torch.__version__}, {loaded.device.type}",
    )
