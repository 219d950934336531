"""Configuration of a job: its dataclass declares the keys, their types and defaults; `conf/` has files to choose from.

A job's dataclass extends `Writing`, or `Common` if the job uses Ray. Each error is one line with the key and what is
allowed.
"""

import contextlib
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import pairwise
from typing import Any, ClassVar, get_args, get_origin

from actors.errors import FileError, SettingError, first_line
from actors.local_models import is_local
from actors.settings import Location, RuntimeOnly
from jobs.errors import InputError
from jobs.runtime.configuration import config_files, key_hints, key_values
from jobs.runtime.configuration.key_types import (
    LISTS,
    MISSING,
    UNKNOWN,
    alternatives,
    comments_below,
    conf_group,
    defaults,
    groups,
    hints,
    is_required,
    nested_dataclass,
    type_of,
)
from jobs.runtime.configuration.key_values import UnknownKeyError
from jobs.runtime.configuration.resources import RayConfig, Resources, check

CALIBRATE = "calibrate"  # a value of plan=
_REFERENCE = re.compile(r"\$\{([^${}:]+)(:?)[^{}]*\}")  # to a key, or to a resolver with its arguments
_FIRST_NAME = re.compile(r"(--(?=[\w.-]+(?:=|$))|\+*(?=[\w.-]+=))([\w-]+)")  # of the key of --key, --key= or key=
_GLOBAL = "_global_"  # the package of a file that also sets keys outside its group
_CHECKPOINT, _NAME = "checkpoint", "name"
_DESCRIBED = ("revision", "pretrained", "memory_gb", "licence")  # keys that describe the checkpoint of a file of conf/


class NoSuchKeyError(InputError):
    """A key does not exist.

    Attributes:
        name: the last part of the key, if nothing near it is a key of the job; None if the message has such a key.
        steps: the jobs of the pipeline whose configuration it is; empty for other configurations.
    """

    def __init__(self, why: str, *, name: str | None, steps: Sequence[str]) -> None:
        super().__init__(why)
        self.name, self.steps = name, steps


@dataclass
class Writing:
    """Keys of every job that writes a table."""

    out: RuntimeOnly[str] = MISSING  # the table to write: a separate folder or s3://bucket/prefix
    resume: RuntimeOnly[bool] = True  # rarely: continue an existing table; false refuses it
    overwrite: RuntimeOnly[bool] = False  # delete an existing table first
    # redo rows of these statuses, as in [error] or [blocked,missing]
    retry: RuntimeOnly[list[str]] = field(default_factory=list)
    # print what would be read, written and used, and stop; calibrate (jobs with Ray): first do some units, to measure
    plan: RuntimeOnly[bool | str] = False
    exclusions: Location[str | None] = None  # file of image_ids or URLs that must not be used, one per line
    calibrates: ClassVar[bool] = False  # whether plan=calibrate is allowed: some of its units can be processed alone

    @property
    def only_plans(self) -> bool:
        """Whether the job stops after it has printed its plan."""
        return self.plan is True


@dataclass
class Common(Writing):
    """Keys of every job that uses Ray."""

    # print where the seconds went (-v): imports, Ray, start of the workers, first batch
    timings: RuntimeOnly[bool] = False
    log: RuntimeOnly[str] = "text"  # rarely: format of what is printed: text, or json for one JSON object per line
    ray: RuntimeOnly[RayConfig] = field(default_factory=RayConfig)  # rarely: how Ray is reached or started
    resources: RuntimeOnly[Resources] = conf_group("laptop", Resources)  # what each stage may use
    # end the run, which the same command continues, at an amount of money (200) or a time (12h, 90min); null: no limit
    budget: RuntimeOnly[str | None] = None
    calibrates: ClassVar[bool] = True


@dataclass
class ReadingRows(Common):
    """Keys of every job that uses Ray and reads its input row by row."""

    # read only the first rows of the input, for a trial run in a separate table; null: all
    limit: RuntimeOnly[int | None] = None


@dataclass
class FailingRows(ReadingRows):
    """Keys of every job whose rows can fail because of machines, models, storage or the network."""

    # rarely: stop if more items than this share fail for reasons that are not in the input
    max_error_share: RuntimeOnly[float] = 0.01


def load(job: str, schema: type, overrides: Sequence[str]) -> Any:
    """Compose the configuration of `job` with the command line's `key=value` overrides.

    Returns an instance of the dataclass `schema`.

    Raises:
        InputError: an unknown key or option, a value of the wrong type, or a required key without a value.
    """
    overrides = with_full_keys(job, schema, overrides)
    values = compose(job, schema, overrides)
    # Before references are resolved: `prepare` may have to do that.
    if missing := sorted(key_hints.keys_with(lambda value: value == MISSING, values)):
        keys = ", ".join(f"{short_key(schema, key)}=" for key in missing)
        comment = dict(comments_below(schema)).get(missing[0], "") if len(missing) == 1 else ""
        group = "".join(f" {name}={option}" for name, option in group_of_short(schema, overrides).items())
        explained = f"remine {job}{group} --help explains every key{f' ({comment})' * bool(comment)}"
        raise InputError(f"{keys}: required; {explained}")
    if (prepare := getattr(schema, "prepare", None)) is not None:
        values = prepare(values)
    with _of(job):
        values = _resolved(schema, values)
        # NaN passes every comparison with a limit.
        if key := next(key_hints.keys_with(lambda value: isinstance(value, float) and math.isnan(value), values), None):
            raise InputError("expected a number", key=key, value=math.nan)
        try:
            config = built(schema, values)
        except FileError as error:
            option = config_files.chosen_options(schema, overrides).get(error.key)
            raise InputError(error.why, key=error.key, value=option) from error
    if (resources := getattr(config, "resources", None)) is not None:
        check(resources)
    if isinstance(plan := getattr(config, "plan", False), str):
        check_plan(plan, calibrates=config.calibrates)
    _read_models(job, config, overrides)
    return config


def check_plan(plan: bool | str, *, calibrates: bool) -> None:
    """Raise InputError for a value of `plan=` that is not allowed.

    Args:
        calibrates: the job can process some of its units alone.
    """
    if isinstance(plan, str) and not (calibrates and plan == CALIBRATE):
        others = f", false and {CALIBRATE}" if calibrates else f" and false; this job has no plan={CALIBRATE}"
        raise InputError(f"must be one of true{others}", key="plan", value=plan)


def compose(job: str, schema: type, overrides: Sequence[str]) -> dict[str, Any]:
    """Return the values of all keys, nested; those of required keys may still be missing.

    Raises:
        InputError: as `load`, except for missing keys.
    """
    with _of(job):
        _check_forms(schema, overrides)
        unknown = (override for override in overrides if type_of(schema, key_of(override)) is UNKNOWN)
        if (override := next(unknown, None)) is not None:
            named = {short_key(schema, key_of(other)).partition(".")[0] for other in overrides}
            of_groups = [other for other in overrides if key_of(other) in groups(schema)]
            raise _unknown_key(schema, override, compose(job, schema, of_groups), named)
        chosen = config_files.chosen_options(schema, overrides)
        values = _of_files(job, schema, chosen)
        checkpoints = _checkpoints(values)
        for override in overrides:
            if key_of(override) not in chosen:
                values = _with_override(job, schema, values, override)
        return _without_descriptions(values, checkpoints, set(map(key_of, overrides)))


def _of_files(job: str, schema: type, chosen: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the default values with those of the files of the chosen options."""
    values = defaults(schema)
    for name, option in chosen.items():
        if option is not None:
            values = _with_file(job, schema, values, name, option)
    return values


def with_full_keys(job: str, schema: type, words: Sequence[str]) -> list[str]:
    """Return the words of a command line with the full keys of those that may be written short.

    The class attribute `SHORT` of a schema names a mapping of a group, such as `pipeline.inputs`: `set=` stands for
    `pipeline.inputs.set=` if the chosen file has this key and the schema has no key `set`.

    Raises:
        InputError: the file of the group cannot be read.
    """
    full = short_names(job, schema, words)

    def complete(word: str) -> str:
        match = _FIRST_NAME.match(word)
        name = match[2].replace("-", "_") if match else ""
        return f"{match[1]}{full[name]}{word[match.end() :]}" if match and name in full else word

    return [complete(word) for word in words]


def short_names(job: str, schema: type, words: Sequence[str]) -> dict[str, str]:
    """Return the keys that may be written short on a command line, with the full keys.

    Raises:
        InputError: as `with_full_keys`.
    """
    if not (group := group_of_short(schema, words)):
        return {}
    with _of(job):
        names = _short_keys(schema, _of_files(job, schema, group))
    return {name: f"{schema.SHORT}.{name}" for name in names}  # type: ignore[attr-defined]


def short_key(schema: type, key: str) -> str:
    """Return how a key may be written: without the mapping that `SHORT` of its schema names."""
    rest = key.removeprefix(f"{getattr(schema, 'SHORT', key)}.")
    return key if rest.partition(".")[0] in hints(schema) else rest


def group_of_short(schema: type, words: Sequence[str]) -> dict[str, str | None]:
    """Return the option of the group that has the mapping `SHORT` of a schema; empty if the schema has none."""
    if (mapping := getattr(schema, "SHORT", None)) is None:
        return {}
    pairs = [f"{key}={value}" for key, value in pairwise(words) if key.startswith("--") and "=" not in key]
    chosen = config_files.chosen_options(schema, [word.removeprefix("--") for word in (*words, *pairs)])
    group = mapping.partition(".")[0]
    return {group: chosen[group]}


def _short_keys(schema: type, values: Any) -> dict[str, Any]:
    """Return the values of the keys that may be written without the mapping that `SHORT` of a schema names."""
    if (mapping := getattr(schema, "SHORT", None)) is None:
        return {}
    for name in mapping.split("."):
        values = values[name]
    return {str(name): value for name, value in values.items() if name not in hints(schema)}


def key_of(override: str) -> str:
    """Return the dotted key of `override`; it may be an unknown option with dashes, which `arguments` passes on."""
    return override.partition("=")[0].lstrip("+").removeprefix("--")


def as_yaml(job: str, schema: type, overrides: Sequence[str]) -> str:
    """Return the composed configuration as YAML; required keys without a value are ???."""
    from omegaconf import OmegaConf  # which quotes texts that look like numbers

    return OmegaConf.to_yaml(OmegaConf.create(compose(job, schema, overrides)))


@contextlib.contextmanager
def _of(job: str) -> Iterator[None]:
    """Give errors the job whose configuration is wrong."""
    try:
        yield
    except InputError as error:
        error.job = error.job or job
        raise


def _check_forms(schema: type, overrides: Sequence[str]) -> None:
    """Check that each override is `key=value`, with a value in a form that the key's type allows."""
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key or key.startswith("~"):
            raise InputError(f"{override!r} is not key=value")
        kind = type_of(schema, key)
        if value[:1] == "=":
            raise InputError(f"{override}: has two =; use {key}{value}")
        if get_origin(kind) is list and value[:1] != "[":
            raise InputError(f"{override}: expected a list, as in {key}=[a,b]")
        if get_origin(kind) is list and "]" not in value:
            raise InputError(f"{override}: the list has no ]; use '{override}]'")
        if is_dataclass(kind) and key not in groups(schema) and value[:1] != "{" and value != "null":
            names = [f"{key}.{field.name}" for field in fields(kind)]
            comment = dict(comments_below(schema)).get(key, "")
            remedy = (
                f"did you mean {names[0]}={value}?"
                if len(names) == 1
                else f"set one of {', '.join(f'{name}=' for name in names)}"
            )
            raise InputError(f"{override}: holds several keys{f' ({comment})' * bool(comment)}; {remedy}")
        if value == "null" and is_dataclass(kind):
            raise InputError(f"{override}: this key cannot be null")
        if not value and set(alternatives(kind)) == {str, type(None)}:  # usually an unset variable of the shell
            raise InputError(f"{override}: empty value; for no value, use {key}=null")
        if not value and kind is str and is_required(schema, key):
            raise InputError(f"{override}: empty value; the key is required")


def _with_file(job: str, schema: type, values: dict[str, Any], name: str, option: str) -> dict[str, Any]:
    """Return `values` with those of the file `option` of a group."""
    kind = type_of(schema, name)
    allowed = config_files.options(name, nested_dataclass(kind))
    is_own = option.endswith(".yaml")
    if is_own and (kinds := config_files.kinds_of(option)) and name in config_files.KINDS and name not in kinds:
        remedy = key_hints.of_other_kind(schema, option, kinds)
        raise InputError(f"not a file of {name}=", key=name, value=option, remedy=remedy)
    try:
        for package, keys in config_files.read_option(name, option):
            content = keys if package == _GLOBAL else {name: keys}
            values = key_values.merge(schema, values, content, "")
    except FileNotFoundError as error:
        hint = key_hints.of_option(name, option, allowed, schema)
        why = f"no such option{hint}; must be one of {', '.join(allowed)}, or your own .yaml file"
        raise InputError(why, key=name, value=option) from error
    except UnknownKeyError as error:
        key = error.key.removeprefix(f"{name}.")
        why = f"{key}: no such key{key_hints.of_name(key.rpartition('.')[2], error.allowed)}; must be one of "
        why = (
            f"{why}{', '.join(error.allowed)}"
            if is_own
            else (f"has keys that {job} does not have; must be one of {', '.join(allowed)}")
        )
        raise InputError(why, key=name, value=option) from error
    except InputError as error:
        if error.key is None or error.key == name:
            raise
        key = error.key.removeprefix(f"{name}.")
        raise InputError(InputError(error.why, key=key, value=error.value).sentence, key=name, value=option) from error
    return values


def _with_override(job: str, schema: type, values: dict[str, Any], override: str) -> dict[str, Any]:
    """Return `values` with that of `key=value`."""
    name, _, text = override.partition("=")
    key = key_of(override)
    path = key.split(".")
    kind = type_of(schema, key)
    try:
        value = key_values.read(text, kind)
    except ValueError as error:
        raise InputError(str(error), key=key) from error
    if isinstance(value, str) and "${" in value:
        value = _as_text(values, str(value))
    adds = name.startswith("+") or path[0] not in groups(schema)
    try:
        return key_values.replaced(schema, values, path, value, adds=adds)
    except UnknownKeyError as error:
        if error.key != key and not key.startswith(f"{error.key}."):  # a key of a mapping
            name = error.key.removeprefix(f"{key}").lstrip(".0123456789[]")
            hint = key_hints.of_name(name, error.allowed)
            raise InputError(
                f"{override}: {name}: no such key{hint}; must be one of {', '.join(error.allowed)}"
            ) from error
        raise _unknown_key(schema, override, values, frozenset()) from error


def _as_text(values: Mapping[str, Any], text: str) -> str:
    """Return `text` so that a `${` that does not begin a reference to a key or a resolver is part of the text."""
    if _REFERENCE.fullmatch(text):
        return text
    references = _REFERENCE.findall(text)
    if len(references) == text.count("${") and all(_exists(values, *reference) for reference in references):
        return text
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", text)


def _exists(values: Any, name: str, of_resolver: str) -> bool:
    if of_resolver:
        from omegaconf import OmegaConf

        return OmegaConf.has_resolver(name)
    for part in name.split("."):
        if not isinstance(values, dict) or part not in values:
            return False
        values = values[part]
    return True


def _checkpoints(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the checkpoint of each model of a configuration, by group."""
    return {
        name: model[_CHECKPOINT] for name, model in values.items() if isinstance(model, dict) and _CHECKPOINT in model
    }


def _without_descriptions(values: dict[str, Any], of_files: Mapping[str, str], keys: Collection[str]) -> dict[str, Any]:
    """Return `values` without what files of conf/ say about checkpoints that the command line replaces.

    The file of `model=qwen2.5-vl-7b` also has the commit, the licence and the memory of its checkpoint, which do not
    hold for `model.checkpoint=org/other`. Such a model is named after its checkpoint.

    Args:
        of_files: the checkpoints of the configuration without the keys of the command line.
        keys: the keys of the command line, which keep their values.
    """
    changed: dict[str, Any] = {}
    for name, checkpoint in _checkpoints(values).items():
        if of_files.get(name) == checkpoint:
            continue
        described: dict[str, str | None] = dict.fromkeys(_DESCRIBED)
        if "${" not in checkpoint:
            described[_NAME] = re.split("[/:]", checkpoint.rstrip("/"))[-1]
        model = values[name]
        stays = {key for key in described if key not in model or f"{name}.{key}" in keys}
        changed[name] = model | {key: value for key, value in described.items() if key not in stays}
    return values | changed


def _resolved(schema: type, values: dict[str, Any]) -> dict[str, Any]:
    """Return `values` with references `${…}` replaced by what they refer to."""
    if not any(key_hints.keys_with(lambda value: isinstance(value, str) and "${" in value, values)):
        return values
    from omegaconf import OmegaConf  # here, because few configurations have one
    from omegaconf.errors import OmegaConfBaseException

    try:
        resolved: Any = OmegaConf.to_container(OmegaConf.create(values), resolve=True)
    except OmegaConfBaseException as error:
        raise InputError(describe(error)) from error
    return {name: key_values.convert(hints(schema)[name], value, name) for name, value in resolved.items()}


def describe(error: Exception) -> str:
    """Return an error of OmegaConf in one line, with its key if it has one."""
    key = getattr(error, "full_key", None)
    return f"{key}: {first_line(error)}" if key else first_line(error)


def built(kind: Any, value: Any, key: str = "") -> Any:
    """Return the value of a key with mappings as the dataclasses that its type names."""
    inner = nested_dataclass(kind)
    if inner is not None and isinstance(value, Mapping):
        below = {
            name: built(hints(inner)[name], inner_value, f"{key}.{name}" if key else name)
            for name, inner_value in value.items()
        }
        try:
            return inner(**below)
        except (InputError, FileError):
            raise
        except SettingError as error:
            raise InputError(error.why, key=f"{key}.{error.key}".lstrip("."), value=error.value) from error
    if isinstance(value, list):
        element = next((get_args(member)[0] for member in alternatives(kind) if get_origin(member) is list), Any)
        return [built(element, item, key) for item in value]
    if isinstance(value, Mapping):
        element = next((get_args(member)[1] for member in alternatives(kind) if get_origin(member) is dict), Any)
        return {name: built(element, item, f"{key}.{name}") for name, item in value.items()}
    return value


def _read_models(job: str, config: Any, overrides: Sequence[str]) -> None:
    """Replace the names in lists such as `models=[A,B]` by their models, and the model of the single key by the first.

    Keys below the single key, such as `model.dtype`, apply to each of the models.

    Args:
        config: the job's configuration; modified in place.
        overrides: the overrides of `config`.

    Raises:
        InputError: a model is unknown or listed twice, or an override chooses a single model as well.
    """
    for listed in fields(config):
        if (key := listed.metadata.get(LISTS)) is None or not (names := getattr(config, listed.name)):
            continue
        shared = [override for override in overrides if key_of(override) != listed.name]
        models = []
        for name in names:
            if not isinstance(name, str):
                raise InputError(f"{listed.name}: {name!r}: expected names of conf/{key}, or paths of YAML files")
            try:
                models.append(getattr(load(job, type(config), [*shared, *_choice(key, name)]), key))
            except InputError as error:
                if error.key == key:
                    error.key, error.job = listed.name, None
                raise
        _refuse_single(overrides, key, listed.name)
        called = [model.name for model in models]
        if duplicate := next((name for name in called if called.count(name) > 1), None):
            shown = ",".join(map(str, names))
            raise InputError(f"duplicate {duplicate}; name each model once", key=listed.name, value=f"[{shown}]")
        setattr(config, listed.name, models)
        setattr(config, key, models[0])


def _refuse_single(overrides: Sequence[str], key: str, listed: str) -> None:
    """Raise InputError if an override chooses the model of `key`, which the list would replace."""
    single = {key, f"{key}.checkpoint", f"{key}.name"}
    if override := next((override for override in overrides if key_of(override) in single), None):
        raise InputError(
            f"{override}: not allowed with {listed}=, which names all models; add the model to {listed}=, or omit it"
        )


def _choice(key: str, name: str) -> list[str]:
    """Return the overrides that choose the model `name`: an option, the path of a file, or `local:NAME@OTHER`."""
    if not is_local(name):
        return [f"{key}={name}"]
    called = name.partition("@")[2] or name.partition(":")[2]
    return [f"{key}=local-tiny", f"{key}.checkpoint='{name}'", f"{key}.name='{called}'"]


def _unknown_key(schema: type, override: str, values: Mapping[str, Any], named: Collection[str]) -> NoSuchKeyError:
    """Return the error that the key of `override` does not exist; `values` is the configuration without it."""
    typed = override.removesuffix("=") if override.startswith("--") else override
    group = getattr(schema, "SHORT", "").partition(".")[0]
    jobs = [step["job"] for step in values[group].get("steps", ())] if group else []
    values = {**_short_keys(schema, values), **values}
    path = key_of(override).split(".")
    hint, allowed = key_hints.of_unknown_key(path, schema, values, named)
    return NoSuchKeyError(f"{typed}: no such key{hint}{allowed}", name=None if hint else path[-1], steps=jobs)
