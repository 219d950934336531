"""Hints at what an unknown key, an unknown option or a word without a key may stand for."""

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path, PurePath
from typing import Any

from jobs.runtime.configuration import config_files, key_types
from jobs.runtime.configuration.key_types import LISTS, MISSING, UNKNOWN, alternatives, groups, hints, type_of

_NEAR = 0.76  # least similarity at which a name is suggested; lang and plan have a similarity of 0.75
_MOST = 3  # keys that a hint names
_SHORTEST = 4  # letters of the beginning of an option that stands for it
# What other programs call a key -> the key, or its last part.
_OTHER_WORDS = {
    "input": "data dataset file table csv filename input_file input_path source_file",
    "out": "output outdir out_dir output_dir outfile outpath output_path dest destination save_to",
    "overwrite": "force replace clobber",
    "yes": "force confirm assume_yes",
    "repair": "fix",
    "limit": "head nrows max_rows max_samples num_samples max_items first",
    "plan": "dry_run dryrun preview",
    "max_tokens": "max_new_tokens max_length",
    "samples": "n_samples num_return_sequences repeats repetitions",
    "memory_budget_gb": "batch_size batch per_device_batch_size",
    "memory_gb": "gpu vram max_memory",
    "num_gpus": "gpu gpus n_gpu n_gpus",
    "num_cpus": "cpu cpus n_cpus threads workers num_workers num_proc nproc parallel concurrency n_jobs",
    "metrics.disaggregate": "by group groupby group_by subgroup subgroups breakdown split_by",
    "per_item": "raters_per_item annotators_per_item overlap redundancy",
    "checkpoint": "model_path model_id pretrained_model weights quantization",
    "people": "raters annotators humans human participants workers crowd",
    "raters": "annotators people humans participants workers crowd",
    "rater": "annotator worker coder user participant judge",
    "item_id": "item image file filename picture",
    "value": "answer response label rating",
    "pictures": "image images picture photo photos filename",
    "width": "size max_size image_size max_width resize resolution",
    "id": "name key",
    "at": "filter query where sort",
    "creators": "author authors creator",
    "key_file": "salt secret pseudonym_key",
    "exclusions": "exclude blocklist blacklist",
    "retry": "redo rerun retries",
    "set": "input data dataset file table csv input_file input_path",  # these are inputs of the pipeline `study`
    "photos": "images pictures image_dir images_dir image_folder img_dir folder",
    "models": "model_name model_name_or_path model_path model_id",
    "by": "group groupby group_by subgroup subgroups breakdown split_by disaggregate",
}
_NO_API = "models run on your machines; none is asked over an API"
# What to do instead of setting a key that remine does not have, if the job has the keys of the sentence -> its names.
_INSTEAD = {
    "questions, their wording and what is sent with a picture are in the file of rubric=": "prompt prompts question "
    "system_prompt instructions template context sensitive",
    "resources=gpu-node runs models on GPUs": "device cuda device_map use_gpu",
    _NO_API: "api_key api_base base_url provider",
    "each rating has the probabilities of all answers": "logprobs top_logprobs probabilities scores",
    "intervals have 95 %; docs/metrics.md explains them": "bootstrap n_bootstrap confidence ci alpha",
    "every metric is computed, and OUT/metrics.csv has all": "metric kappa measure measures",
    "remine export R/ratings answers.csv writes answers as a file": "format output_format file_format wide sep csv",
    "only this machine can reach the viewer; from another, forward its port through ssh": "host public share bind",
    "open the address that is printed": "open browser",
    "the folders below are read too": "recursive recurse subfolders",
    "$HF_HOME is the folder of the hub's models": "cache_dir hf_home model_dir",
}
_WORD = re.compile(r"-{0,2}(?P<key>[A-Za-z_][\w.-]*)\s*(?:[:=]\s*|\s+)(?P<value>\S.*)")
_COMMON = ("ratings", "input", "inputs")  # keys that most often hold what a job reads


def meant(keys: Sequence[str]) -> str:
    """Return ` (did you mean A or B?)`; empty if there are no keys, or too many to name."""
    return f" (did you mean {' or '.join(keys)}?)" if 0 < len(keys) <= _MOST else ""


def keys_with(test: Any, values: Any, key: str = "") -> Iterator[str]:
    """Yield the dotted keys below `key` whose values pass `test`."""
    if isinstance(values, dict | list):
        for name, value in values.items() if isinstance(values, dict) else enumerate(values):
            yield from keys_with(test, value, f"{key}.{name}" if key else str(name))
    elif test(values):
        yield key


def of_unknown_key(
    path: Sequence[str], schema: type, values: Mapping[str, Any], named: Collection[str]
) -> tuple[str, str]:
    """Return a hint for a key that does not exist, which may be empty, and the keys that do, next to it.

    Args:
        path: the parts of the dotted key.
        values: the configuration without the key.
        named: keys, or groups of keys, that are set.
    """
    node: Any = values
    depth, name = 0, path[0]
    while isinstance(node, dict) and name in node and depth + 1 < len(path):
        node, depth, name = node[name], depth + 1, path[depth + 1]
    allowed = sorted(map(str, node)) if isinstance(node, dict) else []
    prefix = "".join(f"{parent}." for parent in path[:depth])
    deep = list(_all_keys(values)) if len(path) > 1 and not depth else []
    hint = (
        meant(difflib.get_close_matches(".".join(path), deep, n=1, cutoff=0.85))  # column.id for columns.id
        or meant([prefix + key for key in _nearest(name, allowed)])
        or meant([prefix + key for key in _in_other_words(path[-1]) if key in allowed][:1])
        or _instead(path[-1], values)
        or _elsewhere(path[-1], values)
        or of_name(name, allowed, prefix=prefix)
        or ("" if depth else of_comments(name, schema))
    )
    required = of_required(node, named) if not (hint or depth) else ""
    parent = f" in {'.'.join(path[:depth])}" if depth else ""
    return hint, f"{required}; allowed{parent}: {', '.join(allowed) or 'no further keys'}"


def of_name(name: str, allowed: Sequence[str], *, prefix: str = "") -> str:
    """Return a hint with the nearest of the allowed names."""
    words = set(name.split("_"))
    near = _nearest(name, allowed)
    near = near or sorted((other for other in allowed if set(other.split("_")) < words), key=len, reverse=True)
    near = near or [other for other in allowed if difflib.get_close_matches(name, other.split("_"), cutoff=_NEAR)]
    near = near or [other for other in allowed if len(name) >= _SHORTEST and other.startswith(name)]  # qwen
    return meant([prefix + other for other in near[:1]])


def _nearest(name: str, allowed: Sequence[str]) -> list[str]:
    """Return the allowed name of which `name` is a beginning or a misspelling, if there is one."""
    near = [other for other in allowed if other.startswith(f"{name}_")]  # item for item_id
    near = near or difflib.get_close_matches(name, allowed, n=1, cutoff=_NEAR)
    return (near or [other for other in allowed if sorted(other) == sorted(name)])[:1]  # wti for wit


def _in_other_words(word: str) -> list[str]:
    return [key for key, words in _OTHER_WORDS.items() if word.replace("-", "_").lower() in words.split()]


def _instead(word: str, values: Mapping[str, Any]) -> str:
    """Return what to do instead of setting a key that no job has; empty if this job has it at another level."""
    if any(key.rpartition(".")[2] == word for key in _all_keys(values)):
        return ""
    for sentence, words in _INSTEAD.items():
        if word.replace("-", "_").lower() in words.split() and set(re.findall(r"(\w+)=", sentence)) <= set(values):
            return f" ({sentence})"
    return ""


def _all_keys(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the dotted keys of all values that are not mappings."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _all_keys(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _elsewhere(name: str, values: Mapping[str, Any]) -> str:
    """Return a hint with the keys of any level that have this name, or that other programs call so."""
    keys = list(_all_keys(values))
    for key in _in_other_words(name):
        if hint := meant([key] if key in keys else []) or of_last_part(key, values):
            return hint
    last = [key.rpartition(".")[2] for key in keys if not key.startswith("resources.")]
    near = difflib.get_close_matches(name, last, n=1, cutoff=0.85)  # license for card.licence
    return (
        meant([key for key in keys if key == name])
        or of_last_part(name, values)
        or (of_last_part(near[0], values) if near else "")
    )


def of_last_part(name: str, values: Mapping[str, Any]) -> str:
    """Return a hint with the keys below `values` whose last part is `name`, or the one where it begins with `name`."""
    below = [key for key in _all_keys(values) if "." in key]
    of_stages = [key.split(".")[1] for key in below if re.fullmatch(rf"resources\.\w+\.{re.escape(name)}", key)]
    longer = [key for key in below if key.rpartition(".")[2].startswith(name) and not key.startswith("resources.")]
    exact = [key for key in longer if key.rpartition(".")[2] == name]
    if of_stages and not exact:
        return f" (did you mean resources.STAGE.{name}, where STAGE is one of {', '.join(of_stages)}?)"
    return meant(exact) or (meant(longer) if len(longer) == 1 else "")


def of_comments(name: str, schema: type) -> str:
    """Return a hint with the only key whose explanation begins with `name`, such as `draw.n` for "size"."""
    keys = [key for key, text in key_types.comments_below(schema) if re.match(rf"{re.escape(name)}\b", text)]
    return meant(keys) if len(keys) == 1 else ""


def of_required(node: Mapping[str, Any], named: Collection[str]) -> str:
    """Return the required keys that are not set, such as `queries=` for somebody who typed `input=`."""
    missing = (name for name, value in node.items() if value == MISSING)
    required = [f"{name}=" for name in missing if name != "out" and name not in named]
    return f" (required: {', '.join(required)})" if required else ""


def of_option(group: str, option: str, allowed: Sequence[str], schema: type) -> str:
    """Return a hint for the value of a key that chooses a file of `conf/`, which has no such file."""
    several = list_of(schema, group)
    if several and (option[:1] == "[" or re.search("[, ]", option)):
        return f" (several are {several}=[{','.join(re.split('[, ]+', option.strip('[] ')))}])"
    inner = key_types.nested_dataclass(type_of(schema, group))
    if Path(option).exists() and inner is not None and "path" in hints(inner):
        kind = f"{group}=folder " if Path(option).is_dir() and "folder" in allowed else ""
        return f" (did you mean {kind}{group}.path={option}?)"
    if Path(option).is_file():
        return " (a file without the ending .yaml)"
    is_folder = " (a folder, not a .yaml file)" if Path(option).is_dir() else ""
    return of_file(option) or of_name(option, allowed) or _of_checkpoint(group, option) or is_folder


def of_other_kind(schema: type, file: str, kinds: Sequence[str]) -> str:
    """Return how to use a YAML file of the keys `kinds`: with one of them, or with a pipeline that has it as input.

    Empty without `kinds`.
    """
    if kind := next((kind for kind in kinds if type_of(schema, kind) is not UNKNOWN), None):
        return f"it is a file of {kind}=; did you mean {kind}={file}?"
    group = getattr(schema, "SHORT", "").partition(".")[0]
    for kind in kinds if group else ():
        for name in config_files.options(group, None):
            if kind in config_files.own_keys(group, name).get("inputs", {}):
                return f"it is a file of {kind}=; did you mean {group}={name} {kind}={file}?"
    return f"it is a file of {' or '.join(f'{kind}=' for kind in kinds)}" if kinds else ""


def list_of(schema: type, group: str) -> str | None:
    """Return the key that lists several options of a group, such as `models` for `model`; None if there is none."""
    return next((field.name for field in fields(schema) if field.metadata.get(LISTS) == group), None)


def of_file(option: str) -> str:
    """Return a hint with the user's file `option`.yaml or `option`.yml; empty if there is none."""
    stem = option.removesuffix(".yml")
    if Path(f"{stem}.yaml").is_file():
        return f" (did you mean {stem}.yaml?)"
    return f" (rename {stem}.yml to {stem}.yaml)" if Path(f"{stem}.yml").is_file() else ""


def _of_checkpoint(group: str, option: str) -> str:
    """Return how to use a model that is not in `conf/`; empty if the group has no models."""
    if group not in ("model", "embedder", "image_model"):
        return ""
    if re.match("gpt|claude|gemini|grok", option.lower()):
        return f" ({_NO_API})"
    checkpoint = option if re.search("[:/]", option) else "ORGANISATION/NAME"
    in_a_list = f", and in {group}s= your .yaml file with checkpoint: {checkpoint}"
    return f" (a model of the hub or a folder is {group}.checkpoint={checkpoint}{in_a_list})"


def of_word(
    schema: type,
    word: str,
    *,
    before: str,
    following: Sequence[str],
    named: Collection[str],
    short: Collection[str] = (),
) -> str:
    """Return what to write instead of an argument that is not key=value.

    Args:
        before: the last argument of the form key=value.
        following: the arguments after it.
        named: the keys that are set.
        short: further keys, which the schema's `SHORT` names.
    """
    remedy = _of_key_without_value(schema, word, following, short) or _of_divided_value(schema, word, before)
    if remedy := remedy or of_other_kind(schema, word, config_files.kinds_of(word)):
        return remedy
    if word.startswith("-"):
        letters = [key for key in hints(schema) if key.startswith(word[1:2])][:_MOST] or ["out"]
        return f"options are written in full, as in {' or '.join(f'{key}=VALUE' for key in letters)}"
    of_options = [group for group in groups(schema) if word in config_files.options(group, None)]
    if set_group := next((group for group in of_options if group in named), None):
        several = list_of(schema, set_group)
        return f"{set_group}= already has a value" + (f"; several are {several}=[a,b]" if several else "")
    if hasattr(schema, "SHORT") and word.isidentifier() and following and "=" not in following[0]:
        return f"name the key of each value; did you mean {word}={_as_typed(following[0])}?"  # a pipeline's input
    if keys := of_options or _keys_of(schema, word, named):
        return f"name the key of each value; did you mean {' or '.join(f'{key}={_as_typed(word)}' for key in keys)}?"
    return "use key=value or --key value (--help lists the keys), and quote a value that has spaces or * or [ ]"


def _of_key_without_value(schema: type, word: str, following: Sequence[str], short: Collection[str]) -> str:
    """Return how to write a key that a space, a colon or nothing follows; empty for other words."""
    name = word.lstrip("-").replace("-", "_")
    if bool in alternatives(type_of(schema, name)):
        return f"use {name}=true or --{name}"
    if name in short or type_of(schema, name) is not UNKNOWN:
        values = [text for text in following[:2] if text != "=" and "=" not in text and not text.startswith("-")]
        value = _as_typed(values[0]) if values else "VALUE"
        return f"use {name}={value} or --{name} {value}"
    match = _WORD.fullmatch(word)
    key = match["key"].replace("-", "_") if match else ""
    if match and (key in short or type_of(schema, key) is not UNKNOWN):
        return f"use {_as_typed(key + '=' + match['value'])}"
    return ""


def _of_divided_value(schema: type, word: str, before: str) -> str:
    """Return how to write the value of `before`, of which the shell made several words; empty if it did not."""
    key, _, value = before.partition("=")
    if before and not value:
        return f"{before} has no value: remove the space after =, as in {before}{word}"
    if value[:1] == "[" and "]" not in value:
        whole = f"{before.rstrip(',')},{word.rstrip(',]')}]"
        return f"the shell divided the list of {key}= at a space: quote it, as in '{whole}'"
    one, other = Path(value), Path(word)
    if (
        value
        and one.exists()
        and other.exists()
        and (one.parent, one.suffixes[:1]) == (other.parent, other.suffixes[:1])
    ):
        pattern = one.with_name(f"*{''.join(one.suffixes[-2:])}")
        return f"the shell made several words of {key}=: quote it, as in '{key}={pattern}'"
    is_text = str in alternatives(type_of(schema, key)) and key not in (*groups(schema), *_COMMON, "out")
    is_place = one.exists() or other.exists() or one.suffix or other.suffix
    if value and is_text and not is_place and not word.startswith("-"):
        joined = f"{value}_{word}"
        return f"quote a value that has spaces, as in '{before} {word}', or join its words, as in {joined}"
    return ""


def _keys_of(schema: type, word: str, named: Collection[str]) -> list[str]:
    """Return the keys of which `word` may be the value: a file or folder, or what is required."""
    unset = [key for key in hints(schema) if key not in named]
    if word.endswith((".yaml", ".yml")):
        return [key for key in ("rubric", "pipeline") if key in unset]
    if part := next((part for part in reversed(PurePath(word).parts) if part in unset and part != word), None):
        return [part]
    required = [key for key in unset if key_types.is_required(schema, key)]
    has_input = any(key in named for key in _COMMON)
    reads = [key for key in required if key != "out"] or [key for key in _COMMON if key in unset and not has_input]
    path = Path(word)
    pictures = [key for key in ("source.path", "pictures.path") if type_of(schema, key) is not UNKNOWN]
    if pictures and path.is_dir() and not (path / "_run").exists() and not any(path.glob("*/_run")):
        return ["source=folder source.path" if "source" in unset else pictures[0]]
    if path.is_file() and "input" in reads:
        return ["input"]
    if hasattr(schema, "SHORT") and not path.exists() and not path.suffix and "pipeline" in unset:
        return ["pipeline"]
    places = [*reads[:1], *(key for key in ("out",) if key in unset)]
    return places[:1] if path.exists() or path.suffix else places


def _as_typed(text: str) -> str:
    return f"'{text}'" if re.search(r"[\s*\[\]]", text) else text
