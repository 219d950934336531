"""Fill a template with every combination of values -> table `texts`, the queries of a search.

    remine prompts out=R/prompts  # CAIRE's 20 concepts in 10 countries
    remine prompts template='a photo of {thing}' axes='{thing: [bread, rice]}' out=R/prompts

An axis is a list of values, or a text file with one value per line. The column `source` has a text's values as JSON.
Next steps: remine embed input=R/prompts, remine retrieve queries=… k=8, remine choose.
"""

import itertools
import json
import string
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from actors.ids import content_id
from actors.untrusted import text_lines
from jobs.errors import InputError
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.job_tables import write_rows
from jobs.runtime.outcomes import Manifest
from jobs.store.files import locations

# CAIRE's 200 prompts (sections 4.2, C.2): concepts found in every culture, in 10 countries.
AXES = {
    "concept": (
        *("breakfast", "clothing", "dance", "drinks", "dessert", "dinner", "farming", "festival", "eating habits"),
        *("funeral", "greetings", "head coverings", "instrument", "lunch", "marriage", "music", "religion", "ritual"),
        *("sports", "transport"),
    ),
    "country": (
        *("China", "India", "United States", "Brazil", "Nigeria", "Russia", "Mexico", "Egypt", "Germany", "Indonesia"),
    ),
}
MAX_PROMPTS = 1_000_000  # more indicate a mistake in the axes


@dataclass
class PromptsConfig:
    """Keys of `prompts`."""

    out: str = MISSING  # the table of texts to write
    template: str = "A realistic photo of {concept} in {country}"  # text with the names of axes in braces
    axes: dict[str, Any] = field(default_factory=dict)  # axis -> list of values, or a .txt file
    # values of axes that the template names and axes= omits
    default_axes: dict[str, Any] = field(default_factory=lambda: {axis: list(values) for axis, values in AXES.items()})
    language: str = "en"  # BCP 47 tag of the texts


def execute(cfg: PromptsConfig) -> Manifest:
    """Run the job and return the manifest; see the module's docstring."""
    axes = {name: _values(name, setting) for name, setting in _axes(cfg).items()}
    rows = prompts(cfg.template, axes, cfg.language)
    manifest = write_rows(cfg, "texts", rows, {"template": cfg.template, "axes": axes, "language": cfg.language})
    size = " x ".join(f"{len(values)} {name}" for name, values in axes.items())
    line = f"prompts: {manifest['out']}\n  {len(rows):,} = {size}; the first: {rows[0]['text']}"
    return Manifest(manifest, [line])


def _axes(cfg: PromptsConfig) -> dict[str, Any]:
    """Return the setting of each axis: the entries of default_axes in the template, then those of axes."""
    names = {name for _, name, _, _ in _fields(cfg.template) if name is not None}
    defaults = {name: setting for name, setting in cfg.default_axes.items() if name in names}
    return defaults | dict(cfg.axes)


def _fields(template: str) -> list[tuple[str, str | None, str | None, str | None]]:
    """Return the template's pieces: literal text, name, format and conversion."""
    try:
        return list(string.Formatter().parse(template))
    except ValueError as error:
        raise InputError(str(error), key="template", value=template) from error


def prompts(template: str, axes: Mapping[str, Sequence[str]], language: str) -> list[dict[str, Any]]:
    """Return rows of the table `texts`; the last axis varies fastest.

    Args:
        template: text with the names of axes in braces.
        axes: axis -> its values.
        language: BCP 47 tag of the texts.

    Raises:
        InputError: template and axes have different names, or there are more than a million combinations.
    """
    pieces = _fields(template)
    fields = {name: bool(layout or conversion) for _, name, layout, conversion in pieces if name is not None}
    if formatted := next((name for name, is_formatted in fields.items() if is_formatted), None):
        raise InputError(f"write {{{formatted}}} without format or conversion", key="template", value=template)
    names = set(fields)
    if missing := sorted(names - set(axes)):
        why = f"no axis {missing[0]!r}; the axes are {', '.join(sorted(axes)) or 'none'}"
        raise InputError(why, key="template", value=template, remedy=f"set axes.{missing[0]}= to its values")
    if unused := sorted(set(axes) - names):
        raise InputError(
            f"the template does not use it; remove it, or add {{{unused[0]}}} to the template",
            key=f"axes.{unused[0]}",
            value=axes[unused[0]],
        )
    size = 1
    for values in axes.values():
        size *= len(values)
    if not axes or size > MAX_PROMPTS:
        raise InputError(
            f"axes: {size:,} prompts; must be 1 to {MAX_PROMPTS:,}" if axes else "axes={}: must have an axis"
        )
    rows = []
    for combination in itertools.product(*axes.values()):
        values_by_axis = dict(zip(axes, combination, strict=True))
        text = "".join(literal + (values_by_axis[name] if name is not None else "") for literal, name, _, _ in pieces)
        rows.append(
            {
                "text_id": content_id("prompt", language, text),
                "role": "prompt",
                "language": language,
                "date": None,
                "source": json.dumps(values_by_axis, ensure_ascii=False, separators=(",", ":")),
                "revision": None,
                "text": text,
            }
        )
    return rows


def _values(name: str, setting: Any) -> list[str]:
    is_file = isinstance(setting, str) and setting.lower().endswith(".txt")
    entries = _lines(locations.find(setting)[0].uri) if is_file else setting
    if isinstance(entries, str) or not isinstance(entries, Sequence):
        why = "must be a list of values, or a .txt file with one value per line"
        raise InputError(why, key=f"axes.{name}", value=setting)
    # YAML parses words such as false or null as values of other types.
    if other_types := [
        value for value in entries if isinstance(value, bool) or not isinstance(value, str | int | float)
    ]:
        raise InputError(f"{other_types[0]!r} is not a text; put it in quotes", key=f"axes.{name}", value=setting)
    values = [str(value).strip() for value in entries if str(value).strip()]
    if not values:
        raise InputError("has no values; at least one is required", key=f"axes.{name}", value=setting)
    if duplicate := next((value for value in values if values.count(value) > 1), None):
        raise InputError(f"duplicate {duplicate!r}; name each value once", key=f"axes.{name}", value=setting)
    return values


def _lines(uri: str) -> list[str]:
    try:
        return text_lines(locations.read_bytes(uri).decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 (byte {error.start}); save the file as UTF-8", place=uri) from error


JOB = cli.Job("prompts", PromptsConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("prompts"))
