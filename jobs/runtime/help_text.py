"""What `--help` says of a job: its keys with their defaults and the comments that stand beside them in the code.

A key is explained where it is declared, by the comment on its line in the job's dataclass. Keys that choose a file of
`conf/` are shown with the files that there are.
"""

import ast
import inspect
import io
import shutil
import textwrap
import tokenize
import types
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from omegaconf import DictConfig, ListConfig, OmegaConf

from jobs.runtime import config
from jobs.runtime.resources import Resources, StageResources

REQUIRED, REST = "???", "…"  # defaults: there is none; told elsewhere
KEY_COLUMN = 36  # characters; a longer key has its explanation on the next line
WIDEST, NARROWEST = 120, 80
SHOWN = 60  # characters of a list or a text; --cfg shows the whole
KINDS = {str: "text", int: "int", float: "number", bool: "true or false", list: "list", dict: "{name: value}"}


@dataclass(frozen=True)
class HelpKey:
    """One key of the command line; `options` are the files of conf/ that it chooses from, if it does."""

    name: str
    default: str
    kind: str
    text: str
    options: tuple[str, ...] = ()


def keys(job: str, schema: type) -> Iterator[HelpKey]:
    """The keys of `job` in their order, those of `resources` apart (`stage_keys`)."""
    yield from _below(schema, config.composed(job, schema, []), config.groups(job), "")


def stage_keys() -> Iterator[HelpKey]:
    """The keys that each stage has under `resources`, and those of Ray itself."""
    texts = explanations(StageResources)
    for name, kind in get_type_hints(StageResources).items():
        yield HelpKey(f"resources.STAGE.{name}", REST, _kind(kind), texts.get(name, ""))
    texts = explanations(Resources)
    for name, kind in get_type_hints(Resources).items():
        if not is_dataclass(kind):
            yield HelpKey(f"resources.{name}", REST, _kind(kind), texts.get(name, ""))


def stages() -> list[str]:
    """The names that stand for STAGE."""
    return [name for name, kind in get_type_hints(Resources).items() if kind is StageResources]


def _below(schema: type, values: Any, chosen: dict[str, str], prefix: str) -> Iterator[HelpKey]:
    texts = explanations(schema)
    hints = get_type_hints(schema)
    for field in fields(schema):
        name, kind = prefix + field.name, hints[field.name]
        if field.name == "name" and prefix.rstrip(".") in chosen:
            continue  # a file's own name: another one is chosen, not renamed
        group = not prefix and field.name in chosen
        inner = next((t for t in _alternatives(kind) if isinstance(t, type) and is_dataclass(t)), None)
        missing = OmegaConf.is_missing(values, field.name)
        value = REQUIRED if missing else values[field.name]
        text = texts.get(field.name, "") or (_first_line(inner) if inner else "")
        if group:
            yield HelpKey(name, chosen[field.name], "", text, config.options(field.name, inner))
        elif inner is not None:
            yield HelpKey(f"{name}.…", REST, "", text)
        if inner is Resources:
            continue
        if inner is not None and value is None:
            unset = _below(inner, OmegaConf.structured(inner), chosen, f"{name}.")
            yield from (replace(key, default="null" if key.default == REQUIRED else key.default) for key in unset)
        elif inner is not None and not missing:
            yield from _below(inner, value, chosen, f"{name}.")
        elif isinstance(value, DictConfig) and value and not group:
            for entry in map(str, value):
                own = REQUIRED if OmegaConf.is_missing(value, entry) else _shown(value[entry])
                yield HelpKey(f"{name}.{entry}", own, "", text)
        elif not group:
            yield HelpKey(name, _shown(value), _kind(kind), text)


def _first_line(schema: type) -> str:
    return (schema.__doc__ or "").strip().split("\n", 1)[0].rstrip(".")


def _shown(value: Any) -> str:
    """A default as it would be typed, shortened."""
    if isinstance(value, ListConfig):
        inside = ",".join(map(str, value)) if all(isinstance(v, str | int | float) for v in value) else "…"
        return f"[{textwrap.shorten(inside, SHOWN, placeholder='…')}]"
    if isinstance(value, DictConfig):
        return "{…}" if value else "{}"
    if isinstance(value, bool) or value is None:
        return {None: "null", True: "true", False: "false"}[value]
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def _kind(kind: Any) -> str:
    named = [KINDS.get(get_origin(t) or t, "") for t in _alternatives(kind) if t is not types.NoneType]
    return " or ".join(dict.fromkeys(n for n in named if n))


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


@cache
def explanations(schema: type) -> dict[str, str]:
    """Field -> the comment beside its declaration, in `schema` or a class that it inherits from."""
    found: dict[str, str] = {}
    for owner in reversed(schema.__mro__):
        if is_dataclass(owner):
            found |= _comments(owner)
    return found


def _comments(owner: type) -> dict[str, str]:
    source = textwrap.dedent(inspect.getsource(owner))
    said: dict[int, str] = {
        token.start[0]: token.string.lstrip("# ").strip()
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    (body,) = ast.parse(source).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            own = [said[n] for n in range(node.lineno, (node.end_lineno or node.lineno) + 1) if n in said]
            found[node.target.id] = " ".join(own) or said.get(node.lineno - 1, "") * _alone(source, node.lineno - 1)
    return found


def _alone(source: str, number: int) -> bool:
    """Whether line `number` is nothing but a comment."""
    return source.split("\n")[number - 1].lstrip().startswith("#")


def render(job: str, schema: type, *, width: int | None = None) -> str:
    """All keys as lines for a person, at most `width` characters long (by itself: the terminal's)."""
    width = width or max(NARROWEST, min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns))
    mine = list(keys(job, schema))
    parts = [
        ("Required:", [key for key in mine if key.default == REQUIRED]),
        ("Keys and their defaults:", [key for key in mine if key.default != REQUIRED]),
    ]
    if "resources" in config.groups(job):
        parts.append((f"STAGE: {', '.join(stages())}; resources= sets:", list(stage_keys())))
    return "\n\n".join("\n".join([title, *(_lines(key, width) for key in some)]) for title, some in parts if some)


def _lines(key: HelpKey, width: int) -> str:
    head = f"  {key.name}" if key.default in (REQUIRED, REST) else f"  {key.name}={key.default}"
    kind = f"({key.kind})" if key.kind else ""
    said = " ".join(part for part in (kind, key.text) if part)
    if key.options:
        said += f"{'; ' if said else ''}one of {', '.join(key.options)}, or a .yaml file of yours"
    gap = " " * KEY_COLUMN
    wrapped = textwrap.wrap(said, width, initial_indent=gap, subsequent_indent=gap, break_on_hyphens=False)
    if len(head) < KEY_COLUMN and wrapped:
        return "\n".join([head.ljust(KEY_COLUMN) + wrapped[0].lstrip(), *wrapped[1:]])
    return "\n".join([head, *wrapped])
