"""Loading of open-weight vision-language models, and the facts recorded about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.devices import enable_onednn, find_dtype, has_cuda
from actors.errors import ModelError, first_line, has_other_shapes
from actors.local_models import is_local
from actors.model_files import is_s3, name_of, resolve
from actors.vlm import attention, fused, memory, model_checks, quantised
from actors.vlm.settings import ModelSettings

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase, ProcessorMixin

    from actors.vlm.model_types import Processor, Vlm


class RaterFacts(NamedTuple):
    """A model's row in the table `raters`.

    Attributes:
        rater: `model@revision`.
        family: the architecture, `config.model_type` in transformers.
        revision: the commit of the weights if the hub provided it, else the revision asked for, else empty.
        dtype: dtype of the weights, and the form of quantised ones (`quantised.form`).
        engine: libraries with their versions, and the kind of device.
    """

    rater: str
    family: str
    revision: str
    dtype: str
    engine: str

    @property
    def tally(self) -> str:
        """The key under which an actor counts the rows of this model (`take_tally`)."""
        return f"rater/{self.family}|{self.revision}|{self.dtype}|{self.engine}"


def rater_name(model: str, *, revision: str | None = None) -> str:
    """Return `model@revision` for a hub model (`main` by default), `local:NAME` unchanged, or a folder's name."""
    if is_local(model):
        return model
    if is_s3(model):
        return name_of(model)
    if Path(model).is_dir():
        return Path(model).resolve().name
    return f"{model}@{revision or 'main'}"


class LoadedModel(NamedTuple):
    """A model in transformers, its processor (`TextProcessor` for a text model), and the facts about it."""

    model: Vlm
    processor: Processor
    facts: RaterFacts


def load_model(settings: ModelSettings, *, threads: int | None = None) -> LoadedModel:
    """Load the model that a stage's settings name; errors as for `load_vlm`.

    Args:
        threads: torch's threads on a CPU; None: torch's default.
    """
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    model, processor = load_vlm(
        settings.checkpoint,
        revision=settings.revision,
        dtype=settings.dtype,
        device_map=settings.device_map,
        offload=settings.offload,
    )
    processor = with_variables(processor, settings.template)
    return LoadedModel(model, processor, model_facts(model, model=settings.checkpoint, revision=settings.revision))


def load_vlm(
    model: str,
    *,
    revision: str | None = None,
    dtype: str = "auto",
    device_map: str = "auto",
    offload: bool = False,
) -> tuple[PreTrainedModel, Processor]:
    """Load a model and its processor for inference, from safetensors only and without running remote code.

    Processes that load the same hub model wait for one download (the hub's cache locks each file) and map the same
    files.

    Args:
        model: a hub name, a folder, `s3://bucket/folder` or `local:NAME` (`actors.model_files`).
        revision: commit, tag or branch of a hub model.
        dtype: `auto` is bfloat16 on a GPU that supports it, else float32, or what quantised weights are computed in.
        device_map: accelerate's device map; `auto` uses the GPUs if there are any, else the CPU.
        offload: whether weights may be placed outside the GPUs, if there are GPUs.

    Returns:
        (model, processor) of AutoModelForImageTextToText and AutoProcessor; for a text model, of AutoModelForCausalLM
        and `TextProcessor`.

    Raises:
        ModelError: the model cannot be loaded.
        ValueError: an unknown dtype, `local:NAME` with an unknown name, or a model that does not fit the GPUs.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, AutoProcessor, AutoTokenizer

    enable_onednn()
    is_auto = dtype == "auto"
    dtype = find_dtype(dtype, torch.device("cuda" if device_map != "cpu" and has_cuda() else "cpu"))
    source = resolve(model)
    options = {"revision": revision or "main", "trust_remote_code": False}
    try:
        loader: Any = AutoModelForImageTextToText
        config = AutoConfig.from_pretrained(source, **options)
        dtype = quantised.supported_dtype(config, dtype) if is_auto else dtype
        if type(config) in AutoModelForImageTextToText._model_mapping:
            processor = completed(AutoProcessor.from_pretrained(source, **options), config)
            if not hasattr(processor, "image_processor"):
                refuse_blind(model, config)
        else:
            loader, processor = AutoModelForCausalLM, TextProcessor(AutoTokenizer.from_pretrained(source, **options))
        loaded = loader.from_pretrained(
            source,
            dtype=getattr(torch, dtype),
            device_map=device_map,
            **({"max_memory": limits} if (limits := memory.placement()) else {}),
            **({"config": config} if quantised.prepare(config) else {}),
            use_safetensors=True,
            **options,
        )
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, RecursionError | NotImplementedError):  # not of the device
            raise _load_error(model, revision, error) from error
        if not has_other_shapes(error) and not _has_absurd_sizes(error):  # of the device, such as too little memory
            raise
        raise ModelError(
            "the shapes of some weights do not match its config.json; use its published files", model
        ) from error
    except ModelError:
        raise
    except Exception as error:  # model files are untrusted, so any exception is possible
        raise _load_error(model, revision, error) from error
    if not offload:
        check_placement(model, getattr(loaded, "hf_device_map", None) or {})
    attention.use_for_pictures(loaded)
    fused.fuse(loaded)
    return loaded.eval(), processor


def _load_error(model: str, revision: str | None, error: Exception) -> ModelError:
    return ModelError(
        f"cannot load the model at revision {revision or 'main'} ({first_line(error)}); "
        "use a vision-language or text model of the hub, a folder (or s3://) with safetensors, or local:NAME",
        model,
    )


def refuse_blind(model: str, config: PretrainedConfig) -> None:
    """Refuse a model with a processor that prepares no pictures if the model accepts pictures: it would see none.

    Raises:
        ModelError: it does.
    """
    from transformers import AutoModelForImageTextToText

    if type(config) in AutoModelForImageTextToText._model_mapping:
        raise ModelError(
            "accepts pictures, and the processor that its files describe prepares none (see processor_class "
            "in processor_config.json or tokenizer_config.json); use its published files",
            model,
        )


def _has_absurd_sizes(error: BaseException) -> bool:
    """Return whether torch refused the sizes in a config: negative ones, or ones that overflow."""
    text = str(error)
    return any(words in text for words in ("negative dimension", "overflow", "Invalid shape", "invalid size"))


def check_placement(model: str, places: Mapping[str, Any]) -> None:
    """Check that all weights of `model` are on GPUs, or all on the CPU.

    Args:
        places: the device of each module, as in accelerate's `hf_device_map`.

    Raises:
        ModelError: the GPUs have too little memory, and accelerate put some of the weights elsewhere, from where each
            pass copies them.
    """
    devices = {str(place) for place in places.values()}
    if (outside := sorted(devices & {"cpu", "disk"})) and (len(devices) > 1 or "disk" in devices):
        count = sum(str(place) in outside for place in places.values())
        raise ModelError(
            f"{count} of its {len(places)} parts do not fit the memory of the GPUs and were put on "
            f"{' and '.join(outside)}; use a larger GPU, more of them (resources.judge.num_gpus), a smaller model, or "
            "model.offload=true, which is slow",
            model,
        )


def completed(processor: ProcessorMixin, config: PretrainedConfig) -> ProcessorMixin:
    """Fill in values that a processor's files leave open, from the model's `config`; return `processor`.

    LLaVA-NeXT checkpoints from before transformers 4.45 (such as neulab/Pangea-7B-hf) have `patch_size: null`, because
    the model itself inserted the picture's tokens then. Current processors need it to count them.
    """
    if getattr(processor, "patch_size", 0) is None and hasattr(processor, "vision_feature_select_strategy"):
        processor.patch_size = config.vision_config.patch_size
        processor.vision_feature_select_strategy = config.vision_feature_select_strategy
        # CLIP's class token, which the strategy `default` drops
        processor.num_additional_image_tokens = int(config.vision_config.model_type == "clip_vision_model")
    return processor


def with_variables(processor: Processor, variables: Mapping[str, Any]) -> Processor:
    """Make a processor carry variables of its chat template, for `actors.vlm.chat_format.ChatFormat`; return it."""
    with_attributes: Any = processor  # of transformers, or ours; neither declares the attribute
    with_attributes.template_variables = dict(variables)
    return processor


class TextProcessor:
    """A tokenizer with a processor's interface, for text models; pictures in messages are left out."""

    sees_pictures = False

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer

    def __call__(self, text: Any = None, *, images: Any = None, **options: Any) -> Any:
        """Tokenise; `images` are ignored."""
        return self.tokenizer(text, **options)

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> Any:
        """Apply the tokenizer's template to messages whose content is converted to one text."""
        return self.tokenizer.apply_chat_template([_as_text(message) for message in messages], **options)

    def batch_decode(self, *arguments: Any, **options: Any) -> list[str]:
        """Return the texts of token ids; arguments as in transformers."""
        texts: list[str] = self.tokenizer.batch_decode(*arguments, **options)
        return texts


def _as_text(message: Mapping[str, Any]) -> dict[str, Any]:
    content = message["content"]
    if isinstance(content, str):
        return dict(message)
    return {**message, "content": "".join(piece.get("text", "") for piece in content if piece["type"] == "text")}


def model_facts(loaded: Vlm, *, model: str, revision: str | None = None, engine: str | None = None) -> RaterFacts:
    """Return the facts about a loaded model.

    Args:
        loaded: the model that `load_vlm` returned.
        model, revision: as passed to `load_vlm`.
        engine: how it is scored; prepended to the versions of the libraries.
    """
    import torch
    import transformers

    form = model_checks.weights_form(model, revision=revision)
    commit = getattr(loaded.config, "_commit_hash", None)
    versions = [f"transformers {transformers.__version__}", f"torch {torch.__version__}", fused.library(loaded)]
    return RaterFacts(
        rater=rater_name(model, revision=revision),
        family=str(loaded.config.model_type),
        revision=str(commit or revision or ""),
        dtype=", ".join(filter(None, [str(loaded.dtype).removeprefix("torch."), form])),
        engine=(f"{engine}, " if engine else "") + f"{' / '.join(filter(None, versions))}, {loaded.device.type}",
    )


def load_processor(
    model: str, *, revision: str | None = None, local_only: bool = False, variables: Mapping[str, Any] | None = None
) -> Processor:
    """Return a model's processor (`TextProcessor` for a text model); loads no weights and runs no remote code.

    Args:
        local_only: whether to use only a folder or the hub's cache.
        variables: variables of its chat template, such as those of `ModelSettings.template`.

    Raises:
        ValueError: the model does not exist, its files are invalid, or it accepts pictures and its processor does not.
    """
    from transformers import AutoProcessor

    source = resolve(model, weights=False)
    options = {"revision": revision or "main", "trust_remote_code": False, "local_files_only": local_only}
    try:
        processor = AutoProcessor.from_pretrained(source, **options)
    except Exception as error:  # model files are untrusted, so any exception is possible
        raise ModelError(f"cannot load the processor ({first_line(error)})", model) from error
    config = load_config(model, revision=revision, local_only=local_only)
    if hasattr(processor, "image_processor"):
        whole: Processor = completed(processor, config)
        return with_variables(whole, variables or {})
    refuse_blind(model, config)
    return with_variables(TextProcessor(processor), variables or {})


def load_config(model: str, *, revision: str | None = None, local_only: bool = False) -> PretrainedConfig:
    """Return a model's config. Arguments and errors as for `load_processor`."""
    from transformers import AutoConfig

    source = resolve(model, weights=False)
    options = {"revision": revision or "main", "trust_remote_code": False, "local_files_only": local_only}
    try:
        return AutoConfig.from_pretrained(source, **options)
    except Exception as error:  # model files are untrusted, so any exception is possible
        raise ModelError(f"cannot load the config ({first_line(error)})", model) from error
