"""Checks before a run, without loading weights, that a model exists and generates text."""

import ast
import importlib.metadata
import importlib.util
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from actors import hub, model_files
from actors.errors import ModelError, first_line
from actors.local_models import is_local, is_ready
from actors.untrusted import parse_json
from actors.vlm import quantised

CONFIG = "config.json"
ADAPTER, PIPELINE = "adapter_config.json", "model_index.json"  # of PEFT and of diffusers, which are no models
GENERATIVE = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")  # endings of classes with an output layer
WEIGHTS = ("model.safetensors.index.json", "model.safetensors")
PATHS = ("/", ".", "~")  # with which a path begins, and no name of the hub
TEMPLATE_KEYS_IN = ("tokenizer_config.json", "processor_config.json")  # files that may contain a chat template
TEMPLATES = ("chat_template.jinja", "chat_template.json")  # files that are a chat template
PARTS = ("text_config", "vision_config")  # of a config
HEADS = ("num_attention_heads", "num_key_value_heads", "num_heads")
SIZES = ("hidden_size", "vocab_size", "num_hidden_layers", *HEADS)  # keys of a config or a part
LARGEST_SIZE = 2**24
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}  # of a number
# Each tokenizer has one of the first files, and each picture processor one of the second.
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tekken.json")
PROCESSORS = ("preprocessor_config.json", "processor_config.json")


def check_vlm(model: str, *, revision: str | None = None) -> bool:
    """Check that `model` exists and can answer; return whether it sees pictures.

    For a model on the hub, a few small files are read and kept in the hub's cache.

    Args:
        model: a hub name, a folder, `s3://bucket/folder` or `local:NAME`.

    Raises:
        ValueError: the model does not exist or cannot be reached, is of another kind, or lacks undamaged safetensors
            weights, a chat template that can be parsed, a tokenizer or a processor.
    """
    try:
        return _check_files(model, _files(model, revision))
    except UnicodeDecodeError as error:
        raise ModelError(f"one of its text files is not UTF-8 ({error}); {quantised.PUBLISHED}", model) from error


def model_type(model: str, *, revision: str | None = None, local_only: bool = False) -> str | None:
    """Return the architecture of `model`, `model_type` in its config.

    Args:
        model: as for `check_vlm`.
        local_only: whether to read only a folder or the hub's cache; None if the config is not there.

    Raises:
        ValueError: the model does not exist or cannot be reached, or has no such config.
    """
    if local_only and not _is_here(model, revision):
        return None
    files = _files(model, revision, local_only=local_only)
    return str(_config(model, files)["model_type"])


def check_template(
    model: str, variables: Mapping[str, Any], *, revision: str | None = None, local_only: bool = False
) -> None:
    """Check that a model's chat template reads all variables that are passed to it.

    Args:
        model: as for `check_vlm`.
        local_only: whether to read only a folder or the hub's cache, and to build nothing.

    Raises:
        ValueError: it does not read one of them, or the model cannot be reached.
    """
    if not variables or (local_only and not _is_here(model, revision)):
        return
    from actors.vlm.model_turn import unknown_variables

    if reason := unknown_variables(_template(_files(model, revision, local_only=local_only)), variables):
        raise ValueError(reason)


def template_variables(model: str, *, revision: str | None = None) -> tuple[str, ...] | None:
    """Return the variables of a model's chat template that a user may set (`model.template`).

    Only a folder or the hub's cache is read, and nothing is built.

    Args:
        model: as for `check_vlm`.

    Returns:
        their names; None if the template is not on this machine or cannot be parsed.
    """
    if model_files.is_s3(model) or not _is_here(model, revision):
        return None
    import jinja2

    from actors.vlm.model_turn import variables_of

    try:
        return variables_of(_template(_files(model, revision, local_only=True)))[1]
    except jinja2.TemplateError:
        return None


def check_answering(
    model: str,
    variables: Mapping[str, Any],
    *,
    start: str = "",
    revision: str | None = None,
    local_only: bool = False,
) -> None:
    """Check that a model can answer at once: its prompts open no thought, or one that can be closed.

    Args:
        model: as for `check_vlm`.
        start: the beginning of the model's turn, which may close the thought itself.
        variables: of its chat template, such as those of `ModelSettings.template`.
        local_only: whether to read only a folder or the hub's cache, and to build nothing.

    Raises:
        ValueError: answers would be scored inside a thought, or the model cannot be reached.
    """
    if is_local(model) or (local_only and not _is_here(model, revision)):
        return
    from actors.vlm.chat_format import bound_templates
    from actors.vlm.model_turn import turn_of_template

    bound_templates()
    files = _files(model, revision, local_only=local_only)
    try:
        tokenizer = parse_json(files.read(TEMPLATE_KEYS_IN[0]) or "{}")
        special = {name: _content(value) for name, value in tokenizer.items() if name.endswith("_token")}
        response = tokenizer.get("response_template")
    except (ValueError, AttributeError):  # a damaged file, which loading reports
        return
    turn = turn_of_template(_template(files), variables, special=special, response=response)
    if turn is not None and turn.answer is None and not turn.marks.pattern.search(start):
        raise ModelError(turn.no_answer, model)


def _content(token: Any) -> str:
    """Return the text of a special token in a tokenizer's config."""
    return str(token.get("content", "") if isinstance(token, dict) else token or "")


def check_quantised(
    model: str, *, dtype: str, gpus: float, revision: str | None = None, local_only: bool = False
) -> None:
    """Check that the quantised weights of `model` can be loaded here (`quantised.check`).

    Args:
        model: as for `check_vlm`.
        dtype: the dtype in which to compute; gpus: of an actor.
        local_only: whether to read only a folder or the hub's cache.

    Raises:
        ValueError: they cannot, or the model cannot be reached.
    """
    if not is_local(model) and (not local_only or _is_here(model, revision)):
        quantised.check(model, _config(model, _files(model, revision, local_only=local_only)), dtype=dtype, gpus=gpus)


def weights_form(model: str, *, revision: str | None = None, as_stored: bool = False) -> str:
    """Return the form in which the weights of `model` are computed (`quantised.form`); empty: as trained, or not known.

    A model of the hub is not looked up: its config is in the cache once the model was checked.

    Raises:
        ValueError: the folder does not exist, or its config cannot be read.
    """
    if is_local(model) or not (model_files.is_s3(model) or _is_here(model, revision)):
        return ""
    return quantised.form(model, _config(model, _files(model, revision, local_only=True)), as_stored=as_stored)


def _is_here(model: str, revision: str | None) -> bool:
    """Return whether the small files of `model` are on this machine."""
    if is_local(model):
        return model_files.is_ready(model)
    try:
        return not model_files.is_s3(model) and hub.is_cached(model, CONFIG, revision)
    except ValueError:  # not the name of a repository, such as the path of a folder that does not exist
        return False


def needs_hub(model: str, revision: str | None) -> bool:
    """Return whether a check of `model` reads the hub or S3, or builds the model."""
    return not model.startswith(PATHS) and not _is_here(model, revision)


def _template(files: "_ModelFiles") -> str:
    """Return a model's chat template; empty if it has none."""
    template: Any = files.read(TEMPLATES[0])
    for name in () if template else (TEMPLATES[1], *reversed(TEMPLATE_KEYS_IN)):
        try:
            template = parse_json(files.read(name) or "{}").get("chat_template")
        except (ValueError, AttributeError):
            continue
        if template:
            break
    if isinstance(template, list):  # several by name
        template = next((entry.get("template") for entry in template if entry.get("name") == "default"), None)
    return template if isinstance(template, str) else ""


class HeadCounts(NamedTuple):
    """The numbers of attention heads, which tensor parallelism splits over GPUs.

    Attributes:
        queries, keys: heads of the text model.
        pictures: heads of the picture encoder; None for a text model.
    """

    queries: int
    keys: int
    pictures: int | None

    def fit(self, devices: int) -> bool:
        """Return whether `devices` GPUs would have equal parts; keys may be repeated on several GPUs."""
        keys_fit = not self.keys % devices if self.keys >= devices else not devices % self.keys
        return not self.queries % devices and keys_fit and not (self.pictures or 0) % devices


def head_counts(model: str, *, revision: str | None = None) -> HeadCounts:
    """Return the attention heads of `model`.

    Args:
        model: as for `check_vlm`.

    Raises:
        ValueError: the model does not exist or cannot be reached, or its config does not have the numbers.
    """
    config = _config(model, _files(model, revision))
    text, vision = config.get("text_config") or config, config.get("vision_config") or {}
    queries = _common(text.get("num_attention_heads") or config.get("num_attention_heads"))
    if not queries:
        raise ModelError(f"{CONFIG} has no num_attention_heads, which is needed to divide it between GPUs", model)
    keys = _common(text.get("num_key_value_heads") or config.get("num_key_value_heads")) or queries
    return HeadCounts(queries, keys, _common(vision.get("num_heads") or vision.get("num_attention_heads")))


def _common(heads: int | list[int] | None) -> int | None:
    """Return the number of heads; where layers differ, their greatest common divisor."""
    return math.gcd(*heads) if isinstance(heads, list) else heads


class _ModelFiles(Protocol):
    place: str  # the location in messages

    def read(self, name: str) -> str | None:
        """Return a text file; None if it does not exist."""

    def has_weights(self) -> bool:
        """Return whether there are safetensors weights. Raises ValueError if they are damaged."""

    def lacks(self, names: Sequence[str]) -> bool:
        """Return whether none of these files exists; False if that is not known."""

    def size(self, name: str) -> int | None:
        """Return the bytes of a file; None if it does not exist, or that is not known."""


class _Folder:
    place = "in the folder"

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, name: str) -> str | None:
        file = self._path / name
        return file.read_text(encoding="utf-8") if file.is_file() else None

    def has_weights(self) -> bool:
        model_files.check_weights(self._path)
        return any(self._path.glob("*.safetensors"))

    def lacks(self, names: Sequence[str]) -> bool:
        return not any((self._path / name).is_file() for name in names)

    def size(self, name: str) -> int | None:
        file = self._path / name
        return file.stat().st_size if file.is_file() else None


class _S3Folder:
    place = "there"

    def __init__(self, uri: str) -> None:
        self._uri = uri

    def read(self, name: str) -> str | None:
        return model_files.read(self._uri, name)

    def has_weights(self) -> bool:
        model_files.check_stored_weights(self._uri)
        return any(name.endswith(".safetensors") for name, _, _ in model_files.objects(self._uri))

    def lacks(self, names: Sequence[str]) -> bool:
        return not {name for name, _, _ in model_files.objects(self._uri)} & set(names)

    def size(self, name: str) -> int | None:
        return {file: size for file, size, _ in model_files.objects(self._uri)}.get(name)


class _HubRepository:
    place = "on the hub or in its cache"

    def __init__(self, name: str, revision: str | None, *, local_only: bool) -> None:
        self._name, self._revision, self._local_only = name, revision, local_only

    def read(self, name: str) -> str | None:
        if self._local_only and not hub.is_cached(self._name, name, self._revision):
            return None
        try:
            return hub.read(self._name, name, revision=self._revision)
        except ValueError:
            if name == CONFIG:
                raise
            return None  # the model exists, but this file does not, or was never cached

    def has_weights(self) -> bool:
        try:
            hub.check_reachable(self._name, files=WEIGHTS, revision=self._revision)
        except ValueError:
            return False
        return True

    def lacks(self, names: Sequence[str]) -> bool:
        # Of small files only, since the others would be fetched.
        return not self._local_only and not any(name not in PROCESSORS or self.read(name) for name in names)

    def size(self, name: str) -> int | None:
        return hub.size(self._name, name, revision=self._revision, local_only=self._local_only)


def _files(model: str, revision: str | None, *, local_only: bool = False) -> _ModelFiles:
    if is_local(model) or Path(model).is_dir():
        return _Folder(Path(model_files.resolve(model)))
    if model_files.is_s3(model):
        return _S3Folder(model)
    if model.startswith(PATHS):
        reason = (
            "no such folder" if not Path(model).is_file() else "a file; use the folder of a model with .safetensors"
        )
        raise ModelError(reason, model)
    return _HubRepository(model, revision, local_only=local_only)


def _config(model: str, files: _ModelFiles) -> dict[str, Any]:
    """Return the content of the model's config, which must have a `model_type`."""
    try:
        text = files.read(CONFIG)
        config: dict[str, Any] = parse_json(text or "null")
        is_typed = isinstance(config, dict) and isinstance(config.get("model_type"), str)
    except ModelError:  # the hub's answer
        raise
    except ValueError as error:
        raise ModelError(f"{CONFIG} is damaged ({first_line(error)}); {quantised.PUBLISHED}", model) from error
    if not is_typed:
        raise ModelError(_no_model(model, files, has_config=text is not None), model)
    _check_sizes(model, config)
    return config


def _no_model(model: str, files: _ModelFiles, *, has_config: bool) -> str:
    """Return what is in the place of a model whose config has no `model_type`, and what to do."""
    try:
        adapter = parse_json(files.read(ADAPTER) or "null")
    except ValueError:
        adapter = {}
    if adapter is not None:
        base = adapter.get("base_model_name_or_path") if isinstance(adapter, dict) else None
        return (
            f"an adapter ({ADAPTER}) of {base or 'a model'}, not a model; merge them (PEFT: merge_and_unload, then "
            "save_pretrained with the processor) and use that folder"
        )
    if files.read(PIPELINE):
        return f"a pipeline of diffusers ({PIPELINE}), which draws pictures; use a vision-language or text model"
    if "gguf" in Path(model).name.lower() or any(Path(model).glob("*.gguf")):
        return "GGUF files, which are not read; use the .safetensors files of the model that they were made from"
    if has_config:
        return f"{CONFIG} has no model_type; {quantised.PUBLISHED}"
    return f"no model {files.place} (no {CONFIG}); use a name of the hub, or what save_pretrained writes"


def _check_sizes(model: str, config: Mapping[str, Any]) -> None:
    """Check the sizes in a config and in its parts before anything is built by them. Raises ValueError."""
    for part in (None, *PARTS):
        values = config if part is None else config.get(part)
        if values is None:
            continue
        if not isinstance(values, Mapping):
            raise ModelError(f"{CONFIG} has {part}={values!r:.60}; must be an object with the part's sizes", model)
        for name in filter(values.__contains__, SIZES):
            size = values[name]
            if size is None and name in HEADS:
                continue
            sizes = size if isinstance(size, list) and size and name in HEADS else [size]  # a list has one per layer
            if not all(type(number) is int and 0 < number <= LARGEST_SIZE for number in sizes):
                raise ModelError(
                    f"{CONFIG} has {part + '.' if part else ''}{name}={size!r:.60}; must be a whole number "
                    f"from 1 to {LARGEST_SIZE:,}; {quantised.PUBLISHED}",
                    model,
                )


def _check_files(model: str, files: _ModelFiles) -> bool:
    config = _config(model, files)
    kind = config["model_type"]
    quantised.quantisation(model, config)
    sees_pictures = _sees_pictures(kind)
    if sees_pictures is None:
        raise ModelError(_no_answers(kind, config), model)
    listed = config.get("architectures") or []
    architectures = [str(name) for name in (listed if isinstance(listed, list) else [listed])]
    if architectures and not any(name.endswith(GENERATIVE) for name in architectures):
        # It would load nevertheless, with random weights in the output layer.
        raise ModelError(f"{architectures[0]} does not generate text; use a model that does", model)
    try:
        has_weights = files.has_weights()
    except ModelError as error:  # it names the folder of `local:NAME`
        raise ModelError(error.why, model) from error
    if not has_weights:
        raise ModelError(f"no weights {files.place}; .safetensors files are required", model)
    contains_template = any('"chat_template"' in (files.read(name) or "") for name in TEMPLATE_KEYS_IN)
    if not contains_template and not any(files.read(name) for name in TEMPLATES):
        raise ModelError(f"no chat template {files.place}; use an instruction-tuned model", model)
    if files.lacks(TOKENIZERS):
        raise ModelError(f"no tokenizer {files.place} (none of {', '.join(TOKENIZERS)}); {quantised.PUBLISHED}", model)
    if sees_pictures and files.lacks(PROCESSORS):
        raise ModelError(
            f"no processor of pictures {files.place} (none of {', '.join(PROCESSORS)}); {quantised.PUBLISHED}", model
        )
    _check_parses(model, _template(files))
    return sees_pictures


def _check_parses(model: str, template: str) -> None:
    """Check the syntax of a model's chat template. Raises ModelError."""
    import jinja2

    from actors.vlm.model_turn import variables_of

    try:
        variables_of(template)
    except jinja2.TemplateSyntaxError as error:
        why = f"its chat template cannot be parsed (line {error.lineno}: {first_line(error)}); {quantised.PUBLISHED}"
        raise ModelError(why, model) from error


def _no_answers(kind: str, config: Mapping[str, Any]) -> str:
    """Return why models of a `model_type` are not used, and what to do."""
    if kind in _mapped("MODEL_MAPPING_NAMES"):
        return f"model_type {kind!r} is neither a vision-language model nor a text model; use one of these"
    if config.get("auto_map"):
        return (
            f"model_type {kind!r} is code of the model's repository (auto_map in {CONFIG}), which is never run; use a "
            "form of the model that transformers has itself, such as one whose name ends in -hf"
        )
    release = importlib.metadata.version("transformers")
    return f"model_type {kind!r} is unknown to transformers {release}; use another model, or a release that has it"


def _sees_pictures(kind: str) -> bool | None:
    """Return whether models of a `model_type` accept pictures; None if transformers generates no text with them."""
    if kind in _mapped("MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES"):
        return True
    return False if kind in _mapped("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES") else None


@lru_cache
def _mapped(mapping: str) -> frozenset[str]:
    """Return the keys of a mapping of transformers' `modeling_auto`, from its source: an import takes 3 s."""
    package = importlib.util.find_spec("transformers")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("No module named 'transformers'", name="transformers")
    source = (Path(package.origin).parent / "models" / "auto" / "modeling_auto.py").read_text(encoding="utf-8")
    for statement in ast.parse(source).body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == mapping for target in targets):
            pairs = next(node for node in ast.walk(statement) if isinstance(node, ast.List | ast.Dict))
            keys = pairs.keys if isinstance(pairs, ast.Dict) else [pair.elts[0] for pair in pairs.elts]  # type: ignore[attr-defined]
            return frozenset(key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str))
    raise RuntimeError(f"this release of transformers has no {mapping}; install the one that constraints.txt pins")


def weight_bytes(
    model: str, *, dtype: str, revision: str | None = None, as_stored: bool = False, local_only: bool = False
) -> float | None:
    """Return the bytes of a model's weights once they are loaded, without reading them.

    Args:
        model: as for `check_vlm`.
        dtype: dtype in which they are loaded. Those of a quantised model stay as they are, unless its method
            dequantises them (`quantised.METHODS`). The headers of files on this machine are read; of other models, all
            weights are counted as quantised, also the few that are not.
        as_stored: whether nothing is dequantised (vLLM).
        local_only: whether to read only a folder, S3 or the hub's cache.

    Returns:
        None if the sizes of its files are unknown.

    Raises:
        ValueError: the model does not exist or cannot be reached.
    """
    if local_only and not (model_files.is_s3(model) or _is_here(model, revision)):
        return None
    files = _files(model, revision, local_only=local_only)
    config = _config(model, files)
    stated = quantised.quantisation(model, config)
    bits = quantised.stored_bits(stated) if stated and not as_stored else 0
    if tensors := _headers(model, revision):
        return quantised.loaded_bytes(tensors, itemsize=BYTES[dtype], bits=bits)
    try:
        stored = parse_json(files.read(WEIGHTS[0]) or "{}").get("metadata", {}).get("total_size")
    except (ValueError, AttributeError):  # a damaged index, which `check_vlm` reports
        return None
    stored = stored if isinstance(stored, int) else files.size(WEIGHTS[1])
    parts = (config, config.get("text_config") or {})
    names = [part.get(name) for part in parts for name in ("dtype", "torch_dtype")]
    numbers = next((BYTES[name] for name in names if name in BYTES), None)
    if stored is None:
        return None
    if stated:
        return stored * BYTES[dtype] * 8 / bits if bits else stored
    return stored if numbers is None else stored * BYTES[dtype] / numbers


def _headers(model: str, revision: str | None) -> dict[str, Any] | None:
    """Return the headers of a folder's or cached model's weights; None unless all are on this machine and readable."""
    if model_files.is_s3(model) or (is_local(model) and not is_ready(model)):
        return None
    source = model_files.resolve(model)
    folder = hub.cached_folder(source, CONFIG, revision)
    if folder is None:
        return None
    index, single = (folder / name for name in WEIGHTS)
    tensors: dict[str, Any] = {}
    try:
        names = {single.name}
        if index.is_file():
            names = set(parse_json(index.read_bytes())["weight_map"].values())
        for name in names:
            with (folder / name).open("rb") as stream:
                tensors |= model_files.read_header(stream)[1]
        quantised.loaded_bytes(tensors, itemsize=1, bits=0)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    return tensors
