"""Configuration of a job: Hydra composes `conf/`, and the job's dataclass declares the allowed keys and their types.

A job's dataclass extends `Writing`, or `Common` if the job uses Ray; its defaults are in `conf/<job>.yaml`. Each error
is one line with the key and what is allowed.
"""

import contextlib
import difflib
import functools
import math
import pickle
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import hydra
import yaml
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from jobs.errors import InputError
from jobs.runtime.configuration import config_errors, key_comments, named_keys, own_checkpoints, yaml_parser
from jobs.runtime.configuration import overrides as override_grammar
from jobs.runtime.configuration.config_files import (
    CONF,
    chosen_options,
    describe_yaml_error,
    file_of,
    options,
    register_user_files,
)
from jobs.runtime.configuration.key_types import nested_dataclass, type_of
from jobs.runtime.configuration.listed_models import read_models
from jobs.runtime.configuration.resources import Resources, check

CALIBRATE = "calibrate"  # a value of plan=
# Parts of Hydra's own configuration that jobs do not use; composing without them takes a quarter less time.
_HYDRA_PARTS = ("launcher", "sweeper", "help", "hydra_help", "output", "job_logging", "hydra_logging")
yaml_parser.install()
_NEAR = 0.76  # least similarity at which a name is suggested; lang and plan have a similarity of 0.75


@dataclass
class RayConfig:
    """Keys for connecting to Ray or starting it."""

    address: str | None = None  # null: $RAY_ADDRESS if set, else start Ray on this machine
    num_cpus: int | None = None  # logical CPUs of a Ray started here; null: all of the machine's
    verbose: bool = False  # show Ray's own log lines and progress bars


@dataclass
class Writing:
    """Keys of every job that writes a table."""

    out: str = MISSING  # the table to write: a separate folder or s3://bucket/prefix
    resume: bool = True  # rarely: continue an existing table; false refuses it
    overwrite: bool = False  # delete an existing table first
    retry: list[str] = field(default_factory=list)  # redo rows of these statuses, as in [error] or [blocked,missing]
    # print what would be read, written and used, and stop; calibrate (jobs with Ray): first do some units, to measure
    plan: bool | str = False
    exclusions: str | None = None  # file of image_ids or URLs that must not be used, one per line

    @property
    def only_plans(self) -> bool:
        """Whether the job stops after it has printed its plan."""
        return self.plan is True


@dataclass
class Common(Writing):
    """Keys of every job that uses Ray."""

    timings: bool = False  # print where the seconds went (-v): imports, Ray, start of the workers, first batch
    log: str = "text"  # rarely: format of what is printed: text, or json for one JSON object per line
    ray: RayConfig = field(default_factory=RayConfig)  # rarely: how Ray is reached or started
    resources: Resources = field(default_factory=Resources)  # what each stage may use


@dataclass
class ReadingRows(Common):
    """Keys of every job that uses Ray and reads its input row by row."""

    limit: int | None = None  # read only the first rows of the input, for a trial run in a separate table; null: all


@dataclass
class FailingRows(ReadingRows):
    """Keys of every job whose rows can fail because of machines, models, storage or the network."""

    # rarely: stop if more items than this share fail for reasons that are not in the input
    max_error_share: float = 0.01


def load(job: str, schema: type, overrides: list[str]) -> Any:
    """Compose the configuration of `job` with the command line's `key=value` overrides.

    Returns an instance of the dataclass `schema`.

    Raises:
        InputError: an unknown key or option, a value of the wrong type, or a required key without a value.
    """
    composed = compose(job, schema, overrides)
    try:
        # Not OmegaConf.missing_keys, which resolves interpolations: `prepare` may have to do that.
        if missing := sorted(_keys_with(lambda value: value == MISSING, OmegaConf.to_container(composed))):
            keys = ", ".join(f"{key}=" for key in missing)
            raise InputError(f"{keys}: required; remine {job} --help explains every key")
        if (prepare := getattr(schema, "prepare", None)) is not None:
            composed = prepare(composed)  # while its interpolations are not resolved
        # NaN passes every comparison with a limit.
        if key := next(_keys_with(_is_nan, OmegaConf.to_container(composed, resolve=True)), None):
            raise InputError(f"{job}: {key}=nan: expected a number")
        config = OmegaConf.to_object(composed)
    except OmegaConfBaseException as error:
        raise InputError(f"{job}: {config_errors.describe(error)}") from error
    except InputError:
        raise
    except ValueError as error:  # from a settings dataclass in actors/, which validates its values
        values: Any = OmegaConf.to_container(composed, resolve=True)
        message = named_keys.named(str(error), job, values, chosen_options(job, overrides))
        raise InputError(f"{job}: {message}") from error
    if (resources := getattr(config, "resources", None)) is not None:
        check(resources)
    if isinstance(plan := getattr(config, "plan", False), str):
        check_plan(plan, calibrates=resources is not None)
    read_models(job, config, overrides, load)
    return config


def check_plan(plan: bool | str, *, calibrates: bool) -> None:
    """Raise InputError for a value of `plan=` that is not allowed.

    Args:
        calibrates: the job can process some of its units alone.
    """
    if isinstance(plan, str) and not (calibrates and plan == CALIBRATE):
        others = f", false and {CALIBRATE}" if calibrates else f" and false; this job has no plan={CALIBRATE}"
        raise InputError(f"plan={plan}: must be one of true{others}")


def compose(job: str, schema: type, overrides: list[str]) -> DictConfig:
    """Return the composed configuration; required keys may still be missing.

    Raises:
        InputError: as `load`, except for missing keys.
    """
    override_grammar.check(job, schema, overrides)
    if (override := override_grammar.with_unknown_key(schema, overrides)) is not None:
        named = {override_grammar.key_of(other).partition(".")[0] for other in overrides}
        raise InputError(f"{job}: {_unknown_key(job, schema, [], override, named=named)}")
    hydra_overrides = [override_grammar.to_hydra(schema, override) for override in overrides]
    return _compose(job, schema, register_user_files(job, hydra_overrides))


def as_yaml(job: str, schema: type, overrides: list[str]) -> str:
    """Return the composed configuration as YAML; required keys without a value are ???."""
    return OmegaConf.to_yaml(compose(job, schema, overrides))


def _keys_with(test: Callable[[Any], bool], values: Any, key: str = "") -> Iterator[str]:
    """Yield the dotted keys below `key` whose values pass `test`."""
    if isinstance(values, dict | list):
        for name, value in values.items() if isinstance(values, dict) else enumerate(values):
            yield from _keys_with(test, value, f"{key}.{name}" if key else str(name))
    elif test(values):
        yield key


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _compose(job: str, schema: type, overrides: list[str]) -> DictConfig:
    choices = tuple(override for override in overrides if override_grammar.chooses_file(override))
    try:
        composed = pickle.loads(_compose_files(job, schema, choices))
        named = own_checkpoints.checkpoints(composed)
        for override in overrides:
            if override not in choices:
                override_grammar.apply(composed, override)
        own_checkpoints.forget_descriptions(composed, named, map(override_grammar.key_of, overrides))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise InputError(f"{job}: {describe_yaml_error(error, mark.name if mark else 'conf')}") from error
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise InputError(f"{job}: {_explain(job, schema, overrides, error)}") from error
    return composed


@functools.lru_cache(maxsize=256)
def _compose_files(job: str, schema: type, choices: tuple[str, ...]) -> bytes:
    """Return the pickled files of conf/ that `choices` select; cached, since a pipeline composes a job many times.

    Hydra takes 0.1 s; copying its configuration takes seven times as long as reading it from these bytes.
    """
    with _stored(job, schema), hydra.initialize_config_dir(str(CONF), version_base="1.3", job_name=job):
        return pickle.dumps(hydra.compose(job, overrides=list(choices)))


@functools.cache
def _trimmed_store() -> ConfigStore:
    """Hydra's store, with `_HYDRA_PARTS` left out of what Hydra's own configuration consists of.

    Overrides that delete them, `~hydra/PART`, would be parsed and resolved for each composition.
    """
    store = ConfigStore.instance()
    node = store.repo["hydra"]["config.yaml"].node
    node.defaults = [part for part in node.defaults if not set(part) & set(_HYDRA_PARTS)]
    return store


@functools.cache
def _schema_node(schema: type) -> DictConfig:
    return OmegaConf.structured(schema)


@contextlib.contextmanager
def _stored(job: str, schema: type) -> Iterator[None]:
    """Keep the schema in Hydra's store only within the context: Hydra copies the whole store for each composition."""
    store = _trimmed_store()
    store.store(name=f"{job}_schema", node=_schema_node(schema))
    try:
        yield
    finally:
        del store.repo[f"{job}_schema.yaml"]


def _explain(job: str, schema: type, overrides: list[str], error: Exception) -> str:
    """Return why composing failed: the override, the problem and what is allowed."""
    match config_errors.cause_of(error):
        case config_errors.UnknownOption(group, option):
            allowed = options(group, nested_dataclass(type_of(schema, group)))
            # Hydra takes the part before a slash for a folder.
            option = next((value for value in _values_of(group, overrides) if value.endswith(option)), option)
            hint = _hint_of_file(option) or _hint(option, allowed) or _hint_of_checkpoint(group, option)
            return (
                f"{group}={option}: no such option{hint}; must be one of {', '.join(allowed)}, or your own .yaml file"
            )
        case config_errors.ForeignKey(group, option, key):
            kind = nested_dataclass(type_of(schema, group))
            allowed = options(group, kind)
            if file_of(option) == option:
                return f"{group}={option}: has keys that {job} does not have; must be one of {', '.join(allowed)}"
            parent = nested_dataclass(type_of(schema, f"{group}.{key}".rpartition(".")[0]))
            keys = sorted(field.name for field in fields(parent)) if parent else []
            hint = _hint(key.rpartition(".")[2], keys)
            return f"{group}={file_of(option)}: {key}: no such key{hint}; must be one of {', '.join(keys)}"
        case config_errors.WrongValue(group, option, problem):
            return f"{group}={file_of(option)}: {problem}"
    if isinstance(error, override_grammar.UnknownKeyError):
        others = [override for override in overrides if override_grammar.key_of(override) != error.key]
        override = next((override for override in overrides if override not in others), error.key)
        return _unknown_key(job, schema, others, override) or f"{override}: {config_errors.describe(error)}"
    return config_errors.describe(error)


def _values_of(key: str, overrides: Sequence[str]) -> list[str]:
    return [override.partition("=")[2] for override in overrides if override.startswith(f"{key}=")]


def _hint_of_file(option: str) -> str:
    """Return a hint with the user's file `option`.yaml or `option`.yml; empty if there is none."""
    stem = option.removesuffix(".yml")
    if Path(f"{stem}.yaml").is_file():
        return f" (did you mean {stem}.yaml?)"
    return f" (rename {stem}.yml to {stem}.yaml)" if Path(f"{stem}.yml").is_file() else ""


def _hint_of_checkpoint(group: str, option: str) -> str:
    """Return how to use a model that is not in `conf/`; empty if `option` does not name one."""
    if group in ("model", "embedder", "image_model") and re.search("[:/]", option):
        return f" (a model of the hub or a folder is {group}.checkpoint={option})"
    return ""


def _unknown_key(
    job: str, schema: type, others: list[str], override: str, *, named: Collection[str] = frozenset()
) -> str:
    """Return the message that the key of `override` does not exist, with the keys next to it; empty if it exists.

    Args:
        others: the other overrides.
        named: keys, or groups of keys, that are set.
    """
    typed = override_grammar.as_typed(override)
    try:
        node: Any = _compose(job, schema, others)
    except InputError:
        return f"{typed}: no such key"
    path = override_grammar.key_of(override).split(".")
    for depth, name in enumerate(path):
        if not isinstance(node, DictConfig) or name not in node:
            allowed = sorted(map(str, node)) if isinstance(node, DictConfig) else []
            hint = _hint(name, allowed, prefix="".join(f"{parent}." for parent in path[:depth]))
            if not hint and not depth:
                hint = _hint_below(name, node) or _hint_of_comments(name, schema) or _hint_of_required(node, named)
            parent = f" in {'.'.join(path[:depth])}" if depth else ""
            return f"{typed}: no such key{hint}; allowed{parent}: {', '.join(allowed) or 'no further keys'}"
        node = node[name] if not OmegaConf.is_missing(node, name) else None
    return ""


def _hint(name: str, allowed: Sequence[str], *, prefix: str = "") -> str:
    near = [other for other in allowed if other.startswith(f"{name}_")]  # item for item_id
    near = near or difflib.get_close_matches(name, allowed, n=1, cutoff=_NEAR)
    near = near or [other for other in allowed if sorted(other) == sorted(name)]  # wti for wit
    near = near or [other for other in allowed if difflib.get_close_matches(name, other.split("_"), cutoff=_NEAR)]
    return f" (did you mean {prefix}{near[0]}?)" if near else ""


def _hint_of_required(node: DictConfig, named: Collection[str]) -> str:
    """Return the required keys that are not set, such as `queries=` for somebody who typed `input=`."""
    missing = (name for name in map(str, node) if OmegaConf.is_missing(node, name))
    required = [f"{name}=" for name in missing if name != "out" and name not in named]
    return f" (required: {', '.join(required)})" if required else ""


def _hint_below(name: str, node: DictConfig) -> str:
    """Return a hint with the one key below `node` whose last part is, or begins with, `name`; empty otherwise."""
    keys = _keys_with(lambda _: True, OmegaConf.to_container(node))
    longer = [key for key in keys if "." in key and key.rsplit(".", 1)[1].startswith(name) and "resources." not in key]
    exact = [key for key in longer if key.rsplit(".", 1)[1] == name]
    return f" (did you mean {(exact or longer)[0]}?)" if len(exact or longer) == 1 else ""


def _hint_of_comments(name: str, schema: type) -> str:
    """Return a hint with the only key whose explanation begins with `name`, such as `draw.n` for "size"."""
    keys = [key for key, text in key_comments.comments_below(schema) if re.match(rf"{re.escape(name)}\b", text)]
    return f" (did you mean {keys[0]}?)" if len(keys) == 1 else ""
