"""Text of `--help`, the keys of a job with their defaults and explanations, and their completion in shells.

The explanation of a key is its comment (`jobs.runtime.configuration.key_types`). A comment that begins with
`rarely:` puts the key, and those below it, in a separate section. Keys that choose a file of `conf/` are listed with
the available files.
"""

import inspect
import re
import shutil
import textwrap
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from types import NoneType
from typing import Any, get_origin

from jobs.runtime.configuration import config, config_files
from jobs.runtime.configuration.key_types import (
    MISSING,
    RARELY,
    all_comments,
    alternatives,
    defaults,
    explanations,
    groups,
    hints,
    nested_dataclass,
    type_of,
)
from jobs.runtime.configuration.resources import Resources, StageResources

REQUIRED, REST = MISSING, "…"  # in place of a default: the key is required; its keys are listed below it
NONE = "null"  # the default of a key that chooses no file
KEY_COLUMN = 36  # characters; the explanation of a longer key starts on the next line
WIDEST, NARROWEST = 120, 80
SHOWN = 60  # characters of a list or a text; --cfg prints all of it
KINDS = {str: "text", int: "int", float: "number", bool: "true or false", list: "list", dict: "{name: value}"}


@dataclass(frozen=True)
class HelpKey:
    """One key of the command line; `options` are the files of conf/ that it can choose, if any."""

    name: str
    default: str
    kind: str
    text: str
    options: tuple[str, ...] = ()
    rare: bool = False  # few users set it


def keys(job: str, schema: type) -> Iterator[HelpKey]:
    """Yield the keys of `job`, without those of `resources` (see `stage_keys`).

    First come the keys that choose a file of conf/ (except those that choose none by default), then the keys of this
    job alone, those that it shares with some jobs, and those of every job; each group in the order of declaration.
    """
    chosen = {name: option or NONE for name, option in groups(schema).items()}
    listed = _below(schema, config.compose(job, schema, []), chosen, "", rare=False)
    yield from sorted(listed, key=lambda key: _rank(key.name.split(".")[0], chosen, _separate_names(schema)))


def _rank(name: str, chosen: Mapping[str, str], separate: Container[str]) -> int:
    if _is_common(name):
        return 3
    return 0 if chosen.get(name, NONE) != NONE else 1 if name in separate else 2


def _separate_names(schema: type) -> set[str]:
    """Return the fields of the first class, among `schema` and its bases, that declares more than other choices."""
    for owner in schema.__mro__:
        declared = inspect.get_annotations(owner).keys()
        inherited = {field.name for base in owner.__bases__ if is_dataclass(base) for field in fields(base)}
        if declared - inherited:
            return declared - (inherited & groups(owner).keys())
    return set()


def stage_keys(stage: str | None = None) -> Iterator[HelpKey]:
    """Yield the keys of this stage under `resources`, or of any pool of actors, then those of Ray itself."""
    of_stage = hints(Resources)[stage] if stage else StageResources
    texts = explanations(of_stage)
    for name, kind in hints(of_stage).items():
        yield HelpKey(f"resources.STAGE.{name}", REST, _kind(kind), texts.get(name, ""))
    texts = explanations(Resources)
    for name, kind in hints(Resources).items():
        if not is_dataclass(kind):
            yield HelpKey(f"resources.{name}", REST, _kind(kind), texts.get(name, ""))


def stages() -> list[str]:
    """Return the values of STAGE in `resources.STAGE.KEY`."""
    return [name for name, kind in hints(Resources).items() if kind is StageResources]


def _below(schema: type, values: Any, chosen: Mapping[str, str], prefix: str, *, rare: bool) -> Iterator[HelpKey]:
    for field in fields(schema):
        name, kind, comment = prefix + field.name, hints(schema)[field.name], all_comments(schema)[field.name]
        if field.name == "name" and prefix.rstrip(".") in chosen:
            continue  # the name of a file of conf/: the group's key chooses another file
        is_group, inner, value = not prefix and field.name in chosen, nested_dataclass(kind), values[field.name]
        is_rare = rare or comment.startswith(RARELY)
        text = comment.removeprefix(RARELY) or (_first_line(inner) if inner else "")
        if is_group:
            yield HelpKey(name, chosen[field.name], "", text, config_files.options(field.name, inner), rare=is_rare)
        elif inner is not None:
            yield HelpKey(f"{name}.…", REST, "", text, rare=is_rare)
        if inner is not None and inner is not Resources and value != REQUIRED:
            below = _below(inner, defaults(inner) if value is None else value, chosen, f"{name}.", rare=is_rare)
            for key in below:
                yield replace(key, default=NONE) if value is None and key.default == REQUIRED else key
        elif inner is None and not is_group:
            entries = value if isinstance(value, dict) and value else None
            for entry in entries or ():
                yield HelpKey(f"{name}.{entry}", _format_default(value[entry]), "", text, rare=is_rare)
            if entries is None:
                yield HelpKey(name, _format_default(value), _kind(kind), text, rare=is_rare)


def _first_line(schema: type) -> str:
    return (schema.__doc__ or "").strip().split("\n", 1)[0].rstrip(".")


def _format_default(value: Any) -> str:
    """Return a default as a user would type it, shortened."""
    if isinstance(value, list):
        inside = ",".join(map(str, value)) if all(isinstance(v, str | int | float) for v in value) else "…"
        return f"[{textwrap.shorten(inside, SHOWN, placeholder='…')}]"
    if isinstance(value, dict):
        return "{…}" if value else "{}"
    if isinstance(value, bool) or value is None:
        return {None: "null", True: "true", False: "false"}[value]
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def _kind(kind: Any) -> str:
    names = [KINDS.get(get_origin(t) or t, "") for t in alternatives(kind) if t is not NoneType]
    return " or ".join(dict.fromkeys(name for name in names if name))


def render(job: str, schema: type, *, pools: Sequence[str] = (), width: int | None = None) -> str:
    """Return all keys as lines of at most `width` characters; None: the width of the terminal, within limits.

    Args:
        pools: the stages that the job uses; empty: all.
    """
    width = width or max(NARROWEST, min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns))
    job_keys = list(keys(job, schema))
    set_keys = [key for key in job_keys if key.default != REQUIRED]
    sections = [
        ("Required:", [key for key in job_keys if key.default == REQUIRED]),
        ("Keys and their defaults:", [key for key in set_keys if not (key.rare or _is_common(key.name))]),
        ("Keys of every job:", [key for key in set_keys if not key.rare and _is_common(key.name)]),
        ("Rarely needed:", [key for key in set_keys if key.rare]),
    ]
    if "resources" in groups(schema):
        sections.append((f"STAGE: {', '.join(pools or stages())}; resources= sets:", list(stage_keys(*pools[:1]))))
    return "\n\n".join(
        "\n".join([title, *(_lines(key, width) for key in entries)]) for title, entries in sections if entries
    )


def short_keys(schema: type, words: Sequence[str]) -> list[str]:
    """Return the keys that may be written short, with their comments, as the file of the chosen option has them.

    Args:
        words: the words of the command line, which choose the option.
    """
    chosen = [(group, option) for group, option in config.group_of_short(schema, words).items() if option]
    mapping = getattr(schema, "SHORT", "").rpartition(".")[2]
    lines = []
    for group, option in chosen:
        block = re.search(rf"^ *{mapping}:\n((?: +.*\n|\n)+)", config_files.text_of(group, option), re.MULTILINE)
        lines += ["", f"Keys of {group}={option}, where ??? is required:", *(block[1].splitlines() if block else [])]
    return lines


def _is_common(name: str) -> bool:
    """Return whether every job that writes a table, or that uses Ray, has the key."""
    return name.split(".", maxsplit=1)[0] in {field.name for field in fields(config.Common)}


def _lines(key: HelpKey, width: int) -> str:
    head = f"  {key.name}" if key.default in (REQUIRED, REST) else f"  {key.name}={key.default}"
    kind = f"({key.kind})" if key.kind else ""
    text = " ".join(part for part in (kind, key.text) if part)
    if key.options:
        text += f"{'; ' if text else ''}one of {', '.join(key.options)}, or your own .yaml file"
    gap = " " * KEY_COLUMN
    wrapped = textwrap.wrap(text, width, initial_indent=gap, subsequent_indent=gap, break_on_hyphens=False)
    if len(head) < KEY_COLUMN and wrapped:
        return "\n".join([head.ljust(KEY_COLUMN) + wrapped[0].lstrip(), *wrapped[1:]])
    return "\n".join([head, *wrapped])


def completions(job: str, schema: type, before: list[str], word: str) -> list[str]:
    """Return the keys or values that begin with `word`, after the words `before` of the same job.

    A word without `=` is completed to `key=`, in the form in which it was typed (`--key`), without keys that are
    already given; a value is completed to the files of its group in `conf/`, or to true and false.
    """
    dashes = "--" if word.startswith("-") else ""
    options = {key.name: key.options for key in keys(job, schema) if not key.name.endswith(".…")}

    def values(key: str) -> tuple[str, ...]:
        return options.get(key) or (("true", "false") if bool in alternatives(type_of(schema, key)) else ())

    name, equals, _ = word.removeprefix(dashes).partition("=")
    if equals:
        texts = [f"{dashes}{name}={value}" for value in values(name)]
    elif not dashes and before and before[-1].startswith("--") and "=" not in before[-1]:
        texts = list(values(before[-1].removeprefix("--")))
    else:
        present = {text.removeprefix("--").partition("=")[0] for text in before}
        texts = [f"{dashes}{key}{'' if dashes else '='}" for key in options if key not in present]
    return [text for text in texts if text.startswith(word)]
