"""Fill a template with every combination of values -> table `texts`, to be embedded and searched for.

    python -m jobs.prompts out=R/prompts  # CAIRE's 20 concepts in 10 countries
    python -m jobs.prompts template='a photo of {thing}' axes='{thing: [bread, rice]}' out=R/prompts

An axis is a list of values, or a text file with one a line. The column `source` of a text tells its values as JSON.
Then: jobs.embed input=R/prompts, jobs.retrieve queries=… k=8, jobs.choose.
"""

import itertools
import json
import string
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from omegaconf import MISSING

from actors.ids import content_id
from jobs.errors import InputError
from jobs.runtime import cli
from jobs.runtime.config import plain
from jobs.runtime.console import say
from jobs.store import locations
from jobs.store.single_unit import write_small
from jobs.tables import TABLES

MOST = 1_000_000  # prompts; more is a mistake in the axes


@dataclass
class PromptsConfig:
    """Keys of `prompts`."""

    out: str = MISSING  # the table of texts to be written
    template: str = MISSING  # names of axes in braces
    axes: dict[str, Any] = field(default_factory=dict)  # axis -> list of values, or a .txt file
    default_axes: dict[str, Any] = field(default_factory=dict)  # axes that the template names and axes= leaves out
    language: str = "en"  # BCP 47 tag of the texts


def execute(cfg: PromptsConfig) -> dict[str, Any]:
    """Run the job; see the module's docstring. Returns the manifest."""
    axes = {name: _values(name, given) for name, given in _chosen(cfg).items()}
    rows = prompts(cfg.template, axes, cfg.language)
    made = pa.Table.from_pylist(rows, schema=TABLES["texts"].schema())
    identity = {"template": cfg.template, "axes": axes, "language": cfg.language}
    manifest = write_small(cfg.out, made, table="texts", identity=identity, config=plain(cfg))
    size = " x ".join(f"{len(values)} {name}" for name, values in axes.items())
    say(f"prompts: {manifest['out']}\n  {len(rows):,} = {size}; the first: {rows[0]['text']}")
    return manifest


def _chosen(cfg: PromptsConfig) -> dict[str, Any]:
    """axis -> its values as configured: first those of default_axes that the template names, then those of axes."""
    named = {name for _, name, _, _ in _fields(cfg.template) if name is not None}
    defaults = {name: values for name, values in cfg.default_axes.items() if name in named}
    return defaults | dict(cfg.axes)


def _fields(template: str) -> list[tuple[str, str | None, str | None, str | None]]:
    """The template's pieces: what stands before a name, the name, its format and conversion."""
    try:
        return list(string.Formatter().parse(template))
    except ValueError as error:
        raise InputError(f"template={template!r}: {error}") from error


def prompts(template: str, axes: Mapping[str, Sequence[str]], language: str) -> list[dict[str, Any]]:
    """Rows of the table `texts`, the last axis running fastest.

    Raises:
        InputError: template and axes do not name the same, or there are more than a million combinations.
    """
    pieces = _fields(template)
    fields = {name: bool(layout or conversion) for _, name, layout, conversion in pieces if name is not None}
    if formatted := next((name for name, is_formatted in fields.items() if is_formatted), None):
        raise InputError(f"template={template!r}: {{{formatted}}} alone; it takes no format")
    named = set(fields)
    if missing := sorted(named - set(axes)):
        raise InputError(
            f"template={template!r}: no axis {missing[0]!r}; there are {', '.join(sorted(axes)) or 'none'}"
        )
    if unused := sorted(set(axes) - named):
        raise InputError(f"axes.{unused[0]}: the template does not name it, every prompt would stand there twice")
    size = 1
    for values in axes.values():
        size *= len(values)
    if not axes or size > MOST:
        raise InputError(f"axes: {size:,} prompts; 1 to {MOST:,}" if axes else "axes: at least one")
    rows = []
    for combination in itertools.product(*axes.values()):
        chosen = dict(zip(axes, combination, strict=True))
        text = "".join(literal + (chosen[name] if name is not None else "") for literal, name, _, _ in pieces)
        rows.append(
            {
                "text_id": content_id("prompt", language, text),
                "role": "prompt",
                "language": language,
                "date": None,
                "source": json.dumps(chosen, ensure_ascii=False, separators=(",", ":")),
                "revision": None,
                "text": text,
            }
        )
    return rows


def _values(name: str, given: Any) -> list[str]:
    if isinstance(given, str):
        if not given.lower().endswith(".txt"):
            raise InputError(f"axes.{name}={given}: a list of values, or a .txt file with one a line")
        given = _lines(locations.find(given)[0].uri)
    if not isinstance(given, Sequence):
        raise InputError(f"axes.{name}={given}: a list of values, or a .txt file with one a line")
    # A word such as false or null is read as what it says: nobody means that in a prompt.
    if odd := [value for value in given if isinstance(value, bool) or not isinstance(value, str | int | float)]:
        raise InputError(f"axes.{name}: {odd[0]!r} is no text; put it in quotes")
    values = [str(value).strip() for value in given if str(value).strip()]
    if not values:
        raise InputError(f"axes.{name}: no value in it")
    if twice := next((value for value in values if values.count(value) > 1), None):
        raise InputError(f"axes.{name}: {twice!r} stands twice")
    return values


def _lines(uri: str) -> list[str]:
    try:
        return locations.read_bytes(uri).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{uri}: not UTF-8 (byte {error.start})") from error


JOB = cli.Job("prompts", PromptsConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("prompts"))
