"""Configuration: Hydra composes `conf/`, dataclasses beside their owners say what is allowed.

A job's dataclass extends `Common`; its file is `conf/<job>.yaml`. Whatever is wrong comes back as one sentence
that names the key and what is allowed.
"""

import difflib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, OverrideParseException
from omegaconf import MISSING, DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from jobs.errors import InputError
from jobs.resources import Resources

CONF = Path(__file__).resolve().parents[1] / "conf"  # beside `jobs`, in a checkout and when installed


@dataclass
class RayConfig:
    """How Ray is reached or started."""

    address: str | None = None  # null: $RAY_ADDRESS, else a Ray started here
    num_cpus: int | None = None  # logical CPUs of a Ray started here; null: the machine's
    verbose: bool = False  # let Ray's own log lines and progress bars through


@dataclass
class Common:
    """Keys of every job that writes a table."""

    out: str = MISSING
    resume: bool = True
    overwrite: bool = False
    retry: list[str] = field(default_factory=list)
    plan: bool = False
    ray: RayConfig = field(default_factory=RayConfig)
    resources: Resources = field(default_factory=Resources)


def load(job: str, schema: type, overrides: list[str]) -> Any:
    """Compose the configuration of `job` with the command line's `key=value` overrides.

    Returns an instance of the dataclass `schema`.

    Raises:
        InputError: an unknown or mistyped key or option, or a required key that is not given.
    """
    composed = _compose(job, schema, [_quoted(o) for o in overrides])
    try:
        if missing := sorted(OmegaConf.missing_keys(composed)):
            raise InputError(f"{job}: required and not given: {', '.join(f'{key}=' for key in missing)}")
        return OmegaConf.to_object(composed)
    except OmegaConfBaseException as error:
        raise InputError(f"{job}: {_sentence(error)}") from error


def shown(job: str, schema: type, overrides: list[str]) -> str:
    """The composed configuration as YAML, required keys as ???."""
    return OmegaConf.to_yaml(_compose(job, schema, [_quoted(o) for o in overrides]))


def _compose(job: str, schema: type, overrides: list[str]) -> DictConfig:
    ConfigStore.instance().store(name=f"{job}_schema", node=schema)
    try:
        with initialize_config_dir(str(CONF), version_base="1.3", job_name=job):
            return compose(job, overrides=overrides)
    except OverrideParseException as error:
        raise InputError(f"{job}: {error.override!r} is not key=value") from error
    except (HydraException, OmegaConfBaseException) as error:
        raise InputError(f"{job}: {_explain(job, schema, overrides, error)}") from error


def _quoted(override: str) -> str:
    """`override`, its value quoted if Hydra's grammar would not take it bare (a path with a comma, say)."""
    key, equals, value = override.partition("=")
    if not equals or value[:1] in ("'", '"'):
        return override
    try:
        OverridesParser.create().parse_override(override)
        if not re.search(r"^[^\[{(]*,", value):
            return override
    except OverrideParseException:
        pass
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"{key}='{escaped}'"


def _explain(job: str, schema: type, overrides: list[str], error: Exception) -> str:
    causes = [error, error.__cause__, error.__context__]
    text = "\n".join(str(c) for c in causes if c)
    if found := re.search(r"Could not find '([^']+)'.*?Available options in '([^']+)':\s*(.*)", text, re.S):
        group, option = found.group(2), found.group(1).rsplit("/", 1)[-1]
        options = [line.strip() for line in found.group(3).split("\n") if line.strip()]
        return f"{group}={option}: no such option; there are {', '.join(dict.fromkeys(options))}"
    if found := re.search(r"Could not override '([^']+)'", text):
        return _unknown_key(job, schema, overrides, found.group(1), text)
    return _sentence(error)


def _unknown_key(job: str, schema: type, overrides: list[str], key: str, text: str) -> str:
    value = next((o.partition("=")[2] for o in overrides if o.partition("=")[0] == key), "")
    if found := re.search(r"(Value .*? could not be converted to \w+|Cannot convert .*|Invalid value .*)", text):
        return f"{key}={value}: {found.group(1)}"
    without = [o for o in overrides if o.partition("=")[0] != key]
    try:
        node: Any = _compose(job, schema, without)
    except InputError:
        return f"{key}: no such key"
    path = key.split(".")
    for depth, name in enumerate(path):
        if not isinstance(node, DictConfig) or name not in node:
            allowed = list(map(str, node)) if isinstance(node, DictConfig) else []
            near = difflib.get_close_matches(name, allowed, n=1)
            hint = f"; did you mean {'.'.join([*path[:depth], near[0]])}?" if near else ""
            where = f" in {'.'.join(path[:depth])}" if depth else ""
            return f"{key}: no such key{hint} Allowed{where}: {', '.join(sorted(allowed)) or 'nothing below it'}"
        node = node[name] if not OmegaConf.is_missing(node, name) else None
    return f"{key}={value}: {text.splitlines()[0]}"


def _sentence(error: BaseException) -> str:
    cause = error.__cause__ or error
    key = getattr(cause, "full_key", None) or getattr(error, "full_key", None)
    first = next((line.strip() for line in str(cause).splitlines() if line.strip()), type(cause).__name__)
    return f"{key}: {first}" if key else first


def plain(config: Any) -> dict[str, Any]:
    """A dataclass configuration as JSON values, for the manifest."""
    container = OmegaConf.to_container(OmegaConf.structured(config), resolve=True)
    assert isinstance(container, dict)
    return {str(k): v for k, v in container.items() if not isinstance(v, DictConfig | ListConfig)}
